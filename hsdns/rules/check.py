"""The table of checks: a function for each rule, which yields remarks about objects.

Path: checks/ -> here -> judging.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects

Check = Callable[[Objects], Iterator[Remark]]

CHECKS: Final[dict[str, Check]] = {}


def check(code: str) -> Callable[[Check], Check]:
    """Register a function as the check of a rule."""

    def enter(function: Check) -> Check:
        assert code not in CHECKS, f"two checks have the code {code}"
        CHECKS[code] = function
        return function

    return enter
