"""One stored reply: its records, the counters that they depend on, and how a reply is written from them.

Path: step 2; table.py stores entries.  Twin of native/src/entry.rs, reply.rs and timing.rs.
Rule 1: the reply copies from the query the ID, RD, CD and the question in the client's letter case; it has an OPT
        record if the query has one.
Rule 2: owners may point into the question, which has the same length for every query of the key; RDATA never does
        (hsdns/wire/encode.py, rule 2).
Rule 3: the OPT repeats the client's payload size (after any lowering), DO, and those of its options that are echoed; if
        these leave no room, the OPT has no options.  Records that do not fit are left out from the end, and TC is set.
        Extended DNS Errors follow the echoed options and are left out first (hsdns/wire/encode.py, rule 4).
Rule 4: the SOA serial is the current one wherever it occurs: it changes with every event, while the rest of the records
        stays, so it is written when an entry is first found valid after an event.
Rule 5: a timed reply is one that `cache` has stored.  All its records have one TTL, the seconds left; they are written
        again in each second in which a client queries it.  TTL and expiry are those of plugins/cache/store.py at the
        same time, so that the table's reply equals that of the chain.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from sys import getsizeof
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns.fastpath.hit_counts import CACHE_HIT, CACHE_MISS, kind_of
from hsdns.fastpath.key import VARIANT_AD, VARIANT_EDNS, VARIANT_FLAGS, Form
from hsdns.fastpath.records import NO_ROTATION, Outline, cut, with_ttl
from hsdns.fastpath.versions import CHANGES, Versions
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import MAX_PAYLOAD_SIZE, OPT_FIXED_LEN, with_options
from hsdns.wire.message import AD, TC

if TYPE_CHECKING:
    from hsdns.fastpath import ClusterNames


class Terms(NamedTuple):
    """The terms of replies whose hits are counted in `group`.

    `rotate`: their addresses rotate.  `names` has the serial of their SOA records.  `mark_ttl` says how `cache` counts
    hits: an entry is marked when it is stored, and a hit counts as a hit of `cache` within this many seconds after a
    mark, else as a miss that marks the entry again; 0: each hit is a miss of `cache`; -1: `cache` counts nothing.
    `log`: hits are added to the log ring.  `max_payload`: larger payload sizes of queries are lowered to it, in the
    reply's OPT and as limit of its length over UDP; 512 to 65,507, or 65,535 for no limit.
    """

    group: int
    rotate: bool = False
    names: ClusterNames | None = None
    mark_ttl: int = -1
    log: bool = False
    max_payload: int = MAX_PAYLOAD_SIZE


MAX_USES: Final = 3
NEVER: Final = float("inf")
ALWAYS: Final = -NEVER
# Memory in CPython 3.11 on 64 bits: a number; an entry with its fields and numbers, its place in the queue and in the
# dictionary while that grows; the three or four numbers of a timing or rotation.  The allocator rounds up.
_NUMBER_LEN: Final = 32
_ENTRY_LEN: Final = 144 + 36 + 8 + 56
_TIMING_LEN: Final = 80 + 4 * _NUMBER_LEN
_ROTATION_LEN: Final = 80 + 3 * _NUMBER_LEN
_GRAIN: Final = 16
_MAX_HEADERS: Final = 1024
_HEAD: Final = struct.Struct("!HHHHH")  # all of the header but the ID


class Timing(NamedTuple):
    """When `cache` has stored a reply, its TTL then, and when it expires; monotonic seconds.

    A TTL of 0 means that the TTLs of the records do not change.
    """

    stored: float
    ttl: int
    expires: float

    def left(self, now: float) -> int | None:
        """The remaining seconds, None if the reply has expired; 0 if TTLs do not change."""
        if now >= self.expires:
            return None
        left = self.ttl - self._age(now)
        return left if left > 0 else 0 if not self.ttl else None

    def next_change(self, now: float) -> float:
        """When that number changes."""
        return min(self.stored + self._age(now) + 1, self.expires) if self.ttl else self.expires

    def _age(self, now: float) -> int:
        return int(max(0.0, now - self.stored)) if self.ttl else 0


class Header(NamedTuple):
    """The header of a reply; `heads` are its octets after the ID for each variant of query (key.py)."""

    flags: int
    counts: tuple[int, int, int]
    is_timed: bool
    heads: tuple[bytes, ...]

    def flags_for(self, variant: int) -> int:
        """The flags of a reply to a variant of query but RD and CD; a timed reply has AD only for clients that ask."""
        return self.flags & ~AD if self.is_timed and not variant & VARIANT_AD else self.flags


@lru_cache(_MAX_HEADERS)
def header_of(flags: int, counts: tuple[int, int, int], is_timed: bool = False) -> Header:
    """The header of replies with these flags and counts, without OPT; the same object for many of them."""
    answer, authority, additional = counts
    header = Header(flags, counts, is_timed, ())
    heads = (
        _HEAD.pack(
            header.flags_for(variant) | of_query,
            1,
            answer,
            authority,
            additional + (1 if variant & VARIANT_EDNS else 0) & 0xFFFF,
        )
        for variant, of_query in enumerate(VARIANT_FLAGS)
    )
    return header._replace(heads=tuple(heads))


class Entry:
    """A stored reply.

    `indexes` are those of its counters; it needs a lease if one of them is a counter of a store (the first one of a
    timed reply is that of `cache`).  `changes` is the value of CHANGES when it was last found valid.  `until` is when
    its mark ends (monotonic seconds; see Terms), NEVER if it has none; with a `timing`, until when the TTL in `records`
    is right.  `uses` is how often it was used, at most MAX_USES, less each time that it was not evicted for that;
    `turn` counts hits if records rotate.  `kind` is that of a hit (hit_counts.py) without what depends on the query.
    """

    __slots__ = (
        "changes", "errors", "header", "indexes", "kind", "needs_lease", "records", "rotation", "serials", "terms",
        "timing", "turn", "until", "uses",
    )  # fmt: skip

    def __init__(
        self,
        outline: Outline,
        terms: Terms,
        indexes: tuple[int, ...],
        *,
        size: int,
        timing: Timing | None,
        errors: bytes,
    ) -> None:
        mark_ttl = terms.mark_ttl
        cache = CACHE_HIT if timing is not None else CACHE_MISS if mark_ttl == 0 else 0
        self.header = header_of(outline.flags, outline.counts, timing is not None)
        self.terms = terms
        self.kind = kind_of(terms.group, size, outline.counts[0] if terms.log else None, cache)
        self.records = outline.records
        self.rotation = outline.rotation if terms.rotate else NO_ROTATION
        self.serials = outline.serials if timing is None else ()
        self.indexes = indexes
        self.needs_lease = len(indexes) > (timing is not None)
        self.timing = timing
        self.until = (
            NEVER if timing is None else ALWAYS
        )  # the first hit of a timed reply writes the TTL
        self.errors = errors
        self.uses = self.turn = 0
        self.revalidate(CHANGES[0])

    def is_valid(self, versions: Versions) -> bool:
        """Return whether none of its counters has changed since it was last found valid."""
        changes = self.changes
        if changes == CHANGES[0]:
            return True
        moved = versions.moved
        return not any(moved[index] > changes for index in self.indexes)

    def revalidate(self, changes: int) -> None:
        """Record the value of CHANGES before it was found valid, and update the serial in the records."""
        if self.serials:
            assert self.terms.names is not None, "table.py has refused it"
            serial, records = self.terms.names.serial.to_bytes(4, "big"), self.records
            for at in self.serials:
                records = records[:at] + serial + records[at + 4 :]
            self.records = records
        self.changes = changes

    def count_down(self, now: float) -> bool:
        """Write the current TTL into the records of a timed reply; return False if it has expired."""
        assert self.timing is not None, "a timed reply"
        left = self.timing.left(now)
        if left is None:
            return False
        if left:
            self.records = with_ttl(self.records, sum(self.header.counts), left)
        self.until = self.timing.next_change(now)
        return True

    def rotated(self) -> bytes:
        """The records with the next rotation of the addresses, for an entry whose records rotate."""
        (step, first, count), records = self.rotation, self.records
        stop = first + step * count
        at = first + self.turn % count * step
        self.turn += 1
        return b"".join((records[:first], records[at:stop], records[first:at], records[stop:]))


def octets_of(key: bytes, entry: Entry) -> int:
    """The memory of an entry in octets."""
    numbers = len(entry.indexes) + len(entry.serials) + (entry.terms.mark_ttl > 0)
    octets = _ENTRY_LEN + _NUMBER_LEN * numbers
    for part in (key, entry.records, entry.errors, entry.indexes, entry.serials):
        octets += getsizeof(part) + _GRAIN - 1 & -_GRAIN if part else 0
    if entry.timing is not None:
        octets += _TIMING_LEN
    return octets + (_ROTATION_LEN if entry.rotation.step else 0)


def write(
    query: bytes,
    end: int,
    form: Form,
    limit: int,
    header: Header,
    records: bytes,
    errors: bytes = b"",
) -> bytes:
    """Write a reply of at most `limit` octets; header, question and an OPT without options are always written."""
    opt, flags, counts = form.opt, header.flags_for(form.variant), header.counts
    if opt and len(opt) > limit - end:
        opt = opt[: OPT_FIXED_LEN - 2] + b"\0\0"
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
