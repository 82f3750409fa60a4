"""Records as one bytes value, for what stores many replies.

Path: beside message.py; plugins/cache stores replies with it.
Rule 1: it contains each owner once and no TTL: unpack() gives all records the same one.
Rule 2: both directions work on columns, because a reply of 64 KB has thousands of records, and a Python statement for
        each of them would hold the loop for milliseconds.  (4,000 addresses: 1 MB as records, 45 KB packed.)  The
        columns are made of some records at a time, because no other thread runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import Final

import msgspec

from hsdns.wire.message import RR, Reply, make_record, make_records, pieces
from hsdns.wire.name import Name

# The number of each record's owner, the types, the RDATA and the classes.
_Section = tuple[Sequence[int], Sequence[int], Sequence[bytes], Sequence[int]]
_Packed = tuple[tuple[bytes, ...], _Section, _Section, _Section]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Packed).decode
_wire: Final = attrgetter("wire")
_NOTHING: Final[_Section] = ((), (), (), ())


def pack(reply: Reply) -> bytes:
    """The records of a reply, without their TTLs."""
    owners: dict[bytes, int] = {}
    sections = [_pack(each, owners) for each in (reply.answer, reply.authority, reply.additional)]
    # The encoder's own value keeps room for half as much again.
    return bytes(memoryview(_encode((tuple(owners), *sections))))


def unpack(packed: bytes, ttl: int, reply: Reply) -> Reply:
    """A reply with packed records, all with this TTL in seconds."""
    wires, *sections = _decode(packed)
    owners = [Name(wire) for wire in wires]
    answer, authority, additional = (_unpack(each, owners, ttl) for each in sections)
    return reply.replace(answer=answer, authority=authority, additional=additional)


def with_ttl(reply: Reply, ttl: int) -> Reply:
    """The reply with one TTL for all records."""
    return reply.replace(
        answer=_with_ttl(reply.answer, ttl),
        authority=_with_ttl(reply.authority, ttl),
        additional=_with_ttl(reply.additional, ttl),
    )


def _pack(records: tuple[RR, ...], owners: dict[bytes, int]) -> _Section:
    if not records:
        return _NOTHING
    if len(records) == 1:  # without the columns, in half of the time
        ((owner, rrtype, _, rdata, rrclass),) = records
        return (owners.setdefault(owner.wire, len(owners)),), (rrtype,), (rdata,), (rrclass,)
    numbers: list[int] = []
    types: list[int] = []
    data: list[bytes] = []
    classes: list[int] = []
    for piece in pieces(records):
        of_names, of_types, _, of_data, of_classes = zip(*piece, strict=True)
        numbers += [owners.setdefault(wire, len(owners)) for wire in map(_wire, of_names)]
        types += of_types
        data += of_data
        classes += of_classes
    return numbers, types, data, classes


def _unpack(section: _Section, owners: list[Name], ttl: int) -> tuple[RR, ...]:
    numbers, types, rdata, classes = section
    names = map(owners.__getitem__, numbers)
    # The TTL repeats without end; the other columns have the same length.
    return tuple(make_records(names, types, repeat(ttl), rdata, classes))


def _with_ttl(records: tuple[RR, ...], ttl: int) -> tuple[RR, ...]:
    if not records:
        return ()
    if len(records) == 1:
        ((owner, rrtype, _, data, rrclass),) = records
        return (make_record((owner, rrtype, ttl, data, rrclass)),)
    made: list[RR] = []
    for piece in pieces(records):
        names, types, _, rdata, classes = zip(*piece, strict=True)
        made += make_records(names, types, repeat(ttl), rdata, classes)
    return tuple(made)
