"""What many stored replies have in common, kept once: header, counts, what a hit counts as, the SOA records.

Path: table.py takes a shape for each entry, which gives it back when it goes.  Replies of one block to names of one
length mostly have one shape; negative ones have all of theirs in it.
Rule 1: the SOA serial is that of now, wherever one stands: it moves with every event, the records do not.  They are
        part of the shape, so that it is written once for all entries.
Rule 2: a shape lives as long as an entry has it, and its memory is counted once.
"""

from __future__ import annotations

import struct
from typing import Final

from hsdns.fastpath.key import VARIANT_EDNS, VARIANT_FLAGS
from hsdns.fastpath.records import Outline
from hsdns.fastpath.tally import CACHE_MISS, kind_of
from hsdns.fastpath.versions import ClusterNames

# What a shape costs beside its records: itself, eight headers, its place in the dictionary and the key there.
SHAPE_LEN: Final = 1408
_HEAD: Final = struct.Struct("!HHHHH")  # all of the header but the ID
_NO_SERIAL: Final = bytes(4)

# kind, flags, counts, step, mark_ttl, names, serials, records, max_payload: as in Shape.
Key = tuple[
    int, int, tuple[int, int, int], int, int, ClusterNames | None, tuple[int, ...], bytes, int
]


class Shape:
    """What entries with equal flags, counts, size and terms have in common.

    `heads` are the header after the ID for each variant of query (key.py).  `step` is the length of each record that
    rotates (0: nothing does), `count` how many there are, `block` their octets.  `kind` is what a hit counts as but
    for the query's length, DO, and the outcome of a mark.  `names` has the serial of `records`; where it is None,
    each entry has records of its own.  `users` is how many entries have it.  `max_payload` is the largest size that a
    reply says and, over UDP, has; larger ones of queries are lowered to it.
    """

    __slots__ = (
        "block", "count", "counts", "flags", "heads", "key", "kind", "mark_ttl", "max_payload", "names",
        "octets", "records", "serial", "serials", "step", "users",
    )  # fmt: skip

    def __init__(self, key: Key) -> None:
        self.key = key
        (
            self.kind, self.flags, self.counts, self.step, self.mark_ttl, self.names, self.serials, self.records,
            self.max_payload,
        ) = key  # fmt: skip
        self.heads = heads_of(self.flags, self.counts)
        self.count = self.counts[0]
        self.block = self.step * self.count
        self.serial = 0
        self.octets = SHAPE_LEN + 2 * len(self.records)
        self.users = 0

    @property
    def is_dated(self) -> bool:
        """Whether the serial in its records is an old one."""
        return self.names is not None and self.names.serial != self.serial

    def update_serial(self) -> None:
        """Write the serial of now into its records."""
        if self.names is None or self.names.serial == self.serial:
            return
        self.serial = self.names.serial
        octets = self.serial.to_bytes(4, "big")
        records = bytearray(self.records)
        for at in self.serials:
            records[at : at + 4] = octets
        self.records = bytes(records)


class Shapes:
    """The shapes of one table; `octets` is what they take."""

    def __init__(self) -> None:
        self.octets = 0
        self._shapes: dict[Key, Shape] = {}

    def take(self, key: Key) -> Shape:
        """Return the shape of a key, with one user more."""
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = Shape(key)
            self.octets += found.octets
        found.users += 1
        return found

    def give_back(self, shape: Shape) -> None:
        """Note that a user is gone."""
        shape.users -= 1
        if not shape.users:
            del self._shapes[shape.key]
            self.octets -= shape.octets

    def clear(self) -> None:
        """Forget all."""
        self._shapes.clear()
        self.octets = 0


def key_of(
    outline: Outline,
    *,
    group: int,
    size: int,
    rotate: bool,
    names: ClusterNames | None,
    mark_ttl: int,
    log: bool,
    max_payload: int,
) -> Key:
    """Put together what makes a shape: what it is computed from but for the serial."""
    cache = CACHE_MISS if mark_ttl == 0 else 0
    return (
        kind_of(group, size, outline.counts[0] if log else None, cache),
        outline.flags,
        outline.counts,
        outline.step if rotate else 0,
        mark_ttl,
        names if outline.serials else None,
        outline.serials,
        _without_serials(outline) if outline.serials else b"",
        max_payload,
    )


def heads_of(flags: int, counts: tuple[int, int, int]) -> tuple[bytes, ...]:
    """The ten octets after the ID of the reply to each variant of query."""
    answer, authority, additional = counts
    return tuple(
        _HEAD.pack(
            flags | of_query,
            1,
            answer,
            authority,
            additional + (1 if variant & VARIANT_EDNS else 0) & 0xFFFF,
        )
        for variant, of_query in enumerate(VARIANT_FLAGS)
    )


def _without_serials(outline: Outline) -> bytes:
    records = bytearray(outline.records)
    for at in outline.serials:
        records[at : at + 4] = _NO_SERIAL
    return bytes(records)
