"""Which queries a tap takes, and what it tells of them: the same from every kind of batch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from hsdns.fastpath.control import read_address
from hsdns.fastpath.hit_records import CLOSED, FAIR_SHARE, LAST, LAST_QUERIES, MAX_QUERY_LEN, SAMPLE
from hsdns.wire.message import RD, TC
from tests.fastpath.servers import Server
from tests.fastpath.twins import SOURCE, V4, addresses, ask

sockets = pytest.mark.sockets
WEB = ask("web.default.svc.cluster.local.")
BIG = ask("big.default.svc.cluster.local.")
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
    under_test.store(BIG, addresses(BIG, 100))
    client = server.client()
    server.ask(client, WEB)
    assert under_test.tap.take() == (0, []), "it is closed"
    under_test.tap.mode = LAST_QUERIES
    replies = [server.ask(client, query) for query in (WEB, BIG)]
    client.send(ask("miss.default.svc.cluster.local."))
    server.serve()
    seen, records = under_test.tap.take()
    assert (seen, [record.query for record in records]) == (2, [WEB, BIG])
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
