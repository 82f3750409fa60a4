"""Zone transfer to a secondary: the records in batches, one for each message (RFC 5936 section 2.2).

Path: plugins/transfer.py answers AXFR and IXFR; server/transport/tcp.py consumes the batches as the client reads them.
Rule 1: batches are limited by their uncompressed length, so that every message fits and names can be compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Query
from hsdns.wire.name import after_name

BATCH_LEN: Final = 16_384  # octets; the range of compression pointers (RFC 1035 section 4.1.4)
# The space in a message beside header, question, OPT and TSIG.
MAX_RECORD_LEN: Final = 65_535 - 12 - 259 - 1024
_FIXED_LEN: Final = 10  # type, class, TTL, length


class ZoneTransfer(NamedTuple):
    """All of a zone at one moment: its SOA record, and the records between that and its repetition at the end."""

    soa: RR
    records: Iterator[RR]


class TooLong(Exception):
    """A record that does not fit into a message."""


def batches(transfer: ZoneTransfer) -> Iterator[tuple[RR, ...]]:
    """Yield the answer sections of a full transfer: the SOA record, all other records, and the SOA record again."""
    batch, length = [transfer.soa], _length(transfer.soa)
    for record in transfer.records:
        size = _length(record)
        if size > MAX_RECORD_LEN:
            raise TooLong(f"a record of {record.owner.to_text()} has {size} octets")
        if length + size > BATCH_LEN:
            yield tuple(batch)
            batch, length = [], 0
        batch.append(record)
        length += size
    yield (*batch, transfer.soa)


def client_serial(query: Query) -> int | None:
    """Return the serial in the authority section of an IXFR query (RFC 1995 section 3); None if there is none."""
    wire = query.whole
    if not wire or wire[6:8] != b"\0\0" or wire[8:10] != b"\0\1":
        return None
    try:
        at = after_name(wire, 12 + len(query.question_wire))
        end = at + 10 + int.from_bytes(wire[at + 8 : at + 10], "big")
        if int.from_bytes(wire[at : at + 2], "big") != RRType.SOA or end - at < 32:
            return None
    except IndexError:
        return None
    return int.from_bytes(wire[end - 20 : end - 16], "big")


def _length(record: RR) -> int:
    return len(record.owner.wire) + _FIXED_LEN + len(record.rdata)
