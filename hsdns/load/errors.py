"""Errors that prevent a load test.

Path: every module of load/ raises it; cli/load.py prints it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hsdns.errors import OperatorError


class LoadError(OperatorError):
    """A sentence for the operator: where, what, what to do."""


@contextmanager
def naming_files(hint: str = "") -> Iterator[None]:
    """Raise an OSError of a file as a LoadError with its name, but no error number; `hint` ends its sentence."""
    try:
        yield
    except OSError as error:
        if error.filename is None or not error.strerror:
            raise
        sentence = f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}{hint}"
        raise LoadError(sentence) from None
