"""A bounded table of replies.

Path: plugins/cache has two: for positive replies and for denials.
Source: CoreDNS 1.14.7 plugin/pkg/cache (256 shards of at least 4 entries each) and plugin/cache/item.go.
Rule: entries do not expire.  As in CoreDNS an entry stays until its key is stored again or it is evicted at random;
      otherwise coredns_cache_entries would have another meaning.
"""

from __future__ import annotations

from random import Random
from typing import Final

from hsdns.wire.message import RR, Reply

SHARDS: Final = 256
MIN_PER_SHARD: Final = 4

Key = tuple[bytes, int, int, bool, bool]  # lower-case qname, qtype, qclass, DO, CD


class Entry:
    """A reply, or None as the marker of a `fresh` one, and its TTL; times in seconds.

    `is_positive` tells whether it is a positive answer; otherwise `last_good` is the one that it has replaced
    (`prefer_positive`).  `wildcard` is the value of the metadata of that name.
    """

    __slots__ = (
        "_hits",
        "_is_refreshing",
        "_last_hit",
        "_retry_after",
        "_shown",
        "_shown_ttl",
        "full_ttl",
        "is_positive",
        "is_servfail",
        "last_good",
        "reply",
        "stored",
        "wildcard",
    )

    def __init__(
        self, reply: Reply | None, ttl: int, now: float, is_servfail: bool = False
    ) -> None:
        self.reply = reply
        self.is_servfail = is_servfail
        self.is_positive = False
        self.last_good: Entry | None = None
        self.wildcard = ""
        self.full_ttl = ttl
        self.stored = now
        self._shown: Reply | None = None
        self._shown_ttl = -1
        self._last_hit = -1e18
        self._hits = 0
        self._is_refreshing = False
        self._retry_after = -1e18

    def ttl(self, now: float) -> int:
        """The remaining seconds, rounded up; 0 or less after it has expired."""
        return self.full_ttl - int(now - self.stored)

    def is_usable(self, now: float, stale: int = 0) -> bool:
        """Whether it may be served; entries but markers for `stale` seconds after they expire."""
        ttl = self.ttl(now)
        return ttl > 0 or (self.reply is not None and -ttl < stale)

    @property
    def is_outdated(self) -> bool:
        """Whether the name now exists in the cluster, which did not have it when the reply was made."""
        reply = self.reply
        return reply is not None and reply.still_holds is not None and not reply.still_holds()

    def show(self, ttl: int) -> Reply | None:
        """The reply with a TTL; made again only if the TTL differs from the last one."""
        if self.reply is None:
            return None
        if self._shown is None or self._shown_ttl != ttl:
            self._shown = with_ttl(self.reply, ttl)
            self._shown_ttl = ttl
        return self._shown

    def hit(self, now: float, gap: float) -> int:
        """Count a hit; return the number of hits less than `gap` seconds apart."""
        self._hits = 1 if self._last_hit < now - gap else self._hits + 1
        self._last_hit = now
        return self._hits

    @property
    def hits(self) -> int:
        """How many hits less than `gap` seconds apart hit() has counted."""
        return self._hits

    def take_hits(self, other: Entry, now: float) -> None:
        """Continue with the hits of the entry that this one replaces."""
        self._hits, self._last_hit = other._hits, now

    def begin_refresh(self, now: float, recheck: float = 0.0) -> bool:
        """Begin a refresh, unless one is running or has failed less than `recheck` seconds ago; tell whether."""
        if self._is_refreshing or (recheck and now < self._retry_after):
            return False
        self._is_refreshing = True
        return True

    def end_refresh(self, now: float, recheck: float, *, refreshed: bool) -> None:
        """End a refresh, with its result."""
        self._is_refreshing = False
        self._retry_after = -1e18 if refreshed else now + recheck


class Store:
    """A bounded table with random eviction."""

    __slots__ = ("_entries", "_keys", "_places", "_random", "_room")

    def __init__(self, capacity: int, random: Random) -> None:
        """Take the capacity of the Corefile; it is rounded down to whole shards, at least 1,024."""
        self._room = max(capacity // SHARDS, MIN_PER_SHARD) * SHARDS
        self._random = random
        self._entries: dict[Key, Entry] = {}
        # A random key of a dict would take linear time; the list and the places of keys in it make it constant.
        self._keys: list[Key] = []
        self._places: dict[Key, int] = {}

    def __len__(self) -> int:
        """The number of entries, including expired ones."""
        return len(self._entries)

    def find(self, key: Key) -> Entry | None:
        """The entry of a key, even if it has expired."""
        return self._entries.get(key)

    def lookup(self, key: Key, now: float, stale: int = 0) -> Entry | None:
        """The entry of a key if it may be served, up to `stale` seconds after it expires."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.is_usable(now, stale) else None

    def store(self, key: Key, entry: Entry) -> bool:
        """Store an entry; return whether another one was evicted."""
        evicted = False
        if key not in self._entries:
            if len(self._keys) >= self._room:
                self.remove(self._keys[self._random.randrange(len(self._keys))])
                evicted = True
            self._places[key] = len(self._keys)
            self._keys.append(key)
        self._entries[key] = entry
        return evicted

    def remove(self, key: Key) -> None:
        """Remove a key; the last one of the list moves to its place."""
        if self._entries.pop(key, None) is None:
            return
        place, last = self._places.pop(key), self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._places[last] = place


def with_ttl(reply: Reply, ttl: int) -> Reply:
    """The reply with one TTL for all records."""
    return reply.replace(
        answer=_with_ttl(reply.answer, ttl),
        authority=_with_ttl(reply.authority, ttl),
        additional=_with_ttl(reply.additional, ttl),
    )


def _with_ttl(records: tuple[RR, ...], ttl: int) -> tuple[RR, ...]:
    return tuple(
        [RR(owner, rrtype, ttl, rdata, rrclass) for owner, rrtype, _, rdata, rrclass in records]
    )
