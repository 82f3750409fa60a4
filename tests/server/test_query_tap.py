"""The recent queries of the process, with a scripted clock."""

from __future__ import annotations

import pytest

from hsdns.chain import Endpoint
from hsdns.fastpath.hit_records import CLOSED, FAIR_SHARE, SAMPLE
from hsdns.server.query_tap import HISTORY, POLL, QueryTap
from tests.fastpath.twins import ask

CLIENT = Endpoint("192.0.2.1", 40000)
NXDOMAIN = b"\0\7\x81\x83" + bytes(8)


class Tapped:
    """A tap, 1,000 s after its clock began and 5,000 s after the epoch."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.now = 1000.0
        self.queries = QueryTap(lambda: self.now, lambda: self.now + 4000, keeps=keeps)

    def add(
        self,
        name: str = "web.shop.svc.cluster.local.",
        reply: bytes | None = NXDOMAIN,
        server: str = "dns://:53",
        protocol: str = "udp",
        client: Endpoint = CLIENT,
        took: float = 0.25,
    ) -> None:
        self.queries.add(server, ask(name), client, protocol, self.now - took, reply)

    def names(self) -> list[str]:
        return [each.name.to_text() for each in self.queries.last()]


@pytest.mark.parametrize(
    "query",
    [b"", bytes(12), b"\0" * 12 + b"\3we", b"\0" * 12 + b"\xc0\x0c\0\1\0\1", b"\0" * 12 + b"\0\0\1\0"],
    ids=["empty", "header", "cut", "pointer", "half"],
)  # fmt: skip
def test_what_has_no_question_is_counted_only(query: bytes) -> None:
    tapped = Tapped(keeps=True)
    tapped.queries.add("dns://:53", query, CLIENT, "udp", 0.0, NXDOMAIN)
    assert (tapped.queries.last(), tapped.queries.seen) == ([], 1)


def test_a_server_that_keeps_nothing_takes_nothing_until_something_looks() -> None:
    tapped = Tapped()
    assert (tapped.queries.is_open, tapped.queries.tap.mode) == (False, CLOSED)
    with tapped.queries.looking():
        assert (tapped.queries.is_open, tapped.queries.tap.mode) == (True, FAIR_SHARE)
        with tapped.queries.looking():
            pass
        assert tapped.queries.tap.mode == FAIR_SHARE, "one still looks"
    assert (tapped.queries.is_open, tapped.queries.tap.mode) == (False, CLOSED)


def test_readers_see_the_same_and_collect_now_and_then() -> None:
    tapped = Tapped()
    queries = tapped.queries
    with queries.looking():
        tapped.add("a.")
        queries.collect()
        assert list(queries.since(0)) == [], "it was collected when the reader came"
        tapped.now += POLL
        queries.collect()
        position = queries.collected
        for each in (0, 1):
            assert [seen.name.to_text() for seen in queries.since(each)] == ["a."][each:]
        tapped.add("b.")
        tapped.now += POLL
        queries.collect()
        assert [seen.name.to_text() for seen in queries.since(position)] == ["b."]


def test_memory_is_bounded() -> None:
    tapped = Tapped()
    with tapped.queries.looking():
        for _ in range(HISTORY // SAMPLE + 2):
            for _ in range(SAMPLE):
                tapped.add()
            tapped.queries.last()
    assert len(tapped.queries.last()) == HISTORY
    assert tapped.queries.collected == HISTORY + 2 * SAMPLE
    assert len(list(tapped.queries.since(0))) == HISTORY
