"""Shared headers: the data that many stored replies have in common, stored once.

Path: table.py acquires one for each entry and releases it when the entry is dropped.  It has the reply's header, its
counts, the kind of its hits, and the SOA records.  Replies of one server block to names of one length mostly share one;
negative replies also share all their records.
Rule 1: the SOA serial is the current one wherever it occurs: it changes with every event, while the rest of the records
        stays.  So these records are part of the shared header, and the serial is written once for all entries.
Rule 2: a shared header exists as long as an entry uses it, and its memory is counted once.
"""

from __future__ import annotations

import struct
from typing import Final

from hsdns.fastpath.hit_counts import CACHE_HIT, CACHE_MISS, kind_of
from hsdns.fastpath.key import VARIANT_AD, VARIANT_EDNS, VARIANT_FLAGS, Form, lower_size
from hsdns.fastpath.records import NO_ROTATION, Outline, Rotation
from hsdns.fastpath.versions import ClusterNames
from hsdns.wire.edns import with_options
from hsdns.wire.message import AD

# The `mark_ttl` of a timed reply: each hit is a hit of `cache`.
TIMED: Final = -2
# Memory beside the records: the object, eight headers, its place in the dictionary and the key there; and eight more
# headers of replies with AD, which not all clients get.
SHARED_HEADER_LEN: Final = 1504
_MORE_HEADERS_LEN: Final = 8 * 48
_HEAD: Final = struct.Struct("!HHHHH")  # all of the header but the ID
_NO_SERIAL: Final = bytes(4)

# kind, flags, counts, rotation, mark_ttl, names, serials, records, max_payload, errors: as in SharedHeader.
Key = tuple[
    int,
    int,
    tuple[int, int, int],
    Rotation,
    int,
    ClusterNames | None,
    tuple[int, ...],
    bytes,
    int,
    bytes,
]


class SharedHeader:
    """The common data of entries with equal flags, counts, size and terms.

    `heads` are the header after the ID for each variant of query (key.py).  `step` is the length of each record that
    rotates (0: none does), `count` their number, `first` and `stop` their start and end.  `kind` is that of a hit
    (hit_counts.py) without the query's length, DO, and the outcome of a mark.  `names` has the serial of `records`; if
    it is None, each entry has records of its own.  `users` is the number of entries with this shared header.
    `max_payload` is the largest payload size in a reply's OPT and of a reply over UDP; larger ones of queries are
    lowered to it.  `errors` are the options with Extended DNS Errors at the end of the OPT of each reply.  A form whose
    limit is above `adapted_above` must be passed to adapt().
    """

    __slots__ = (
        "adapted_above", "count", "counts", "errors", "first", "flags", "heads", "key", "kind", "mark_ttl",
        "max_payload", "names", "octets", "records", "serial", "serials", "step", "stop", "users",
    )  # fmt: skip

    def __init__(self, key: Key) -> None:
        self.key = key
        (
            self.kind, self.flags, self.counts, (self.step, self.first, self.count), self.mark_ttl, self.names,
            self.serials, self.records, self.max_payload, self.errors,
        ) = key  # fmt: skip
        self.adapted_above = -1 if self.errors else self.max_payload
        self.heads = heads_of(self.flags, self.counts)
        self.stop = self.first + self.step * self.count
        self.serial = 0
        self.octets = SHARED_HEADER_LEN + 2 * len(self.records) + len(self.errors)
        if self.mark_ttl == TIMED and self.flags & AD:
            without = heads_of(self.flags & ~AD, self.counts)
            self.heads = without[:VARIANT_AD] + self.heads[VARIANT_AD:]
            self.octets += _MORE_HEADERS_LEN
        self.users = 0

    def flags_for(self, variant: int) -> int:
        """The flags of a reply to a variant of query but RD and CD; a timed reply has AD only for clients that ask."""
        is_hidden = self.mark_ttl == TIMED and not variant & VARIANT_AD
        return self.flags & ~AD if is_hidden else self.flags

    def adapt(self, form: Form) -> tuple[Form, bytes]:
        """The form with its payload size lowered, and the OPT record of the reply to it with all options."""
        if form.limit > self.max_payload:
            form = lower_size(form, self.max_payload)
        return form, with_options(form.opt, self.errors) if form.opt else form.opt

    @property
    def has_old_serial(self) -> bool:
        """Whether the serial in its records is outdated."""
        return self.names is not None and self.names.serial != self.serial

    def update_serial(self) -> None:
        """Write the current serial into its records."""
        if self.names is None or self.names.serial == self.serial:
            return
        self.serial = self.names.serial
        octets = self.serial.to_bytes(4, "big")
        records = bytearray(self.records)
        for at in self.serials:
            records[at : at + 4] = octets
        self.records = bytes(records)


class SharedHeaders:
    """The shared headers of one table; `octets` is their memory."""

    def __init__(self) -> None:
        self.octets = 0
        self._by_key: dict[Key, SharedHeader] = {}

    def acquire(self, key: Key) -> SharedHeader:
        """Return the shared header of a key, and add a user."""
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = SharedHeader(key)
            self.octets += found.octets
        found.users += 1
        return found

    def release(self, shared: SharedHeader) -> None:
        """Remove a user; the last one removes the shared header."""
        shared.users -= 1
        if not shared.users:
            del self._by_key[shared.key]
            self.octets -= shared.octets

    def clear(self) -> None:
        """Remove all shared headers."""
        self._by_key.clear()
        self.octets = 0


def make_key(
    outline: Outline,
    *,
    group: int,
    size: int,
    rotate: bool,
    names: ClusterNames | None,
    mark_ttl: int,
    log: bool,
    max_payload: int,
    errors: bytes = b"",
) -> Key:
    """The key of a reply's shared header: all data that it is computed from, except the serial."""
    cache = CACHE_MISS if mark_ttl == 0 else CACHE_HIT if mark_ttl == TIMED else 0
    serials = () if mark_ttl == TIMED else outline.serials
    return (
        kind_of(group, size, outline.counts[0] if log else None, cache),
        outline.flags,
        outline.counts,
        outline.rotation if rotate else NO_ROTATION,
        mark_ttl,
        names if serials else None,
        serials,
        _without_serials(outline) if serials else b"",
        max_payload,
        errors,
    )


def heads_of(flags: int, counts: tuple[int, int, int]) -> tuple[bytes, ...]:
    """The ten octets after the ID of the reply to each variant of query."""
    answer, authority, additional = counts
    heads = tuple(
        _HEAD.pack(
            flags | of_query,
            1,
            answer,
            authority,
            additional + (1 if variant & VARIANT_EDNS else 0) & 0xFFFF,
        )
        for variant, of_query in enumerate(VARIANT_FLAGS[:VARIANT_AD])
    )
    return heads * 2  # AD or DO of the query changes nothing


def _without_serials(outline: Outline) -> bytes:
    records = bytearray(outline.records)
    for at in outline.serials:
        records[at : at + 4] = _NO_SERIAL
    return bytes(records)
