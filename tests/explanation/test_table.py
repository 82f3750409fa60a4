"""Whether the answer table stores a reply, and whether it has it now."""

from __future__ import annotations

import pytest

from hsdns.explanation.explain import Explainer
from hsdns.explanation.live import KnownObjects
from hsdns.explanation.observed import Edges
from hsdns.explanation.question import read_question
from hsdns.explanation.records import table_state, table_text
from hsdns.explanation.report import TableState
from hsdns.fastpath import Peeked, _python
from hsdns.wire.decode import decode
from hsdns.wire.message import Query
from tests.support.cluster.objects import namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

OBJECTS = (namespace("shop"), service("shop/web", "10.96.0.1"))
WEB = "web.shop.svc.cluster.local"
DENIED = Peeked(True, None, None)
STORED = "stored once it was asked for, until an object that it depends on changes"

OFTEN = "stored if it is asked for again, or made like those of all addresses"


@pytest.mark.parametrize(
    ("front", "pods", "question", "told"),
    [
        ("", "insecure", WEB, STORED),
        ("", "insecure", f"x{WEB}", STORED),
        ("cache\n", "insecure", WEB, STORED),
        ("", "insecure", f"{WEB} TYPE99", "not stored: replies for SPF are not"),
        ("", "insecure", "10-0-0-1.shop.pod.cluster.local", OFTEN),
        ("", "verified", "10-0-0-1.shop.pod.cluster.local", "not stored: it also depends on what tells no changes"),
        ("erratic\n", "insecure", "x.example", ""),
        ("whoami\n", "insecure", "example.test", ""),
    ],
)  # fmt: skip
def test_what_becomes_of_a_reply(front: str, pods: str, question: str, told: str) -> None:
    text = f"cluster.local {{\n{front}kubernetes {{\npods {pods}\n}}\n}}\n"
    server = MemoryServer(text, _python, OBJECTS)
    seeing = {id(each): KnownObjects(OBJECTS) for each in server.plugins}
    edges = Edges(server.runtime.queries.spawn, counters=server.runtime.counters)
    name, _, rrtype = question.partition(" ")
    coro = Explainer(server.configuration, seeing, edges).explain(*read_question(name, rrtype), 0.0)
    lacks = "; it does not have it now" if told in (STORED, OFTEN) else ""
    assert turns(coro)[0].table == told + lacks


def test_a_plugin_that_must_see_every_query() -> None:
    text = ". {\nwhoami\n}\n"
    server = MemoryServer(text, _python)
    edges = Edges(server.runtime.queries.spawn, counters=server.runtime.counters)
    coro = Explainer(server.configuration, {}, edges).explain(*read_question("a.test"), 0.0)
    assert turns(coro)[0].table == "not stored: it has no kubernetes plugin"


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
        ({}, TableState([], False, None, None), "it does not have it now"),
        (
            {("two", "EDNS"): Peeked(False, None, None)},
            TableState(["with EDNS"], False, None, None),
            "it has it now, for queries with EDNS",
        ),
        (
            {("one", "plain"): DENIED, ("two", "DO"): DENIED},
            TableState(["without EDNS", "with EDNS and DO"], True, None, None),
            "it denies the name now, as all that do not exist in the zone",
        ),
        (
            {("one", "plain"): Peeked(False, 8.0, 38.0), ("one", "EDNS"): Peeked(False, 8.0, 38.0)},
            TableState(["without EDNS", "with EDNS"], False, 12.0, 18.0),
            "it has it now, for queries without EDNS, with EDNS, since 12 s and for 18 s more",
        ),
    ],
)
def test_what_the_table_has_now(
    hits: dict[tuple[str, str], Peeked], found: TableState, told: str
) -> None:
    assert state(hits) == found
    assert table_text("stored", found) == f"stored; {told}"
