"""Which queries, connections and misses a rule hits, in order; and to which zones they may come."""

from __future__ import annotations

import pytest

from hsdns.chain import Endpoint
from hsdns.faults import selector
from hsdns.faults.selector import Asked, Zone
from hsdns.faults.words import read_rule
from hsdns.wire.name import Name
from tests.faults.queries import PODS, SERVERS, asked, make_rule, marks, table, time_of
from tests.support.plugins.requests import make_request


def dropped(selectors: str, queries: str, seed: int = 1) -> str:
    each = queries.split(" | ")
    return marks(
        make_rule(f"drop {selectors}", seed), list(map(asked, each)), list(map(time_of, each))
    )


@pytest.mark.parametrize(("row", "hits"), table("hits"))
def test_queries(row: str, hits: str) -> None:
    text, queries = row.split(" ; ")
    assert dropped(text, queries) == hits


def test_share_is_drawn_for_what_comes_so_far() -> None:
    """The queries of another type do not change which ones are chosen."""
    alone = dropped("type AAAA share 0.5", " | ".join(["a. AAAA"] * 40), seed=7)
    mixed = dropped("type AAAA share 0.5", " | ".join(["a. AAAA | a. A"] * 40), seed=7)
    assert mixed[::2] == alone
    assert set(mixed[1::2]) == {"0"}
    assert 10 < alone.count("1") < 30
    assert dropped("type AAAA share 0.5", " | ".join(["a. AAAA"] * 40), seed=8) != alone


@pytest.mark.parametrize(
    ("text", "queries", "hits"),
    [
        ("nth 1", "a. | b. | c. | b. | a.", "11101"),
        ("flow first", "x. 10.0.0.1#1 | x. 10.0.0.1#2 | x. 10.0.0.2 | x. 10.0.0.1#2 | x. 10.0.0.1#1", "11101"),
    ],
)  # fmt: skip
def test_what_is_remembered_is_bounded(
    text: str, queries: str, hits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen first is forgotten, and is new when it comes again."""
    monkeypatch.setattr(selector, "MAX_REMEMBERED", 2)
    assert dropped(text, queries) == hits


def unread(server: str, client: str, local: str = "127.0.0.1", protocol: str = "tcp") -> Asked:
    return Asked.unread(server, protocol, Endpoint(client, 5), Endpoint(local, 53), PODS.get)


CONNECTIONS = [
    unread(SERVERS[0], "10.0.0.1"),
    unread(SERVERS[1], "10.0.0.2"),
    unread(SERVERS[2], "192.0.2.9"),
    unread(SERVERS[0], "10.9.0.9", "127.0.0.2"),
]
# Over TCP there is no queue.
MISSES = [
    unread(SERVERS[0], client, protocol=protocol)
    for client, protocol in (("10.0.0.1", "udp"), ("10.0.0.2", "udp"), ("10.0.0.1", "tcp"))
]


@pytest.mark.parametrize(("text", "hits"), [*table("connections"), *table("misses")])
def test_connections_and_misses(text: str, hits: str) -> None:
    """One a second."""
    come = MISSES if text.startswith("queue-full") else CONNECTIONS
    assert marks(make_rule(text), come, [float(age) for age in range(len(come))]) == hits


@pytest.mark.parametrize(("row", "expected"), table("foreseen"))
def test_foreseen(row: str, expected: str) -> None:
    text, query = row.split(" ; ")
    found = read_rule(f"drop {text}".split(), SERVERS).selector.foresee(asked(query), 0.0)
    assert str(found) == expected


ZONES = {
    "root": Zone("dns://:53", Name.from_text("."), [Name.from_text("cluster.local.")]),
    "cluster": Zone("dns://:53", Name.from_text("cluster.local."), []),
    "tls": Zone("tls://:853", Name.from_text("."), []),
}


@pytest.mark.parametrize(("text", "expected"), table("zones"))
def test_zones(text: str, expected: str) -> None:
    """Names at the apex of a deeper zone are of both, because of DS."""
    found = read_rule(f"drop {text.replace('any', '')}".split(), SERVERS).selector
    assert " ".join(name for name, zone in ZONES.items() if found.touches(zone)) == expected


@pytest.mark.parametrize(
    ("server", "protocol", "transport"),
    [("dns://:53", "udp", "udp"), ("dns://127.0.0.1:53", "tcp", "tcp"), ("tls://:853", "tcp", "dot"), ("https://:443", "tcp", "doh")],
)  # fmt: skip
def test_what_a_rule_sees_of_a_request(server: str, protocol: str, transport: str) -> None:
    request = make_request("Web.test", "AAAA", server=server, protocol=protocol, client="10.0.0.1")
    assert Asked.of(request, PODS.get) == Asked(
        Name.from_text("Web.test."), 28, transport, Endpoint("10.0.0.1", 40000), "127.0.0.1", server, PODS.get
    )  # fmt: skip
