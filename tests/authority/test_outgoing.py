from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.authority.outgoing import BATCH_LEN, TooLong, ZoneTransfer, batches, client_serial
from hsdns.wire.decode import decode
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Query, Reply
from tests.support.plugins.requests import rr

SOA = rr("example.org. 60 IN SOA ns. host. 7 1 1 1 1")
ORIGIN = SOA.owner


@given(st.lists(st.integers(0, 40_000), max_size=20))
def test_everything_is_sent_once_and_every_message_fits(sizes: list[int]) -> None:
    records = [RR(ORIGIN, 65280, index, bytes(size)) for index, size in enumerate(sizes)]
    made = list(batches(ZoneTransfer(SOA, iter(records))))
    assert [record for batch in made for record in batch] == [SOA, *records, SOA]
    query = Query.ask(ORIGIN, RRType.AXFR)
    for batch in made:
        out = encode(query, Reply(answer=batch), MAX_TCP_LEN)
        assert out[6:8] == len(batch).to_bytes(2, "big")
        assert not out[2] & 2


def test_batches_are_small() -> None:
    records = [RR(ORIGIN, 16, 1, b"\7abcdefg")] * 5000
    assert (
        max(
            sum(len(record.rdata) + 23 for record in batch)
            for batch in batches(ZoneTransfer(SOA, iter(records)))
        )
        <= BATCH_LEN + 60
    )


def test_a_record_that_fits_no_message() -> None:
    records = iter([RR(ORIGIN, 65280, 1, bytes(65_500))])
    with pytest.raises(TooLong, match=r"a record of example\.org\. has 65523 octets"):
        list(batches(ZoneTransfer(SOA, records)))


HEADER = bytes.fromhex("0001 0000 0001 0000 0001 0000")
QUESTION = ORIGIN.wire + bytes.fromhex("00fb 0001")
FIXED = bytes.fromhex("0006 0001 00000000")
RDATA = bytes.fromhex("00 00 0000002a 00000001 00000001 00000001 00000001")


@pytest.mark.parametrize(
    ("wire", "serial"),
    [
        pytest.param(HEADER + QUESTION + b"\xc0\x0c" + FIXED + b"\0\x16" + RDATA, 42, id="pointer"),
        pytest.param(HEADER + QUESTION + ORIGIN.wire + FIXED + b"\0\x16" + RDATA, 42, id="name"),
        pytest.param(
            HEADER + QUESTION + b"\xc0\x0c" + bytes.fromhex("0010 0001 00000000 0002 0141"),
            None,
            id="txt",
        ),
        pytest.param(HEADER[:8] + bytes(4) + QUESTION, None, id="no-authority"),
    ],
)
def test_client_serial(wire: bytes, serial: int | None) -> None:
    assert client_serial(decode(wire)) == serial


@given(st.binary(max_size=60))
def test_any_octets_are_read_or_not(tail: bytes) -> None:
    query = Query.ask(ORIGIN, RRType.IXFR).replace(whole=HEADER + QUESTION + tail)
    assert client_serial(query) is None or len(tail) >= 32
