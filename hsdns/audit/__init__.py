"""Checks that DNS servers answer every name of a cluster as its objects define.

Path: cli/audit.py -> questions.py (every name) -> run.py (sends queries, with the sender of load/) -> run.py (one
server) -> report.py -> report.py, page.py, report.py.
"""
