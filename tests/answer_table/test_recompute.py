"""Replies that are made again before anybody asks: the same as those of the chain, and only where somebody has asked."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import dns.message
import pytest

from hsdns.answer_table import recompute
from hsdns.answer_table.recompute import ASKED, RecomputedNames, key_of
from hsdns.cluster.freshness import ANYTHING
from hsdns.cluster.objects import Deleted, Upserted
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from tests.answer_table.corefiles import OBJECTS, STOCK, TABLES, block, hosts, lines
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask
from tests.support.tables import section

WEB, DB = "web.default.svc.cluster.local.", "db.default.svc.cluster.local."
CHANGES = {
    "another-address": Upserted(service("default/web", "10.96.0.9", version="2")),
    "endpoints": Upserted(
        endpoint_slice(
            "default/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.7 host=db-2", version="2"
        )
    ),
}


def recomputes(server: MemoryServer, wire: bytes) -> bool:
    """Recompute the reply to a query and store it, if that is possible."""
    return server.writer.recompute(wire, server.runtime.now) is not None


@pytest.mark.parametrize(
    "text", section(TABLES, "blocks whose replies are recomputed").splitlines()
)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("question", "options"),
    [
        (WEB, {}),
        (WEB, {"edns": Edns(1232, do=True)}),
        (WEB + " AAAA", {}),
        (DB, {}),
        (DB + " SRV", {"edns": Edns(4096)}),
        ("db-0." + DB, {}),
    ],
)
def test_it_is_what_the_chain_answers(
    twin: ModuleType, text: str, change: str, question: str, options: dict[str, Any]
) -> None:
    memory_server = MemoryServer(block(lines(text)), twin, OBJECTS)
    memory_server.runtime.now = time.monotonic()  # storing looks at the real clock
    wire = ask(question, **options)
    memory_server.from_chain(wire)
    assert memory_server.from_table(wire) is not None
    memory_server.apply(CHANGES[change])
    is_ended = memory_server.from_table(wire) is None
    assert is_ended is (question.startswith("web") is (change == "another-address"))
    assert recomputes(memory_server, wire)
    found, expected = (memory_server.from_table(wire), memory_server.from_chain(wire, stores=False))
    assert found is not None
    assert expected is not None
    assert found[:12] == expected[:12]
    # In any order: `loadbalance` draws lots, the table turns.
    messages = dns.message.from_wire(found), dns.message.from_wire(expected)
    assert messages[0] == messages[1]
    assert messages[0].ednsflags == messages[1].ednsflags


def test_the_first_one_who_asks_counts_as_if_the_chain_had_answered(twin: ModuleType) -> None:
    """A mark of `cache` that has ended is not set by a reply that nobody has asked for."""
    counted = []
    for is_first in (True, False):
        memory_server = MemoryServer(block(f"cache 30\n{KUBERNETES}"), twin, OBJECTS)
        memory_server.runtime.now = time.monotonic()
        if not is_first:
            memory_server.from_chain(ask(WEB))
        else:
            assert recomputes(memory_server, ask(WEB))
            assert memory_server.from_table(ask(WEB)) is not None
        for _ in range(3):
            assert memory_server.from_table(ask(WEB)) is not None
        memory_server.writer.hits.count()
        text = memory_server.runtime.metrics.to_text().decode()
        counted.append([line for line in text.splitlines() if "cache_hits" in line or "misses" in line])  # fmt: skip
    assert counted[0] == counted[1]


@pytest.mark.parametrize(
    ("text", "question", "change"),
    [
        pytest.param(KUBERNETES, WEB, Deleted(service("default/web")), id="gone"),
        pytest.param(
            KUBERNETES,
            WEB,
            Upserted(service("default/web", external="www.example.org", version="2")),
            id="leads-out",
        ),
        pytest.param(
            f"rewrite ttl {WEB} 9\n{KUBERNETES}",
            WEB,
            CHANGES["another-address"],
            id="another-handler",
        ),
        pytest.param(hosts(f"192.0.2.1 {WEB}"), WEB, CHANGES["another-address"], id="before-it"),
        pytest.param("whoami\n" + KUBERNETES, WEB, CHANGES["another-address"], id="not-stored"),
        pytest.param("forward . 192.0.2.1", "www.example.org.", None, id="no-cluster"),
    ],
)
def test_what_is_left_to_who_asks(
    twin: ModuleType, text: str, question: str, change: Upserted | Deleted | None
) -> None:
    memory_server = MemoryServer(block("cache\n" + text if "whoami" in text else text) if change else block("cache\n" + text), twin, OBJECTS)  # fmt: skip
    if change is not None:
        memory_server.apply(change)
    if memory_server.has_table:
        assert not recomputes(memory_server, ask(question))
        assert memory_server.from_table(ask(question)) is None


def test_stock_names_are_found_by_their_counters(twin: ModuleType) -> None:
    memory_server = MemoryServer(STOCK, twin, OBJECTS)
    names = memory_server.writer.recomputed
    kept = [WEB, WEB + " AAAA", DB, DB + " SRV", "1.0.96.10.in-addr.arpa. PTR"]
    others = ["cluster.local. NS", "nope.default.svc.cluster.local.", "1-2-3-4.default.pod.cluster.local."]  # fmt: skip
    for question in (*kept, *others):
        for _ in range(3):
            memory_server.from_chain(ask(question))
        assert memory_server.from_table(ask(question)) is not None
    assert sorted(names.queries()) == sorted(map(ask, kept))


QUERIES = [ask(f"{number}.example.") for number in range(6)]
KEYS = [key_of(decode(wire)) for wire in QUERIES]


def named(*counters: tuple[int, ...]) -> RecomputedNames:
    names = RecomputedNames()
    for wire, each in zip(QUERIES, counters, strict=False):
        names.add(key_of(decode(wire)), wire, each)
    return names


def test_names_end_with_any_of_their_counters() -> None:
    names = named((1, 2), (2, 3), (4,), (), (5, ANYTHING))
    assert len(names) == 3
    assert names.invalidated([]) == []
    assert names.invalidated([2]) == KEYS[:2]
    assert names.invalidated([3, 4, 2]) == [KEYS[1], KEYS[2], KEYS[0]]
    assert names.invalidated([ANYTHING]) == []
    names.forget(KEYS[1])
    names.forget(KEYS[1])
    assert names.invalidated([2, 3]) == KEYS[:1]
    assert KEYS[1] not in names.by_key


def test_asked_or_not() -> None:
    names = named((1,))

    def found(key: bytes) -> tuple[bytes, tuple[int, ...], int] | None:
        name = names.by_key.get(key)
        return None if name is None else (name.query, name.counters, name.uses)

    assert found(KEYS[0]) is None, "not taken in yet"
    assert names.invalidated([1]) == KEYS[:1]
    assert found(KEYS[0]) == (QUERIES[0], (1,), ASKED)
    names.note_recomputed(KEYS[0], (2,), 1)
    assert (names.invalidated([1]), names.invalidated([2])) == ([], KEYS[:1])
    assert found(KEYS[0]) == (QUERIES[0], (2,), 1)
    names.note_recomputed(KEYS[0], (2,), 2)
    assert found(KEYS[0]) == (QUERIES[0], (2,), 2)
    names.note_recomputed(KEYS[1], (2,), 1)
    assert names.invalidated([2]) == KEYS[:1], "unknown names stay so"
    assert found(KEYS[1]) is None


def test_the_newest_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "MOST", 3)
    names = named((1,), (1,), (1,), (1,))
    assert names.queries() == QUERIES[1:4]
    names.add(KEYS[1], QUERIES[1], (2,))
    names.add(KEYS[4], QUERIES[4], (1,))
    assert names.queries() == [QUERIES[3], QUERIES[1], QUERIES[4]]
    assert names.invalidated([1, 2]) == [KEYS[3], KEYS[4], KEYS[1]]
