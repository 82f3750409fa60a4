"""The table of checks."""

from collections.abc import Iterator

import pytest

from hsdns.rules.objects import CHECKS, Objects, check
from hsdns.rules.rule import Remark


def nothing(objects: Objects) -> Iterator[Remark]:
    yield from ()


def test_a_check_is_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHECKS, "HS901", nothing)
    monkeypatch.delitem(CHECKS, "HS901")
    assert check("HS901")(nothing) is nothing
    assert CHECKS.pop("HS901") is nothing
