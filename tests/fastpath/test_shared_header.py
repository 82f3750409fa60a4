"""Shared headers: stored once, counted once, removed with the last entry."""

from typing import Any

import pytest

from hsdns.fastpath import _python
from hsdns.fastpath.records import NO_ROTATION, Outline
from hsdns.fastpath.shared_header import SHARED_HEADER_LEN, Key, SharedHeaders, heads_of, make_key
from hsdns.fastpath.versions import ClusterNames
from hsdns.wire.message import RD, nodata
from tests.fastpath.twins import TableUnderTest, addresses, ask, soa, to_wire

OUTLINE = Outline(0x8400, (1, 0, 0), b"record", (), NO_ROTATION)
NEGATIVE = Outline(0x8400, (0, 1, 0), b"soa serial numbers", (4,), NO_ROTATION)
NAMES = ClusterNames()
TERMS: dict[str, Any] = {
    "group": 1,
    "size": 90,
    "rotate": False,
    "names": NAMES,
    "mark_ttl": -1,
    "log": False,
    "max_payload": 65535,
}
OTHERS: list[dict[str, Any]] = [
    {"group": 2}, {"size": 91}, {"mark_ttl": 0}, {"mark_ttl": 30}, {"mark_ttl": 31}, {"log": True},
    {"max_payload": 512}, {"errors": b"\0\x0f\0\0"},
]  # fmt: skip


def key(outline: Outline = OUTLINE, **changes: Any) -> Key:
    return make_key(outline, **(TERMS | changes))


@pytest.mark.parametrize("changes", OTHERS, ids=str)
def test_other_terms_have_another_key(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


def test_records_are_shared_only_with_a_serial() -> None:
    assert key(OUTLINE._replace(records=b"others")) == key(names=None)
    assert key(NEGATIVE._replace(records=b"soa SERIal numbers")) == key(NEGATIVE)
    assert key(NEGATIVE._replace(records=b"soa serial NUMBERS")) != key(NEGATIVE)
    assert key(NEGATIVE, names=ClusterNames()) != key(NEGATIVE)


def test_a_shared_header_exists_as_long_as_it_is_used() -> None:
    headers = SharedHeaders()
    first = headers.acquire(key())
    assert headers.acquire(key()) is first
    assert headers.octets == SHARED_HEADER_LEN
    headers.release(first)
    assert headers.octets == SHARED_HEADER_LEN
    headers.release(first)
    assert headers.octets == 0
    assert headers.acquire(key()) is not first
    headers.clear()
    assert headers.octets == 0


def test_heads_are_those_of_replies() -> None:
    query = ask(flags=RD)
    wire = to_wire(query, addresses(query, 3))
    flags = (wire[2] << 8 | wire[3]) & ~RD
    assert heads_of(flags, (3, 0, 0))[1] == wire[2:12]


def test_equal_records_are_stored_once() -> None:
    """A thousand names of one length that have no IPv6 address take little more than their names."""
    under_test = TableUnderTest(_python)
    for serial in (1, 2):
        under_test.names.serial = serial
        for number in range(1000, 2000):
            query = ask(f"n{number}.cluster.local.", 28)
            if serial == 1:
                assert under_test.store(query, nodata(soa(0)), dependencies=[(number, 0)])
            else:
                under_test.versions.bump(99)
            assert under_test.lookup(query) == to_wire(query, nodata(soa(serial)))
    entries = list(under_test.table._entries.values())
    assert len({id(entry.records) for entry in entries}) == 1
    assert under_test.table._queues.octets + under_test.table._shared_headers.octets < 260 * len(
        entries
    )


def test_shared_headers_go_with_their_entries() -> None:
    under_test = TableUnderTest(_python, 50_000)
    for number in range(500):
        query = ask(f"n{number}.org.")
        assert under_test.store(query, addresses(query), size=number)
        found = under_test.table.statistics()
        assert found.octets <= 50_000
        assert under_test.table._shared_headers.octets == found.entries * SHARED_HEADER_LEN
    assert under_test.table.statistics().evicted > 400
