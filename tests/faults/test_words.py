"""The text of rules: what it means, written again in one way, and what is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hsdns.faults.action import Restart
from hsdns.faults.rules import RuleError
from hsdns.faults.words import ACTIONS, OPTIONS, SELECTORS, read_rule
from hsdns.wire.iana import rcode_to_text
from tests.faults.queries import SERVERS, make_rule, table

LISTS = {
    "actions": ", ".join(ACTIONS),
    "selectors": ", ".join(SELECTORS),
    "rcodes": ", ".join(map(rcode_to_text, range(1, 11))),
}


def canonical(text: str) -> str:
    wanted = read_rule(text.split(), SERVERS)
    words = [wanted.action.text, wanted.selector.text]
    options = {
        "seed": wanted.seed,
        "times": wanted.times,
        "for": wanted.lifetime,
        "named": wanted.name,
    }
    words += [f"{name} {value}" for name, value in options.items() if value is not None]
    return " ".join(filter(None, words))


@pytest.mark.parametrize(("text", "expected"), table("meaning"))
def test_meaning(text: str, expected: str) -> None:
    assert canonical(text) == expected
    if " for " not in expected:  # its text is that of a rule, in seconds here
        assert canonical(expected) == expected


def test_every_word_has_a_row() -> None:
    rows = [str(row.values[0]).split() for row in table("meaning")]
    assert {*ACTIONS, *SELECTORS, *OPTIONS} <= {word for row in rows for word in row}


@pytest.mark.parametrize(("text", "expected"), table("errors"))
def test_errors(text: str, expected: str) -> None:
    with pytest.raises(RuleError) as caught:
        read_rule(text.split(), SERVERS)
    assert f"{caught.value.at} {caught.value}" == expected.format(**LISTS)


@pytest.mark.parametrize(("text", "expected"), table("restarts"))
def test_restarts(text: str, expected: str) -> None:
    """Seconds that it is dead, pending queries, the second when it is due, and how often."""
    rule = make_rule(text)
    assert isinstance(rule.action, Restart)
    found = (rule.action.dead, rule.action.pending, rule.selector.seconds, rule.times)
    assert " ".join(f"{each:g}" if each is not None else "None" for each in found) == expected


WORDS = [*ACTIONS, *SELECTORS, *OPTIONS, *"or not ( ) 7 1s A below é 0.5".split()]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
@example(["answer", "(", "below", "a\\)b\\\\."])
def test_any_words(words: list[str]) -> None:
    """Any words are a rule whose text means the same, or a sentence."""
    try:
        wanted = read_rule(words, SERVERS)
    except RuleError as error:
        assert 0 <= error.at < max(len(words), 1)
        return
    again = read_rule(f"{wanted.action.text} {wanted.selector.text}".split(), SERVERS)
    assert (again.action.text, again.selector.text) == (wanted.action.text, wanted.selector.text)
