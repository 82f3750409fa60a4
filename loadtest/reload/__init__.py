"""Whether a query is lost when the server reloads and when it ends.

`python -m loadtest.reload` runs it; one file, measure.py.
"""
