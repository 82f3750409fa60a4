"""Replies under their keys, with room for so many and no more.

Path: plugins/cache.py holds two: one for what was found, one for what was not.
Source: CoreDNS 1.14.7 plugin/pkg/cache (256 shards of at least 4 entries each) and plugin/cache/item.go.
Rule 1: nothing leaves by age: an entry stays until its key is stored anew or it is drawn to make room, as in CoreDNS.
        Otherwise coredns_cache_entries would mean something else.
"""

from __future__ import annotations

from random import Random
from typing import Final

from hsdns.wire.message import RR, Reply

SHARDS: Final = 256
MIN_PER_SHARD: Final = 4

Key = tuple[bytes, int, int, bool, bool]  # lower-case qname, qtype, qclass, DO, CD


class Entry:
    """A reply, or with None the mark that there was one, and how long it counts; times in seconds.

    `answers` says that it is a good answer, `last_good` is the one that it has replaced where it is none
    (`prefer_positive`); `wildcard` is the value of the metadata of that name.
    """

    __slots__ = (
        "_hits",
        "_is_refreshing",
        "_last_hit",
        "_retry_after",
        "_shown",
        "_shown_ttl",
        "_stored",
        "answers",
        "full_ttl",
        "is_servfail",
        "last_good",
        "reply",
        "wildcard",
    )

    def __init__(
        self, reply: Reply | None, ttl: int, now: float, is_servfail: bool = False
    ) -> None:
        self.reply = reply
        self.is_servfail = is_servfail
        self.answers = False
        self.last_good: Entry | None = None
        self.wildcard = ""
        self.full_ttl = ttl
        self._stored = now
        self._shown: Reply | None = None
        self._shown_ttl = -1
        self._last_hit = -1e18
        self._hits = 0
        self._is_refreshing = False
        self._retry_after = -1e18

    def ttl(self, now: float) -> int:
        """Seconds left, started ones counted as whole; 0 or less when it is over."""
        return self.full_ttl - int(now - self._stored)

    def counts(self, now: float, stale: int = 0) -> bool:
        """Whether it may be served; a mark never after its time, other entries for `stale` seconds more."""
        ttl = self.ttl(now)
        return ttl > 0 or (self.reply is not None and -ttl < stale)

    @property
    def is_overtaken(self) -> bool:
        """Whether the cluster knows by now what it did not know when the reply was made."""
        reply = self.reply
        return reply is not None and reply.still_holds is not None and not reply.still_holds()

    def show(self, ttl: int) -> Reply | None:
        """The reply with one TTL; made anew only when it is another one than the last time."""
        if self.reply is None:
            return None
        if self._shown is None or self._shown_ttl != ttl:
            self._shown = with_ttl(self.reply, ttl)
            self._shown_ttl = ttl
        return self._shown

    def hit(self, now: float, gap: float) -> int:
        """Count a hit; return how many there were without `gap` seconds between two of them."""
        self._hits = 1 if self._last_hit < now - gap else self._hits + 1
        self._last_hit = now
        return self._hits

    def take_hits(self, other: Entry, now: float) -> None:
        """Go on from the hits of the entry that this one replaces."""
        self._hits, self._last_hit = other._hits, now

    def begin_refresh(self, now: float, recheck: float = 0.0) -> bool:
        """Tell whether to ask anew: not while somebody does, nor where `recheck` is given soon after it failed."""
        if self._is_refreshing or (recheck and now < self._retry_after):
            return False
        self._is_refreshing = True
        return True

    def end_refresh(self, now: float, recheck: float, *, refreshed: bool) -> None:
        """Note how it went."""
        self._is_refreshing = False
        self._retry_after = -1e18 if refreshed else now + recheck


class Store:
    """A bounded table with random eviction."""

    __slots__ = ("_entries", "_keys", "_places", "_random", "_room")

    def __init__(self, capacity: int, random: Random) -> None:
        """Take the capacity as the Corefile gives it: it is rounded down to whole shards, 1,024 at least."""
        self._room = max(capacity // SHARDS, MIN_PER_SHARD) * SHARDS
        self._random = random
        self._entries: dict[Key, Entry] = {}
        # Drawing from a dict would walk it; the list can be drawn from, and a key's place in it found, at once.
        self._keys: list[Key] = []
        self._places: dict[Key, int] = {}

    def __len__(self) -> int:
        """How many entries there are, those whose time is over included."""
        return len(self._entries)

    def find(self, key: Key) -> Entry | None:
        """Find a key's entry, also when its time is over."""
        return self._entries.get(key)

    def lookup(self, key: Key, now: float, stale: int = 0) -> Entry | None:
        """Find a key's entry if it may be served, for `stale` seconds after its time too."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.counts(now, stale) else None

    def remember(self, key: Key, entry: Entry) -> bool:
        """Store an entry; tell whether another one had to go for it."""
        evicted = False
        if key not in self._entries:
            if len(self._keys) >= self._room:
                self.forget(self._keys[self._random.randrange(len(self._keys))])
                evicted = True
            self._places[key] = len(self._keys)
            self._keys.append(key)
        self._entries[key] = entry
        return evicted

    def forget(self, key: Key) -> None:
        """Take a key out; the last one of the list moves to its place."""
        if self._entries.pop(key, None) is None:
            return
        place, last = self._places.pop(key), self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._places[last] = place


def with_ttl(reply: Reply, ttl: int) -> Reply:
    """The reply with one TTL on all its records."""
    return reply.replace(
        answer=_with_ttl(reply.answer, ttl),
        authority=_with_ttl(reply.authority, ttl),
        additional=_with_ttl(reply.additional, ttl),
    )


def _with_ttl(records: tuple[RR, ...], ttl: int) -> tuple[RR, ...]:
    return tuple(
        [RR(owner, rrtype, ttl, rdata, rrclass) for owner, rrtype, _, rdata, rrclass in records]
    )
