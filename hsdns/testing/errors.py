"""Exceptions for invalid calls, with a sentence for the author of a test, and the check of keywords.

Path: all of testing/ raises them.
Rule 1: a sentence names the nearest word that exists.
Rule 2: for an invalid call, pytest shows the line of the test and not the lines of this package: each module that
        raises a ClusterError has `__tracebackhide__ = hides`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar
from unittest import SkipTest

from hsdns.corefile.tree import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


class ClusterError(Exception):
    """A call that a cluster cannot carry out; the text says what to do."""


class NoNamespaces(ClusterError, SkipTest):
    """This machine does not allow the namespaces of a pod; pytest and unittest skip the test and show the reason."""


def hides(raised: Any) -> bool:
    """Whether pytest hides a module in the traceback of an exception (a pytest.ExceptionInfo)."""
    return isinstance(raised.value, ClusterError)


def unknown(what: str, word: str, known: Iterable[str]) -> ClusterError:
    """The error for an unknown word, with the nearest known word, or all known words."""
    words = sorted(known)
    listed = f"; there is {', '.join(words)}" if words else "; there is none yet"
    return ClusterError(f'{what} "{word}"{did_you_mean(word, words) or listed}')


def check_keywords(call: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError with the nearest keyword for one that a call does not have."""
    for word in given:
        if word not in known:
            hint = did_you_mean(word, known) or f"; it has {', '.join(known)}"
            raise TypeError(f'{call}() has no keyword "{word}"{hint}')


def checks_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Check the keywords of a function."""
    known = [
        name
        for name, each in signature(function).parameters.items()
        if name != "self" and each.kind is not Parameter.VAR_POSITIONAL
    ]
    call = "Cluster" if function.__name__ == "__init__" else function.__name__

    @wraps(function)
    def checked(*args: P.args, **keywords: P.kwargs) -> R:
        __tracebackhide__ = True  # pytest shows the line of the test
        check_keywords(call, keywords, known)
        return function(*args, **keywords)

    return checked
