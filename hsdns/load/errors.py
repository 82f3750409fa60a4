"""What is wrong with a load test before it begins.

Path: every module of load/ raises it; cli/load.py prints it.
"""


class LoadError(Exception):
    """A sentence for the operator: where, what, what to do."""
