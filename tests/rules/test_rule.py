"""Rules as their pages say them, and how one is found by a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.rules.rule import RETIRED, find_rule, rules
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")


def test_a_code_is_given_once() -> None:
    """codes.txt has all codes that ever were: a rule is added at its end, and a code that goes is retired."""
    lines = (Path(__file__).parent / "codes.txt").read_text().split("\n")
    given = dict(each.split(" ") for each in lines if each)
    assert len(given) == len(lines) - 1
    assert {code: each.name for code, each in rules().items()} == {
        code: name for code, name in given.items() if code not in RETIRED
    }
    assert RETIRED.keys() <= given.keys()


def test_a_retired_rule_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RETIRED, "HS900", "A thing is wrong; HS901 finds it")
    with pytest.raises(ValueError, match="no longer exists") as caught:
        find_rule("hs900")
    assert str(caught.value) == "rule HS900 no longer exists: A thing is wrong; HS901 finds it"


@pytest.mark.parametrize(("word", "message"), values(TABLES, "no rule is found"))
def test_no_rule_is_found(word: str, message: str) -> None:
    with pytest.raises(ValueError, match="there is no rule") as caught:
        find_rule(word)
    assert str(caught.value) == message


# The table of checks.
