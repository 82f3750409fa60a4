"""The process: what its rules may ask, and when they are due."""

from __future__ import annotations

import pytest

from hsdns.chain import Endpoint
from hsdns.faults.action import Restart
from hsdns.faults.rules import RuleError
from hsdns.faults.selector import Asked
from hsdns.faults.words import read_rule
from tests.faults.queries import PODS, SERVERS, make_rule

KNOWN = "client, pod, asked, listener, share, nth, after, before"
ONE = 'is about the process, so "after TIME" is the only selector that it has, once'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("queue-full type A", f'"queue-full" is decided before a query is read, so it has no "type"; it has {KNOWN}'),
        ("queue-full transport udp", f'"queue-full" is decided before a query is read, so it has no "transport"; it has {KNOWN}'),
        ("die 1s client 10.0.0.1", f'"die" {ONE}'),
        ("restart not after 1s", f'"restart" {ONE}'),
        ("restart after 1s or after 2s", f'"restart" {ONE}'),
        ("restart before 1s", f'"restart" {ONE}'),
        ("die", '"die" needs a duration such as 200ms or 5s, from 0s to 168h0m0s'),
        ("die 1s pending 0", '"0" is not a number of queries from 1 to 1000000'),
    ],
)  # fmt: skip
def test_refused(text: str, sentence: str) -> None:
    with pytest.raises(RuleError) as caught:
        read_rule(text.split(), SERVERS)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "dead", "pending", "due", "times"),
    [
        ("restart", 0.0, None, 0.0, 1),
        ("restart after 5s", 0.0, None, 5.0, 1),
        ("die 10s", 10.0, None, 0.0, 1),
        ("die 10s pending 500 after 1m", 10.0, 500, 60.0, None),
        ("die 10s pending 500 times 3", 10.0, 500, 0.0, 3),
    ],
)
def test_restarts(
    text: str, dead: float, pending: int | None, due: float, times: int | None
) -> None:
    rule = make_rule(text)
    assert isinstance(rule.action, Restart)
    found = (rule.action.dead, rule.action.pending, rule.selector.seconds, rule.times)
    assert found == (dead, pending, due, times)


def miss(client: str, server: str = SERVERS[0], protocol: str = "udp") -> Asked:
    return Asked.unread(server, protocol, Endpoint(client, 5), Endpoint("127.0.0.1", 53), PODS.get)


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("queue-full", "110"),
        ("queue-full client 10.0.0.1", "100"),
        ("queue-full pod shop/web-1", "010"),
        ("queue-full nth 2", "010"),
        ("queue-full after 1s", "010"),
    ],
)
def test_misses_that_are_shed(text: str, hits: str) -> None:
    """Two over UDP, one over TCP, where there is no queue."""
    rule = make_rule(text)
    come = [miss("10.0.0.1"), miss("10.0.0.2"), miss("10.0.0.1", protocol="tcp")]
    found = [rule.decide(each, float(age)) for age, each in enumerate(come)]
    assert "".join("1" if each else "0" for each in found) == hits


def test_a_rule_at_work_is_not_spent() -> None:
    rule = make_rule("die 5s for 10s")
    rule.is_at_work = True
    assert rule.strike().line == {"rule": "r", "hit": 1, "query": 1, "action": "die 5s"}
    assert (rule.is_over(1.0), rule.is_over(10.0)) == ("", "expired")
    rule.is_at_work = False
    assert (rule.is_over(1.0), rule.is_lifted(1.0), rule.is_lifted(10.0)) == ("spent", False, True)
