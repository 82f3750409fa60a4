"""Which hits have a record in the log ring, and what it contains: the same from every kind of batch.

Which queries a tap takes, and what it tells of them: the same from every kind of batch.

The cells of the Python twin; what both count is in test_table.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from hsdns.fastpath.control import read_address, write_address
from hsdns.fastpath.hit_counts import DO, LENGTH_SHIFT, MAX_KINDS, HitCounter, kind_of
from hsdns.fastpath.hit_records import (
    CLOSED,
    FAIR_SHARE,
    LAST,
    LAST_QUERIES,
    MAX_QUERY_LEN,
    MAX_RECORDS,
    SAMPLE,
)
from hsdns.metrics import TIME_BUCKETS
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import reply_size
from hsdns.wire.message import AD, CD, RD, TC, Reply, nodata, nxdomain
from tests.fastpath.servers import Server
from tests.fastpath.twins import SOURCE, V4, TableUnderTest, addresses, ask, soa

sockets = pytest.mark.sockets
COOKIE = Edns(1232, options=((10, b"12345678"),))


def fill(under_test: TableUnderTest, log: bool = True) -> None:
    """A cluster with a Service of three addresses, one of a hundred, one without IPv6, and a negative zone."""
    for query, reply in REPLIES:
        assert under_test.store(query, reply, rotate=True, log=log, mark_ttl=0)
    under_test.add_negative_zone(log=log)
    assert under_test.set_template()
    under_test.names.add_namespace(b"default")


SMALL, BIG = "web.default.svc.cluster.local.", "big.default.svc.cluster.local."
MANY = addresses(ask(BIG), 100)
THREE = addresses(ask(SMALL), 3)
REPLIES = [
    *((ask(SMALL, edns=edns), THREE) for edns in (None, Edns(1232), Edns(1232, do=True))),
    *((ask(BIG, edns=edns), MANY) for edns in (None, Edns(4096))),
    (ask(SMALL, flags=CD), THREE),
    (ask(SMALL, 28), nodata(soa())),
]  # fmt: skip
ABSENT = nxdomain(soa(0))
# Queries that are logged, the reply that is stored for them, and the flags of the reply beside QR and AA.
ROWS: dict[str, tuple[bytes, Reply, int]] = {
    "A": (ask(SMALL), THREE, RD),
    "without RD": (ask(SMALL, flags=0), THREE, 0),
    "AD": (ask(SMALL, flags=RD | AD), THREE, RD),
    "CD": (ask(SMALL, flags=CD), THREE, CD),
    "mixed case": (ask("wEb.DEFAULT.svc.cluster.LOCAL."), THREE, RD),
    "EDNS": (ask(SMALL, edns=Edns(1232)), THREE, RD),
    "DO": (ask(SMALL, edns=Edns(1232, do=True)), THREE, RD),
    "a cookie": (ask(SMALL, edns=COOKIE), THREE, RD),
    "no data": (ask(SMALL, 28), nodata(soa()), RD),
    "cut": (ask(BIG), MANY, RD | TC),
    "cut with EDNS": (ask(BIG, edns=Edns(512)), MANY, RD | TC),
    "a hundred records": (ask(BIG, edns=Edns(4096)), MANY, RD),
    "a name that does not exist": (ask("gone.default.svc.cluster.local."), ABSENT, RD | 3),
    "such a name in mixed case": (ask("www.example.org.CLUSTER.local.", 28), ABSENT, RD | 3),
    "such a name with a cookie": (ask("gone.cluster.local.", edns=COOKIE), ABSENT, RD | 3),
}  # fmt: skip


def serve(server: Server, client: socket.socket, queries: list[bytes]) -> list[bytes]:
    """Ask all in one batch; return the replies."""
    for query in queries:
        client.send(query)
    assert server.serve() == []
    return [client.recv(65535) for _ in queries]


def taken(server: Server, most: int = 1 << 20) -> list[Any]:
    return list(server.under_test.table.take_log(most))


@sockets
@pytest.mark.parametrize(("query", "reply", "flags"), ROWS.values(), ids=ROWS)
def test_record(server: Server, query: bytes, reply: Reply, flags: int) -> None:
    server.bind()
    fill(server.under_test)
    client = server.client()
    address = write_address(socket.AF_INET, client.getsockname())
    # More than once, so that the Python twin answers from what is prepared, too; one batch each.
    for number in range(4):
        asked = number.to_bytes(2, "big") + query[2:]
        [found] = serve(server, client, [asked])
        [record] = taken(server)
        assert record[:5] == (
            asked,
            address,
            0x8400 | flags,
            reply_size(decode(query), reply),
            len(reply.answer),
        )
        assert record.is_tcp is False
        assert record.flags == found[2] << 8 | found[3]
        assert 0 < record.seconds < 5
        [cells] = server.under_test.cells().values()
        assert round(record.seconds * 1e9) == cells[52], "the duration that is counted"
        assert cells[34] == record.size
    assert server.under_test.table.log_drops == 0


@sockets
def test_a_batch_in_its_order(server: Server) -> None:
    server.bind()
    fill(server.under_test)
    client = server.client()
    queries = [
        number.to_bytes(2, "big") + query[2:]
        for number, (query, _, _) in enumerate([*ROWS.values()] * 3)
    ]
    replies = serve(server, client, queries)
    records = taken(server)
    assert [record.query for record in records] == queries
    assert [record.flags for record in records] == [wire[2] << 8 | wire[3] for wire in replies]
    assert [record.answers for record in records] == [
        len(reply.answer) for _, reply, _ in [*ROWS.values()] * 3
    ]
    assert len({record.seconds for record in records}) == 1
    assert taken(server) == []


@sockets
def test_only_hits_of_logging_blocks(server: Server) -> None:
    """Entries and negative zones with and without, in one table; misses are logged by the chain."""
    server.bind()
    under_test, client = server.under_test, server.client()
    logged, silent = ask("logged.org."), ask("silent.org.")
    under_test.store(logged, addresses(logged), log=True, group=3, mark_ttl=30)
    under_test.store(silent, addresses(silent), group=3, mark_ttl=30)
    under_test.add_negative_zone("sub.cluster.local.")
    for _ in range(4):
        serve(server, client, [silent, logged, silent])
        assert [record.query for record in taken(server)] == [logged]
    client.send(ask("unknown.org."))
    client.send(b"not a query")
    assert len(server.serve()) == 2
    assert taken(server) == []
    [cells] = under_test.cells().values()
    assert cells[0] == 12
    assert under_test.store(logged, addresses(logged), group=3)
    serve(server, client, [logged])
    assert taken(server) == [], "stored again, without"


@pytest.fixture
def full(twin: ModuleType) -> Iterator[tuple[Server, socket.socket]]:
    """A server whose ring is to be filled, which is the table's and so not tested with each kind of batch."""
    server = Server(twin, twin.Batch)
    server.bind()
    fill(server.under_test)
    client = server.client()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    yield server, client
    server.close()


