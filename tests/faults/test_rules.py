"""A set of rules: names, order, ends, counts, and rules that exclude each other."""

from __future__ import annotations

import logging
import sys
from collections import deque
from random import Random
from threading import Thread
from typing import Any

import pytest

from hsdns.faults import rules as module
from hsdns.faults.rules import RuleError, Rules, hits_metric
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from tests.faults.queries import SERVERS, asked


class Set:
    """Rules with their metric; `spent` counts what on_spent() was called for."""

    def __init__(self, *texts: str) -> None:
        self.metrics = Registry()
        self.rules = Rules(Random(1), hits_metric(self.metrics))
        self.spent = 0
        self.rules.on_spent = self._count
        for text in texts:
            self.add(text)

    def add(self, text: str, now: float = 0.0) -> str:
        rule = self.rules.make(read_rule(text.split(), SERVERS), now, 600.0)
        self.rules.add(rule)
        return rule.name

    def decide(self, query: str, now: float = 0.0) -> str:
        return " ".join(bite.rule.name for bite in self.rules.decide(asked(query), now))

    @property
    def hits(self) -> dict[tuple[str, ...], float]:
        return hits_metric(self.metrics).values

    def _count(self) -> None:
        self.spent += 1


def test_names() -> None:
    found = Set()
    assert [found.add(f"drop type {each}") for each in ("A", "AAAA")] == ["drop-1", "drop-2"]
    assert found.add("delay 1s named slow") == "slow"
    found.rules.remove("drop-1")
    assert found.add("drop type SRV") == "drop-3"  # the counts of drop-1 are still known


def test_seed_is_drawn_where_none_is_given() -> None:
    seeds = [next(iter(Set("drop").rules.standing.values())).seed for _ in range(2)]
    assert seeds[0] == seeds[1] > 0
    assert next(iter(Set("drop seed 7").rules.standing.values())).seed == 7


def test_order_is_that_of_coming() -> None:
    found = Set("delay 1s type A named a", "rcode SERVFAIL named b", "ttl 5 type A named c")
    assert found.decide("x. A") == "a b c"
    assert found.decide("x. SRV") == "b"
    assert [each.name for each in found.rules.all] == ["a", "b", "c"]
    assert [(number, line["rule"]) for number, line in found.rules.lines] == [
        (1, "a"), (2, "b"), (3, "c"), (4, "b"),
    ]  # fmt: skip
    assert found.hits == {("a",): 1, ("b",): 2, ("c",): 1}


def test_ends() -> None:
    found = Set("drop for 10s named a", "drop type A times 1 named b", "drop type SRV named c")
    assert found.rules.next_end == 10.0
    assert found.decide("x. A", 9.0) == "a b"
    assert found.spent == 1
    assert [each.name for each in found.rules.expire(9.0)] == ["b"]
    assert [each.name for each in found.rules.expire(10.0)] == ["a"]
    assert found.decide("x. A", 10.0) == ""
    assert found.rules.next_end == 600.0
    assert [(each.name, each.ended, each.hits) for each in found.rules.all] == [
        ("b", "spent", 1), ("a", "expired", 1), ("c", "", 0),
    ]  # fmt: skip
    assert [each.name for each in found.rules.clear()] == ["c"]
    assert found.rules.next_end is None


@pytest.mark.parametrize(
    ("standing", "text", "sentence"),
    [
        ("drop named a", "drop type A named a", 'a rule named "a" stands already; remove it, or use another name'),
        ("drop type A named a", "nxdomain type A", 'it excludes the rule "a" (drop), which answers the same queries; remove one of the two'),
        ("nodata named a", "nxdomain", 'it excludes the rule "a" (nodata), which answers the same queries; remove one of the two'),
        ("drop type A named a", "drop type AAAA", ""),
        ("drop type A share 0.5 named a", "nxdomain type A share 0.5", ""),
        ("drop type A times 1 named a", "nxdomain type A", ""),
        ("drop named a", "delay 1s", ""),
        ("hang transport tcp named a", "refuse transport tcp", 'it excludes the rule "a" (hang), which decides about the same connections; remove one of the two'),
        ("hang transport tcp named a", "reset 5 transport dot", ""),
        ("slow 5 named a", "reset 5", ""),
        ("drop transport tcp named a", "hang transport tcp", ""),
        ("queue-full named a", "queue-full", 'it excludes the rule "a" (queue-full), which sheds the same queries; remove one of the two'),
        ("restart named a", "die 5s", 'it excludes the rule "a" (restart), which restarts the process at the same time; remove one of the two'),
        ("restart named a", "die 5s after 5s", ""),
    ],
)  # fmt: skip
def test_rules_that_exclude_each_other(standing: str, text: str, sentence: str) -> None:
    found = Set(standing)
    if not sentence:
        found.add(text)
        return
    with pytest.raises(RuleError) as caught:
        found.add(text)
    assert str(caught.value) == sentence
    assert list(found.rules.standing) == ["a"]


