"""Checks whether queries are lost when the server reloads or shuts down.

`python -m loadtest.reload` runs it; one file, measure.py.
"""
