"""The names whose replies are made again as soon as an event has ended them, and the chain that makes them.

Path: beside step 2; writer.py adds what it stores and makes replies again, server/renewals.py says when.
Rule 1: a reply is made again only if somebody has asked for it since it was made: who asks for a name between any two
        of its changes finds each of them in the table; a name that nobody asks for any more costs one reply.
Rule 2: the chain that makes it has the handlers up to `kubernetes` alone, and of these what makes the reply: nothing is
        counted, logged or stored in it, as nobody asks.  Who asks then is counted by the table.
Rule 3: it neither waits nor leaves the cluster; a reply that would, or another one than NOERROR, is left to the query
        that asks for it.
Rule 4: it may run in the thread of the watch, the names belong to one thread.  Others only add, which needs no lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from hsdns.answer_table.capabilities import NeedsNoRenewal, Renews
from hsdns.capability import has
from hsdns.chain import Handler, Next, Request
from hsdns.cluster.freshness import ANYTHING
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply, unwritten

MOST: Final = 4096  # names of a listener; each takes less than a KiB

Key = tuple[bytes, int, bool, bool, bool]  # name, type, DO, CD, whether there is an OPT


def key_of(query: Query) -> Key:
    """What queries with the same entry have in common."""
    return query.qname.lower, query.qtype, query.do, query.cd, query.edns is not None


class _Name:
    """A name with a type and flags: a query for it, its counters, and how often its entry had been used by then."""

    __slots__ = ("counters", "query", "uses")

    def __init__(self, query: bytes, counters: tuple[int, ...], uses: int) -> None:
        self.query, self.counters, self.uses = query, counters, uses


ASKED: Final = -1  # `uses` of a name whose reply was made for one who asked


class RenewedNames:
    """What is made again, found by the counters that its replies depend on; the newest names, MOST of them."""

    def __init__(self) -> None:
        # A query, its key and the counters of the reply; appended by any thread.
        self._added: deque[tuple[Key, bytes, tuple[int, ...]]] = deque(maxlen=MOST)
        self._names: dict[Key, _Name] = {}
        self._by_counter: dict[int, dict[Key, None]] = {}

    def __len__(self) -> int:
        self._take_added()
        return len(self._names)

    def add(self, query: Query, wire: bytes, counters: Sequence[int]) -> None:
        """Note a reply that was made for one who asked; from any thread."""
        # Replies that depend on the whole cluster are ended by each event.
        if counters and ANYTHING not in counters:
            self._added.append((key_of(query), wire, tuple(counters)))

    def ended(self, counters: Iterable[int]) -> list[Key]:
        """The keys of what depends on one of these counters, each once."""
        self._take_added()
        found: dict[Key, None] = {}
        for counter in counters:
            found |= self._by_counter.get(counter, {})
        return list(found)

    def query(self, key: Key) -> bytes | None:
        """A query for a name; None if it has been forgotten."""
        found = self._names.get(key)
        return None if found is None else found.query

    def queries(self) -> list[bytes]:
        """A query for each name, the newest last."""
        self._take_added()
        return [each.query for each in self._names.values()]

    def was_asked(self, key: Key, uses: int | None) -> bool:
        """Whether a name was asked for since its reply was made, as its entry has been used so often by now."""
        found = self._names.get(key)
        return found is not None and uses is not None and uses > found.uses

    def renew(self, key: Key, counters: Sequence[int], uses: int) -> None:
        """Note a reply that was made before anybody asked."""
        found = self._names.get(key)
        if found is not None:
            self._put(key, _Name(found.query, tuple(counters), uses))

    def forget(self, key: Key) -> None:
        """Make it again no more, until somebody asks."""
        found = self._names.pop(key, None)
        for counter in found.counters if found is not None else ():
            keys = self._by_counter[counter]
            keys.pop(key, None)
            if not keys:
                del self._by_counter[counter]

    def _take_added(self) -> None:
        added = self._added
        while added:
            key, query, counters = added.popleft()
            self._put(key, _Name(query, counters, ASKED))

    def _put(self, key: Key, name: _Name) -> None:
        self.forget(key)
        if len(self._names) >= MOST:
            self.forget(next(iter(self._names)))
        self._names[key] = name
        for counter in name.counters:
            self._by_counter.setdefault(counter, {})[key] = None


async def _end(request: Request) -> Reply:
    """Where the reply is not that of the source, it is not made again."""
    return unwritten(Rcode.SERVFAIL)


def link_renewal(handlers: Sequence[Handler], source: object) -> Next | None:
    """Link what makes a reply again; None if a handler before the source cannot tell what it does to it."""
    following: Next = _end
    at = next(at for at, each in enumerate(handlers) if each is source)
    for handler in reversed(handlers[: at + 1]):
        if has(handler, NeedsNoRenewal):
            continue
        if not has(handler, Renews):
            return None
        following = _bind(handler, following)
    return following


def _bind(handler: Renews, following: Next) -> Next:
    renew = handler.renew
    return lambda request: renew(request, following)


def make(chain: Next, request: Request) -> Reply | None:
    """The reply that is stored in place of one that has ended; None if it is left to who asks."""
    making = chain(request)
    step = making.__await__()
    try:
        next(step)
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply if reply.fresh and reply.rcode == Rcode.NOERROR else None
    close = getattr(making, "close", None)
    if close is not None:
        close()
    return None
