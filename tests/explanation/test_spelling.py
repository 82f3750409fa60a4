"""Words that are near to a misspelt one."""

from __future__ import annotations

from hsdns.explanation.nearest import COMPARED, MOST_COMPARED, close_words

MANY = dict.fromkeys(f"svc-{number:05}" for number in range(3 * MOST_COMPARED))


def test_others_run_meanwhile() -> None:
    found = list(close_words("s-other", MANY, 3))
    assert found.count(None) >= MOST_COMPARED // COMPARED
