"""Words that are near to a misspelt one."""

from __future__ import annotations

import pytest

from hsdns.explanation.nearest import COMPARED, MOST_COMPARED, close_words

MANY = dict.fromkeys(f"svc-{number:05}" for number in range(3 * MOST_COMPARED))


def close(word: str, words: dict[str, None], most: int = 3) -> list[str]:
    return [each for each in close_words(word, words, most) if each is not None]


@pytest.mark.parametrize("word", ["wbe", "we", "webb", "wed", "eb"])
def test_one_letter_away(word: str) -> None:
    assert close(word, {"web": None, "mail": None}) == ["web"]


def test_more_than_one_letter_away() -> None:
    assert close("payment", {"payments-api": None, "web": None}) == ["payments-api"]
    assert close("zzz", {"payments-api": None, "web": None}) == []


def test_one_letter_is_found_among_any_number() -> None:
    last = f"svc-{3 * MOST_COMPARED - 1:05}"
    assert close(f"x{last}", MANY, 1) == [last]


def test_others_run_meanwhile() -> None:
    found = list(close_words("s-other", MANY, 3))
    assert found.count(None) >= MOST_COMPARED // COMPARED


def test_only_words_that_begin_or_end_alike_are_compared() -> None:
    words = {"payments-api": None, "my-payment": None, "xpaymentsx": None}
    assert sorted(close("payment", words)) == ["my-payment", "payments-api"]
