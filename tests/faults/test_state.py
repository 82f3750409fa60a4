"""Which state answers a query, and for how long the states of rules are needed."""

from __future__ import annotations

import pytest

from hsdns.faults.rules import Bite
from hsdns.faults.state import StateAction, decisive, earlier_for, needs
from hsdns.faults.words import read_rule
from tests.faults.queries import asked, make_rule


def moment(text: str, begun: float, now: float) -> float | None:
    action = read_rule(text.split()).action
    assert isinstance(action, StateAction)
    return action.moment(begun, now)


@pytest.mark.parametrize(
    ("text", "times", "expected"),
    [
        ("freeze", (10.0, 12.0, 500.0), (10.0, 10.0, 10.0)),
        ("lag 5s", (10.0, 12.0, 15.0, 16.0, 500.0), (10.0, 10.0, 10.0, 11.0, 495.0)),
        ("flap 2s", (10.0, 11.9, 12.0, 13.9, 14.0, 16.0), (10.0, 10.0, None, None, 10.0, None)),
    ],
)
def test_moments(text: str, times: tuple[float, ...], expected: tuple[float | None, ...]) -> None:
    found = [moment(text, 10.0, now) for now in times]
    assert [None if each is None else pytest.approx(each, abs=1e-9) for each in found] == [
        *expected
    ]
    assert found[0] is not None
    assert found[0] < 10.0, "a change in the instant of the beginning is not in its state"


def test_the_oldest_state_answers() -> None:
    rules = [make_rule(each, begun=10.0) for each in ("lag 5s", "flap 1s", "freeze", "drop")]
    bites = [Bite(each, None, {}) for each in rules]
    found = earlier_for(bites, 21.5)
    assert found is not None
    assert found.time == pytest.approx(10.0)
    assert [each.rule.action.text for each in decisive(bites, found, 21.5)] == ["freeze"]
    assert [each.rule.action.text for each in decisive(bites, found, 20.5)] == ["flap 1s", "freeze"]
    assert earlier_for(bites[1:2] + bites[3:], 21.5) is None


def test_needs() -> None:
    rules = [make_rule(each, begun=10.0) for each in ("lag 5s", "drop", "freeze", "flap 1s")]
    assert [(round(each.since, 6), each.window) for each in needs(rules)] == [
        (10.0, 5.0), (10.0, 0.0), (10.0, 0.0),
    ]  # fmt: skip
    assert all(each.since < 10.0 for each in needs(rules))


def test_a_hit_is_counted_late() -> None:
    rule = make_rule("freeze")
    bite = rule.decide(asked("web.test"), 0.0)
    assert bite is not None
    assert (rule.hits, rule.seen) == (0, 1)
    before = rule.digest
    rule.count(bite)
    assert (rule.hits, bite.line["hit"], bite.line["query"]) == (1, 1, 1)
    assert rule.digest != before


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("watch away", ["services", "pods"]),
        ("watch forbidden pods", ["pods"]),
    ],
)
def test_resources(text: str, about: list[str]) -> None:
    rule = make_rule(text)
    found = [each for each in ("services", "pods") if rule.action.is_about(each)]  # type: ignore[attr-defined]
    assert (found, rule.action.about) == (about, "watch")
