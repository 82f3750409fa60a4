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
    """A reply, or with None the mark that there was one, and how long it counts; times in seconds."""

    __slots__ = ("_shown", "_shown_ttl", "_stored", "_ttl", "is_servfail", "reply")

    def __init__(
        self, reply: Reply | None, ttl: int, now: float, is_servfail: bool = False
    ) -> None:
        self.reply = reply
        self.is_servfail = is_servfail
        self._ttl = ttl
        self._stored = now
        self._shown: Reply | None = None
        self._shown_ttl = -1

    def ttl(self, now: float) -> int:
        """Seconds left, started ones counted as whole; 0 or less when it is over."""
        return self._ttl - int(now - self._stored)

    @property
    def is_overtaken(self) -> bool:
        """Whether the cluster knows by now what it did not know when the reply was made."""
        reply = self.reply
        return reply is not None and reply.still_holds is not None and not reply.still_holds()

    def show(self, now: float) -> Reply | None:
        """The reply with what is left of its TTL; made once a second at most."""
        if self.reply is None:
            return None
        ttl = self.ttl(now)
        if self._shown is None or self._shown_ttl != ttl:
            self._shown = with_ttl(self.reply, ttl)
            self._shown_ttl = ttl
        return self._shown


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

    def lookup(self, key: Key, now: float) -> Entry | None:
        """Find a key's entry if its time is not over."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.ttl(now) > 0 else None

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
