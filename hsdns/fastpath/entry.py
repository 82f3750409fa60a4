"""One stored reply: its records, the counters that they depend on, and how a reply is written from them.

Path: step 2; table.py stores entries.  Twin of native/src/entry.rs and reply.rs.
Rule 1: the reply copies from the query the ID, RD, CD and the question in the client's letter case; it has an OPT
        record if the query has one.
Rule 2: owners may point into the question, which has the same length for every query of the key; RDATA never does
        (hsdns/wire/encode.py, rule 2).
Rule 3: the OPT repeats the client's payload size (after any lowering), DO, and those of its options that are echoed; if
        these leave no room, the OPT has no options.  Records that do not fit are left out from the end, and TC is set.
        Extended DNS Errors follow the echoed options and are left out first (hsdns/wire/encode.py, rule 4).
Rule 4: an entry is small, because a table may have 200,000 of them: several entries share the data that they have in
        common (their shared header), and numbers are packed.
Rule 5: a timed reply is one that `cache` has stored.  All its records have one TTL, the seconds left; they are written
        again in each second in which a client queries it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from hsdns.fastpath.key import VARIANT_FLAGS, Form
from hsdns.fastpath.records import cut, with_ttl
from hsdns.fastpath.shared_header import SharedHeader
from hsdns.fastpath.timing import Timing
from hsdns.fastpath.versions import CHANGES, Versions
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN, with_options
from hsdns.wire.message import TC

# Memory in CPython 3.11 on 64 bits: an entry with eight fields; its place in a queue and in the dictionary while that
# grows; a bytes object beside its octets; a number or float.  The allocator rounds up to multiples of 16.
_ENTRY_LEN: Final = 96
_PLACES_LEN: Final = 8 + 56
_BYTES_LEN: Final = 33
_NUMBER_LEN: Final = 32
_TIMING_LEN: Final = 80 + 3 * _NUMBER_LEN  # with the end of its second, in marked_until
_GRAIN: Final = 16
_INDEXES_IN_A_NUMBER: Final = 3  # fit in 32 octets; more take two grains

NEVER: Final = float("inf")
ALWAYS: Final = -NEVER
# The parts of Entry.state.
FREQUENCY: Final = 3  # mask; the number of recent uses, at most this
IN_MAIN: Final = 4
ROTATION_SHIFT: Final = 3
ONE_ROTATION: Final = 1 << ROTATION_SHIFT
_INDEX_LEN: Final = 16
_INDEX: Final = (1 << _INDEX_LEN) - 1
_HEAD: Final = struct.Struct("!HHHHH")  # all of the header but the ID


class Entry:
    """A stored reply.

    `records` are those of the shared header if it has some.  `indexes` are the indexes of its counters, packed by
    pack_indexes().  `changes` is the value of CHANGES when the entry was last found valid.  `marked_until` is when its
    mark ends (monotonic seconds; see AnswerTable.store), NEVER if it has none; with a `timing`, until when the TTL in
    `records` is right.  `state` packs how often it was used,
    which queue it is in and, if records rotate, the number of hits.  `form` is the newest of its prepared forms
    (prepared_reply.py).
    """

    __slots__ = (
        "changes", "form", "indexes", "marked_until", "records", "shared", "state", "timing",
    )  # fmt: skip

    def __init__(
        self,
        shared: SharedHeader,
        records: bytes,
        indexes: int,
        marked_until: float,
        timing: Timing | None = None,
    ) -> None:
        self.state = 0
        self.form: bytes | None = None
        self.update(shared, records, indexes, marked_until, timing)

    def update(
        self,
        shared: SharedHeader,
        records: bytes,
        indexes: int,
        marked_until: float,
        timing: Timing | None = None,
    ) -> None:
        """Replace the reply by a valid one; rotation and place in a queue stay."""
        shared.update_serial()
        self.shared = shared
        self.records = records if shared.names is None else shared.records
        self.indexes = indexes
        self.marked_until = marked_until
        self.timing = timing
        self.changes = CHANGES[0]

    def is_valid(self, versions: Versions) -> bool:
        """Return whether none of its counters has changed since it was last found valid."""
        changes = self.changes
        if changes == CHANGES[0]:
            return True
        moved, indexes = versions.moved, self.indexes
        while indexes > 1:
            if moved[indexes & _INDEX] > changes:
                return False
            indexes >>= _INDEX_LEN
        return True

    @property
    def needs_lease(self) -> bool:
        """Whether it depends on counters of a store; the first one of a timed reply is that of `cache`."""
        return self.indexes >= 1 << (_INDEX_LEN if self.timing is None else 2 * _INDEX_LEN)

    def has_old_serial(self) -> bool:
        """Return whether the SOA serial in its records is outdated."""
        shared = self.shared
        return shared.names is not None and (
            shared.has_old_serial or self.records is not shared.records
        )

    def revalidate(self, changes: int) -> None:
        """Record the value of CHANGES before it was found valid, and update the serial in the records."""
        shared = self.shared
        if shared.names is not None:
            shared.update_serial()
            self.records = shared.records
        self.changes = changes

    def count_down(self, now: float) -> bool:
        """Write the current TTL into the records of a timed reply; return False if it has expired."""
        timing = self.timing
        left = timing.left(now) if timing is not None else None
        if timing is None or left is None:
            return False
        if left:
            self.records = with_ttl(self.records, sum(self.shared.counts), left)
        self.marked_until = timing.next_change(now)
        return True

    def rotated(self) -> bytes:
        """The records with the next rotation of the addresses, for an entry whose records rotate."""
        shared, records = self.shared, self.records
        first, stop = shared.first, shared.stop
        at = first + (self.state >> ROTATION_SHIFT) % shared.count * shared.step
        self.state += ONE_ROTATION
        return b"".join((records[:first], records[at:stop], records[first:at], records[stop:]))


def pack_indexes(indexes: Sequence[int]) -> int:
    """Pack the indexes of counters into one number: 16 bits each, below a leading one bit."""
    packed = 1
    for index in indexes:
        packed = packed << _INDEX_LEN | index
    return packed


def octets_of(key: bytes, entry: Entry) -> int:
    """The memory of an entry in octets, without its shared header and its prepared replies."""
    shared = entry.shared
    octets = _ENTRY_LEN + _PLACES_LEN + bytes_octets(key)
    if entry.indexes > 1:
        octets += _NUMBER_LEN
        if entry.indexes.bit_length() > _INDEXES_IN_A_NUMBER * _INDEX_LEN + 1:
            octets += _GRAIN
    if shared.names is None and entry.records:
        octets += bytes_octets(entry.records)
    if shared.mark_ttl > 0:
        octets += _NUMBER_LEN
    if entry.timing is not None:
        octets += _TIMING_LEN
    if shared.step:
        octets += _NUMBER_LEN
    return octets


def bytes_octets(octets: bytes) -> int:
    """The memory of a bytes object."""
    return _BYTES_LEN + len(octets) + _GRAIN - 1 & -_GRAIN


def without_options(opt: bytes) -> bytes:
    """The OPT record without its options."""
    return opt[: OPT_FIXED_LEN - 2] + b"\0\0"


def write(
    query: bytes,
    end: int,
    form: Form,
    limit: int,
    flags: int,
    counts: Sequence[int],
    records: bytes,
    errors: bytes = b"",
) -> bytes:
    """Write a reply of at most `limit` octets; header, question and an OPT without options are always written."""
    opt = form.opt
    if opt and len(opt) > limit - end:
        opt = without_options(opt)
    room = limit - end - len(opt)
    flags |= VARIANT_FLAGS[form.variant]
    if len(records) > room:
        fitting, counts = cut(records, counts, room)
        records = records[:fitting]
        flags |= TC
    elif errors and opt:
        if len(records) + len(errors) > room:
            flags |= TC
        else:
            opt = with_options(opt, errors)
    answer, authority, additional = counts
    head = _HEAD.pack(flags, 1, answer, authority, additional + (1 if opt else 0))
    return b"".join((query[:2], head, query[HEADER_LEN:end], records, opt))
