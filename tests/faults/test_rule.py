"""How long a rule stands, what it counts, and that its seed decides everything."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.faults.rules import Rule
from tests.faults.queries import asked, make_rule

NAMES = ("web.test", "api.test", "x.web.test")


@pytest.mark.parametrize(
    ("text", "times", "hits", "why"),
    [
        ("drop", [0, 1, 1e9], 3, ""),
        ("drop for 10s", [0, 9.99, 10, 11], 2, "expired"),
        ("drop times 2", [0, 1, 2, 3], 2, "spent"),
        ("drop times 2 for 1s", [0, 5], 1, "expired"),
        ("drop type SRV times 1", [0, 1], 0, ""),
    ],
)
def test_end(text: str, times: list[float], hits: int, why: str) -> None:
    rule = make_rule(text, begun=100.0)
    found = [rule.decide(asked("a. A"), 100.0 + time) for time in times]
    assert sum(each is not None for each in found) == rule.hits == hits
    assert rule.is_over(100.0 + times[-1]) == why


def test_text_is_all_of_it() -> None:
    rule = make_rule("drop  type aaaa share .5 named x times 3 for 90s seed 7")
    assert rule.text == "drop type AAAA share 0.5 seed 7 times 3 for 1m30s named x"
    assert make_rule(rule.text).text == rule.text


def test_line() -> None:
    """What is in it does not depend on the time, nor on the client's port."""
    rule = make_rule("delay normal 1s 200ms type AAAA", seed=7)
    assert rule.decide(asked("Web.test A"), 0.5) is None
    bite = rule.decide(asked("Web.test AAAA dot 10.0.0.1#5"), 1.5)
    assert bite is not None
    assert json.dumps(bite.line) == (
        '{"rule": "r", "hit": 1, "query": 2, "client": "10.0.0.1", "transport": "dot", "name": "web.test.", '
        f'"type": "AAAA", "action": "delay normal 1s 200ms", "drawn": {bite.drawn}}}'
    )


def log_of(rule: Rule, queries: list[str]) -> bytes:
    found = [rule.decide(asked(each), float(at)) for at, each in enumerate(queries)]
    return b"".join(json.dumps(each.line).encode() + b"\n" for each in found if each is not None)


@given(
    st.sampled_from(["drop share 0.3", "delay pareto 1ms 2 share 0.7", "shuffle nth 2 or share 0.2"]),
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["A", "AAAA"])), max_size=60),
)  # fmt: skip
def test_seed_decides(text: str, seed: int, questions: list[tuple[str, str]]) -> None:
    queries = [" ".join(each) for each in questions]
    one, two = (make_rule(text, seed) for _ in range(2))
    log = log_of(one, queries)
    assert log_of(two, queries) == log
    assert (one.digest, one.hits, one.seen) == (two.digest, two.hits, len(queries))


def test_another_seed_decides_otherwise() -> None:
    queries = ["web.test A"] * 100
    logs = {log_of(make_rule("drop share 0.5", seed), queries) for seed in range(5)}
    assert len(logs) == 5


def test_foresee_changes_nothing() -> None:
    rule = make_rule("drop type A share 0.5 for 10s")
    assert [rule.foresee(asked(f"a. {each}"), 1.0) for each in ("A", "SRV")] == [None, False]
    assert rule.foresee(asked("a. A"), 10.0) is False
    assert make_rule("truncate").foresee(asked("a. A tcp"), 0.0) is False
    assert (rule.seen, rule.hits, rule.digest) == (0, 0, make_rule("drop").digest)
