"""Checks that DNS servers answer every name of a cluster as its objects define.

Path: cli/audit.py -> questions.py (every name) -> run.py (sends queries, with the sender of load/) -> answers.py (one
server) -> report.py -> text.py, page.py, gauges.py.
"""