@sockets
def test_the_ring_is_bounded_by_records(full: tuple[Server, socket.socket]) -> None:
    server, client = full
    query = ask()
    more = 3
    for _ in range(MAX_RECORDS // 64):
        serve(server, client, [query] * 64)
    assert server.under_test.table.log_drops == 0
    serve(server, client, [query] * more)
    assert server.under_test.table.log_drops == more
    assert len(taken(server, 10)) == 10
    serve(server, client, [query] * (10 + more))
    assert server.under_test.table.log_drops == 2 * more, "it grows only"
    assert len(taken(server)) == MAX_RECORDS


def test_a_negative_number_is_refused(twin: ModuleType) -> None:
    with pytest.raises(OverflowError):
        TableUnderTest(twin).table.take_log(-1)


WEB = ask("web.default.svc.cluster.local.")
LONG = ask("big.default.svc.cluster.local.")
AA, QR = 0x0400, 0x8000


def push(tap: Any, *times: float) -> None:
    for at in times:
        tap.push(WEB, V4, source=3, flags=QR | 2, size=40, seconds=0.5, at=at, is_tcp=True)


def times(tap: Any) -> tuple[int, list[float]]:
    seen, records = tap.take()
    return seen, [round(record.at, 6) for record in records]


@sockets
def test_hits_of_a_batch(server: Server) -> None:
    server.bind()
    under_test = server.under_test
    under_test.store(WEB, addresses(WEB, 3))
    under_test.store(LONG, addresses(LONG, 100))
    client = server.client()
    server.ask(client, WEB)
    assert under_test.tap.take() == (0, []), "it is closed"
    under_test.tap.mode = LAST_QUERIES
    replies = [server.ask(client, query) for query in (WEB, LONG)]
    client.send(ask("miss.default.svc.cluster.local."))
    server.serve()
    seen, records = under_test.tap.take()
    assert (seen, [record.query for record in records]) == (2, [WEB, LONG])
    assert [record.flags for record in records] == [QR | AA | RD, QR | AA | RD | TC]
    assert [record.size for record in records] == [len(reply) for reply in replies]
    for record in records:
        assert read_address(record.address)[:2] == client.getsockname()
        assert (record.source, record.is_tcp, record.is_hit) == (SOURCE, False, True)
        assert 0 < record.seconds < record.at
    assert records[0].at <= records[1].at


def test_answers_of_the_chain(twin: ModuleType) -> None:
    tap = twin.Tap()
    push(tap, 1.0)
    assert tap.take() == (0, []), "it is closed"
    tap.mode = LAST_QUERIES
    push(tap, 1.5)
    tap.push(b"x" * 600, V4, source=0, flags=None, size=0, seconds=0.0, at=2.0, is_tcp=False)
    seen, (first, second) = tap.take()
    assert seen == 2
    assert first == (WEB, V4, 3, QR | 2, 40, 0.5, 1.5, True, False)
    assert second == (b"x" * MAX_QUERY_LEN, V4, 0, None, 0, 0.0, 2.0, False, False)


@pytest.mark.parametrize("count", [1, LAST, LAST + 3, 3 * LAST])
def test_the_last_are_taken_in_order(twin: ModuleType, count: int) -> None:
    tap = twin.Tap()
    tap.mode = LAST_QUERIES
    for _ in range(2):
        push(tap, *(at / 1000 for at in range(count)))
        last = [at / 1000 for at in range(max(count - LAST, 0), count)]
        assert times(tap) == (count, last)


def test_a_sample_is_fair(twin: ModuleType) -> None:
    """Each quarter of what came has a quarter of the sample."""
    tap = twin.Tap()
    tap.mode = FAIR_SHARE
    quarters, count, rounds = [0] * 4, 4 * SAMPLE, 40
    for _ in range(rounds):
        push(tap, *range(1, count + 1))
        seen, taken = times(tap)
        assert (seen, len(taken), taken) == (count, SAMPLE, sorted(taken))
        for at in taken:
            quarters[int((at - 1) * 4 / count)] += 1
    even = rounds * SAMPLE / 4
    assert all(abs(quarter - even) < even / 10 for quarter in quarters), quarters
    push(tap, *range(1, SAMPLE + 1))
    assert times(tap) == (SAMPLE, list(range(1, SAMPLE + 1))), "all, as far as they fit"


def test_modes(twin: ModuleType) -> None:
    tap = twin.Tap()
    assert tap.mode == CLOSED
    for mode in (LAST_QUERIES, FAIR_SHARE, CLOSED):
        tap.mode = mode
        assert tap.mode == mode
        push(tap, 1.0)
        tap.mode = mode  # what it holds is dropped
        assert tap.take() == (0, [])
    with pytest.raises(ValueError, match="a tap has no mode 7"):
        tap.mode = 7


def number(group: int, size: int, length: int, do: int) -> int:
    return kind_of(group, size) | length << LENGTH_SHIFT | do * DO


@pytest.mark.parametrize("at", range(len(TIME_BUCKETS)))
@pytest.mark.parametrize("more", [0, 1], ids=["at the bound", "above"])
def test_durations(at: int, more: int) -> None:
    counts = HitCounter()
    nanoseconds = round(TIME_BUCKETS[at] * 1e9) + more
    counts.add([number(1, 2, 3, 0)] * 2, nanoseconds)
    [(_, _, cells)] = counts.take_counts()
    assert cells[35:52] == [2 * (each == at + more) for each in range(17)]
    assert cells[52] == 2 * nanoseconds


def test_many_kinds_are_folded_and_not_lost() -> None:
    counts = HitCounter()
    for size in range(3 * MAX_KINDS):
        counts.add([number(1, size, 30, 0)], 10)
    [(_, _, cells)] = counts.take_counts()
    assert cells[0] == 3 * MAX_KINDS
    assert cells[34] == sum(range(3 * MAX_KINDS))


def test_a_scrape_beside_the_loop_loses_nothing() -> None:
    counts, found = HitCounter(), []
    kinds = [number(group, 100, 30, 0) for group in range(8)]

    def scrape() -> None:
        for _ in range(200):
            found.extend(counts.take_counts())

    thread = Thread(target=scrape)
    thread.start()
    for _ in range(2000):
        counts.add(kinds, 10)
    thread.join()
    found.extend(counts.take_counts())
    assert sum(cells[0] for _, _, cells in found) == 16_000
