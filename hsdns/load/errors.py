"""Errors that prevent a load test.

Path: every module of load/ raises it; cli/load.py prints it.
"""

from hsdns.errors import OperatorError


class LoadError(OperatorError):
    """A sentence for the operator: where, what, what to do."""


def sentence_of(error: Exception) -> str:
    """The message of an error for the operator; for an OSError of a file, its name but no error number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)
