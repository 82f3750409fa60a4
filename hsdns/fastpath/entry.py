"""One stored reply: its records, what they were computed from, and how it is written for one query.

Path: step 2; table.py keeps entries.  Pure twin of native/src/entry.rs and reply.rs.
Rule 1: from the query come the ID, RD, CD, the question as the client wrote it, and whether there is an OPT.
Rule 2: owners may point into the question, which is as long for every query of the key; RDATA never does
        (hsdns/wire/encode.py, rule 2).
Rule 3: the OPT says what the client's said: payload size (lowered before, where it is), DO, and its options of the
        kinds that are echoed; where those leave no room it goes without.  Records that do not fit are left out from
        the tail, and TC says so.
Rule 4: an entry is small, for there may be 200,000: what others have too is in its shape, numbers are packed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hsdns.fastpath.key import VARIANT_FLAGS, Form
from hsdns.fastpath.records import cut
from hsdns.fastpath.shape import Shape
from hsdns.fastpath.versions import CHANGES, Versions
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN
from hsdns.wire.message import TC

if TYPE_CHECKING:
    from hsdns.fastpath.plan import Plan

# What CPython 3.11 takes on 64 bits: an entry with seven fields; its place in a queue and, while the dictionary grows,
# there; what a bytes object has beside its octets; a number, a float.  All are given out in multiples of 16.
_ENTRY_LEN: Final = 96
_PLACES_LEN: Final = 8 + 56
_BYTES_LEN: Final = 33
_NUMBER_LEN: Final = 32
_GRAIN: Final = 16
_INDEXES_IN_A_NUMBER: Final = 3  # of 32 octets; two more numbers' worth otherwise

NEVER: Final = float("inf")
# The parts of Entry.state.
FREQUENCY: Final = 3  # mask; how often it was used, this at most
IN_MAIN: Final = 4
TURN_SHIFT: Final = 3
ONE_TURN: Final = 1 << TURN_SHIFT
_INDEX_LEN: Final = 16
_INDEX: Final = (1 << _INDEX_LEN) - 1
_HEAD: Final = struct.Struct("!HHHHH")  # all of the header but the ID


class Entry:
    """A stored reply.

    `records` are the shape's where that has some.  `indexes` are those of its counters, packed by pack_indexes().
    `changes` is what CHANGES was when it was last found true.  `until` is when the mark of `cache` ends (monotonic
    seconds), NEVER where none is kept.  `state` is how often it was used, in which queue it stands and, where records
    rotate, how many hits there were.  `plan` is the first one of those that are prepared.
    """

    __slots__ = ("changes", "indexes", "plan", "records", "shape", "state", "until")

    def __init__(self, shape: Shape, records: bytes, indexes: int, until: float) -> None:
        self.state = 0
        self.plan: Plan | None = None
        self.fill(shape, records, indexes, until)

    def fill(self, shape: Shape, records: bytes, indexes: int, until: float) -> None:
        """Take a reply that is true now, in place of what was there; turn and place in a queue stay."""
        shape.update_serial()
        self.shape = shape
        self.records = records if shape.names is None else shape.records
        self.indexes = indexes
        self.until = until
        self.changes = CHANGES[0]

    def is_true(self, versions: Versions) -> bool:
        """Tell whether nothing that it was computed from has changed."""
        changes = self.changes
        if changes == CHANGES[0]:
            return True
        moved, indexes = versions.moved, self.indexes
        while indexes > 1:
            if moved[indexes & _INDEX] > changes:
                return False
            indexes >>= _INDEX_LEN
        return True

    def is_dated(self) -> bool:
        """Tell whether the serial in its records is an old one."""
        shape = self.shape
        return shape.names is not None and (shape.is_dated or self.records is not shape.records)

    def renew(self) -> None:
        """Note that it is true, and take the records with the serial of now."""
        shape = self.shape
        if shape.names is not None:
            shape.update_serial()
            self.records = shape.records
        self.changes = CHANGES[0]

    def turned(self) -> bytes:
        """The records in the order whose turn it is, where they rotate; the turn moves on."""
        shape, records = self.shape, self.records
        at = (self.state >> TURN_SHIFT) % shape.count * shape.step
        self.state += ONE_TURN
        return records[at : shape.block] + records[:at] + records[shape.block :]


def pack_indexes(indexes: Sequence[int]) -> int:
    """Put the indexes of counters into one number: 16 bits each below a one."""
    packed = 1
    for index in indexes:
        packed = packed << _INDEX_LEN | index
    return packed


def octets_of(key: bytes, entry: Entry) -> int:
    """How much memory an entry takes without its shape and its prepared replies."""
    shape = entry.shape
    octets = _ENTRY_LEN + _PLACES_LEN + bytes_octets(key)
    if entry.indexes > 1:
        octets += _NUMBER_LEN
        if entry.indexes.bit_length() > _INDEXES_IN_A_NUMBER * _INDEX_LEN + 1:
            octets += _GRAIN
    if shape.names is None and entry.records:
        octets += bytes_octets(entry.records)
    if shape.mark_ttl > 0:
        octets += _NUMBER_LEN
    if shape.step:
        octets += _NUMBER_LEN
    return octets


def bytes_octets(octets: bytes) -> int:
    """What a bytes object takes."""
    return _BYTES_LEN + len(octets) + _GRAIN - 1 & -_GRAIN


def without_options(opt: bytes) -> bytes:
    """The OPT record with nothing but its fixed part."""
    return opt[: OPT_FIXED_LEN - 2] + b"\0\0"


def write(
    query: bytes,
    end: int,
    form: Form,
    limit: int,
    flags: int,
    counts: Sequence[int],
    records: bytes,
) -> bytes:
    """Write a reply in at most `limit` octets; header, question and a bare OPT are always written."""
    opt = form.opt
    if opt and len(opt) > limit - end:
        opt = without_options(opt)
    room = limit - end - len(opt)
    flags |= VARIANT_FLAGS[form.variant]
    if len(records) > room:
        fitting, counts = cut(records, counts, room)
        records = records[:fitting]
        flags |= TC
    answer, authority, additional = counts
    head = _HEAD.pack(flags, 1, answer, authority, additional + (1 if opt else 0))
    return b"".join((query[:2], head, query[HEADER_LEN:end], records, opt))
