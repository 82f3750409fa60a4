"""Judges whether a figure is within its limit and reaches its aim, in words.

Path: answering/goals.py, watch/goals.py -> here.
"""

from __future__ import annotations


def holds(value: float | None, limit: float | None) -> bool:
    """Whether a figure is within its limit; always true without one, and false if it was not measured."""
    return limit is None or (value is not None and value <= limit)


def verdict(value: float | None, limit: float | None, aim: float | None) -> str:
    """The verdict in one or two words."""
    if value is None:
        return "not measured"
    if not holds(value, limit):
        return "FAILS"
    if aim is not None and value > aim:
        return "holds, aim missed" if limit is not None else "aim missed"
    return "holds" if aim is None else "aim reached"
