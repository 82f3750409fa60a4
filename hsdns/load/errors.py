"""What is wrong with a load test before it begins.

Path: every module of load/ raises it; cli/load.py prints it.
"""


class LoadError(Exception):
    """A sentence for the operator: where, what, what to do."""


def sentence_of(error: Exception) -> str:
    """What an error says to the operator; an OSError of a file names it, without a number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)
