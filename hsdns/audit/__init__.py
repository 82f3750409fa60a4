"""Checks that DNS servers answer every name of a cluster as its objects define.

Path: audit/cli.py -> run.py (every name; sends queries, with the sender of load/, and judges)
-> report.py (text, gauges, JSON), page.py.
"""
