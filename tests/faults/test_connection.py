"""Connections: what their rules may ask, and that they see no query."""

from __future__ import annotations

import pytest

from hsdns.chain import Endpoint
from hsdns.faults.rules import RuleError
from hsdns.faults.selector import Asked
from hsdns.faults.words import read_rule
from tests.faults.queries import PODS, SERVERS, asked, make_rule

KNOWN = "client, pod, asked, listener, transport, share, nth, after, before"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("refuse name web.test", f'"refuse" is decided when a client connects, so it has no "name"; it has {KNOWN}'),
        ("hang client 10.0.0.1 not type A", f'"hang" is decided when a client connects, so it has no "type"; it has {KNOWN}'),
        ("slow 10 nth 2 or flow first", f'"slow" is decided when a client connects, so it has no "flow"; it has {KNOWN}'),
        ("reset 4 name below test", f'"reset" is decided when a client connects, so it has no "name"; it has {KNOWN}'),
    ],
)  # fmt: skip
def test_selectors_of_queries_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(RuleError) as caught:
        read_rule(text.split(), SERVERS)
    assert str(caught.value) == sentence


def connection(server: str, client: str, local: str = "127.0.0.1") -> Asked:
    return Asked.unread(server, "tcp", Endpoint(client, 5), Endpoint(local, 53), PODS.get)


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("refuse", "1111"),
        ("refuse transport dot", "0100"),
        ("refuse listener https://:443", "0010"),
        ("refuse client 10.0.0.0/8", "1101"),
        ("refuse pod shop/*", "1100"),
        ("refuse asked 127.0.0.2", "0001"),
        ("refuse nth 2", "0100"),
        ("refuse client 10.0.0.0/8 nth 3", "0001"),
        ("refuse share 0.5", "1001"),
        ("refuse after 2s before 3s", "0010"),
        ("refuse not ( transport tcp or transport doh )", "0100"),
        ("refuse times 2", "1100"),
    ],
)
def test_connections_that_are_hit(text: str, hits: str) -> None:
    """One a second, over TCP, TLS, HTTPS and TCP."""
    rule = make_rule(text)
    come = [
        connection(SERVERS[0], "10.0.0.1"),
        connection(SERVERS[1], "10.0.0.2"),
        connection(SERVERS[2], "192.0.2.9"),
        connection(SERVERS[0], "10.9.0.9", "127.0.0.2"),
    ]
    found = [rule.decide(each, float(age)) for age, each in enumerate(come)]
    assert "".join("1" if each else "0" for each in found) == hits


def test_the_same_seed_hits_the_same_connections() -> None:
    """Whatever the ports, which the kernels of clients choose."""
    clients = [f"10.0.{number % 3}.{number}" for number in range(40)]
    digests = []
    for seed, port in ((7, 1), (7, 999), (8, 1)):
        rule = make_rule("refuse share 0.5", seed)
        for client in clients:
            asked = connection(SERVERS[0], client)._replace(client=Endpoint(client, port))
            rule.decide(asked, 0.0)
        digests.append(rule.digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_query_is_no_connection() -> None:
    assert make_rule("hang").decide(asked("a.test"), 0.0) is None  # over UDP


def test_the_line_of_a_hit_has_no_question() -> None:
    bite = make_rule("slow 100").decide(connection(SERVERS[1], "10.0.0.1"), 0.0)
    assert bite is not None
    assert bite.line == {
        "rule": "r", "hit": 1, "query": 1, "client": "10.0.0.1", "transport": "dot", "action": "slow 100",
    }  # fmt: skip
