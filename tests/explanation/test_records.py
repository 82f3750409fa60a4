"""The rule behind the fields of each record."""

from __future__ import annotations

import pytest

from hsdns.cluster.history import History, Noted
from hsdns.cluster.objects import Object
from hsdns.cluster.source import Lead
from hsdns.cluster.value import PackedSlice, Port, join_labels
from hsdns.explanation.explain import Explainer
from hsdns.explanation.observed import Edges
from hsdns.explanation.question import read_question
from hsdns.explanation.records import (
    MOST,
    MOST_FACTS,
    PIECE,
    past,
    record_reports,
    table_state,
    table_text,
)
from hsdns.explanation.report import TableState
from hsdns.fastpath import Peeked, _python
from hsdns.wire.decode import decode
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests.support.cluster.explained import KnownObjects, explain
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

OBJECTS: list[Object] = [
    namespace("shop"),
    service("shop/db"),
    endpoint_slice(
        "shop/db-1", "db", "10.0.0.1", "10.0.0.2", "10.0.0.3", ports=["http/TCP/80", "grpc/TCP/90"]
    ),
]
DB = "db.shop.svc.cluster.local."


def rules(question: str, text: str = "", **options: str) -> list[list[str]]:
    return [each.rules for each in explain(question, *OBJECTS, text=text, **options).records]


def test_weight() -> None:
    assert rules(f"{DB} SRV")[1] == [
        "TTL 5 from `ttl` of kubernetes",
        "priority 0, weight 16 = 100 / 6 (6 pairs of an address and a port)",
    ]
    found = rules("10-0-0-1.shop.pod.cluster.local. SRV", pods="insecure")
    assert found[0][1] == "weight 100 = 100 / the pods with the address"


def test_others_run_between_records() -> None:
    replies = [RR(Name.from_text(DB), RRType.A, 5, bytes((10, 0, 0, i))) for i in range(3 * PIECE)]
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    reply = Reply(answer=tuple(replies))
    found, _ = turns(record_reports(reply, (), None, None, pause))
    assert [each.rdata for each in found] == [f"10.0.0.{i}" for i in range(3 * PIECE)]
    assert pauses == 3


# Whether the answer table stores a reply, and whether it has it now.


OBJECTS_TABLE = (namespace("shop"), service("shop/web", "10.96.0.1"))
WEB = "web.shop.svc.cluster.local"
DENIED = Peeked(True, None, None)
STORED = "not stored yet"


@pytest.mark.parametrize(
    ("front", "pods", "question", "told"),
    [
        ("", "insecure", WEB, STORED),
        ("", "insecure", f"x{WEB}", STORED),
        ("cache\n", "insecure", WEB, STORED),
        ("", "insecure", f"{WEB} TYPE99", "not stored: replies for SPF never are"),
        ("", "insecure", "10-0-0-1.shop.pod.cluster.local", STORED),
        ("", "verified", "10-0-0-1.shop.pod.cluster.local", "not stored: what it depends on changes without notice"),
        ("erratic\n", "insecure", "x.example", ""),
        ("whoami\n", "insecure", "example.test", ""),
    ],
)  # fmt: skip
def test_what_becomes_of_a_reply(front: str, pods: str, question: str, told: str) -> None:
    text = f"cluster.local {{\n{front}kubernetes {{\npods {pods}\n}}\n}}\n"
    server = MemoryServer(text, _python, OBJECTS_TABLE)
    seeing = {id(each): KnownObjects(OBJECTS_TABLE) for each in server.plugins}
    edges = Edges(server.runtime.queries.spawn, counters=server.runtime.counters)
    name, _, rrtype = question.partition(" ")
    coro = Explainer(server.configuration, seeing, edges).explain(*read_question(name, rrtype), 0.0)
    assert turns(coro)[0].table == told


def state(hits: dict[tuple[str, str], Peeked]) -> TableState:
    """What two servers have for a question at second 20; `hits` by server and form of the query."""

    def peek(server: str, query: bytes, now: float) -> Peeked | None:
        edns = decode(query).edns
        form = "plain" if edns is None else "DO" if edns.do else "EDNS"
        assert now == 20.0
        return hits.get((server, form))

    return table_state(peek, ("one", "two"), Query.ask(*read_question(WEB)), 20.0)


@pytest.mark.parametrize(
    ("hits", "found", "told"),
    [
        ({}, TableState([], False, None, None), "not stored yet"),
        (
            {("two", "EDNS"): Peeked(False, None, None)},
            TableState(["with EDNS"], False, None, None),
            "stored for queries with EDNS",
        ),
        (
            {("one", "plain"): DENIED, ("two", "DO"): DENIED},
            TableState(["without EDNS", "with EDNS and DO"], True, None, None),
            "denies it, like all names that do not exist in the zone",
        ),
        (
            {("one", "plain"): Peeked(False, 8.0, 38.0), ("one", "EDNS"): Peeked(False, 8.0, 38.0)},
            TableState(["without EDNS", "with EDNS"], False, 12.0, 18.0),
            "stored for queries without EDNS, with EDNS, since 12 s and for 18 s more",
        ),
    ],
)
def test_what_the_table_has_now(
    hits: dict[tuple[str, str], Peeked], found: TableState, told: str
) -> None:
    assert state(hits) == found
    assert table_text("", found) == told


# The last changes behind a name.


DB_PAST = (b"shop", b"db")
LEAD = Lead((b"shop",), (DB_PAST,))
PORTS = (Port(b"http", b"tcp", 80),)


def part(*hosts: int, labels: tuple[bytes | None, ...] | None = None) -> tuple[PackedSlice, ...]:
    addresses = b"".join(bytes((10, 0, host // 256, host % 256)) for host in hosts)
    return (PackedSlice("db-1", "1", 4, addresses, join_labels(labels or ()), PORTS),)


def noted(
    before: tuple[PackedSlice, ...], after: tuple[PackedSlice, ...], written: str = ""
) -> Noted:
    return Noted(1.5, DB_PAST, "changed", "EndpointSlice", "db-1", "2", written, before, after)


def history(*changes: Noted) -> History:
    made = History()
    for each in changes:
        made.note(each)
    return made


def test_a_change() -> None:
    written = "1970-01-01T00:00:01Z"
    (found,) = past(history(noted(part(1), part(2), written)), LEAD, b"")
    assert (found.object, found.event) == ("EndpointSlice shop/db-1", "changed")
    assert (found.added, found.removed) == (["10.0.0.2"], ["10.0.0.1"])
    assert found.served == "1970-01-01T00:00:01.500Z"
    assert (found.written, found.took) == (written, 500.0)


def test_of_an_endpoint_only_what_has_its_label() -> None:
    ring = history(
        noted(part(1, labels=(b"db-0",)), part(2, labels=(b"db-0",))),
        noted(part(2, labels=(b"db-0",)), part(2, 3, labels=(b"db-0", b"db-1"))),
    )
    (found,) = past(ring, LEAD, b"db-0")
    assert (found.added, found.removed) == (["10.0.0.2 db-0"], ["10.0.0.1 db-0"])
    assert past(ring, LEAD, b"db-9") == []


def test_it_is_bounded() -> None:
    ring = history(*(noted(part(), part(*range(MOST_FACTS + 5))) for _ in range(MOST + 5)))
    found = past(ring, LEAD, b"")
    assert len(found) == MOST
    assert found[0].added[-1] == "and 5 more"
    assert len(found[0].added) == MOST_FACTS + 1