def test_remove_what_does_not_stand() -> None:
    with pytest.raises(RuleError) as caught:
        Set("drop named lossy").rules.remove("losy")
    assert str(caught.value) == 'no rule named "losy" stands; did you mean "lossy"?'


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that stand, rules that have ended with their values of the metric, and lines."""
    monkeypatch.setattr(module, "MAX_STANDING", 3)
    found = Set(*(f"drop nth {number} named r{number}" for number in (1, 2, 3)))
    with pytest.raises(RuleError) as caught:
        found.add("drop")
    assert str(caught.value) == "3 rules stand already, which is the most; remove one"
    for number in range(module.MAX_ENDED + 5):
        found.rules.clear()
        found.add(f"delay 0s named s{number}")
    assert len(found.rules.ended) == module.MAX_ENDED
    assert len(found.hits) == module.MAX_ENDED + 1
    for _ in range(module.MAX_LINES + 1):
        found.decide("x. A")
    assert len(found.rules.lines) == module.MAX_LINES


class SlowLines(deque[tuple[int, dict[str, Any]]]):
    """Lets other threads run before each line."""

    def append(self, line: tuple[int, dict[str, Any]]) -> None:
        for _ in range(1000):
            pass
        super().append(line)


def test_two_threads_may_bite() -> None:
    """As rules about the watch do, beside those about queries."""
    found = Set("drop named a", "watch away named b")
    found.rules.lines = SlowLines(maxlen=module.MAX_LINES)

    def bite() -> None:
        for _ in range(300):
            found.rules.stop(found.rules.standing["b"], "services", "list", 0.0)

    thread, interval = Thread(target=bite), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        seen, shown = 0, list[str]()
        for _ in range(300):
            found.decide("x. A")
            seen, lines = found.rules.after(seen)
            shown += [line["rule"] for line in lines]
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    seen, lines = found.rules.after(seen)
    shown += [line["rule"] for line in lines]
    assert [number for number, _ in found.rules.lines] == [*range(1, 601)]
    assert (seen, shown.count("a"), shown.count("b")) == (600, 300, 300)


def test_a_name_may_come_again() -> None:
    found = Set("drop named a")
    found.decide("x. A")
    found.rules.clear()
    found.add("drop named a")
    assert [(each.name, each.hits) for each in found.rules.all] == [("a", 0)]
    assert found.hits == {("a",): 1}  # a counter does not go back


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hsdns.faults")
    found = Set("drop type A seed 7 for 10s named a")
    found.decide("Web.test A 10.0.0.1")
    found.decide("Web.test A 10.0.0.1")
    found.rules.expire(10.0)
    assert [record.message for record in caplog.records] == [
        'plugin/fault: the rule "a" stands for 10s: drop type A seed 7 for 10s named a',
        'plugin/fault: first hit of the rule "a": web.test. A over udp from 10.0.0.1',
        'plugin/fault: the rule "a" has ended (expired), hits: 2',
    ]


def test_foresee() -> None:
    found = Set("drop type A named a", "drop share 0.5 named b", "drop type SRV named c")
    assert [(rule.name, will) for rule, will in found.rules.foresee(asked("x. A"), 0.0)] == [
        ("a", True), ("b", False),
    ]  # fmt: skip
    assert found.hits == {("a",): 0, ("b",): 0, ("c",): 0}
