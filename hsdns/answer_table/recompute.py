"""The names whose replies are recomputed as soon as an event has invalidated them, and the chain that computes them.

Path: beside step 2; writer.py adds stored replies and recomputes them, server/answer_tables.py decides when.
Rule 1: a reply is recomputed only if a client has queried it since it was computed.  So a name that is queried between
        any two of its changes always has a reply in the table, and a name that is no longer queried costs one reply.
Rule 2: the chain has only the handlers up to `kubernetes`, and only their effect on the reply: it does not count, log
        or store anything, because there is no query.  The table counts the queries that it answers later.
Rule 3: the chain neither waits nor queries other servers.  Replies that require this, and replies other than NOERROR,
        are computed by the next query.
Rule 4: it may run in the watch thread.  The names belong to one thread; others only add to a queue, which needs no
        lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import Final

from hsdns.answer_table.capabilities import Recomputes
from hsdns.chain import Handler, Next, Request, has
from hsdns.cluster.freshness import ANYTHING
from hsdns.fastpath.key import KEY_CD, KEY_DO, KEY_EDNS
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply, unwritten

MOST: Final = 4096  # names of a listener; each takes less than a KiB

Key = bytes  # name in lower case, type, flags, as in fastpath/key.py


def key_of(query: Query) -> Key:
    """The key of the entry that answers a query."""
    flags = query.do * KEY_DO | query.cd * KEY_CD | (query.edns is not None) * KEY_EDNS
    return query.qname.lower + query.qtype.to_bytes(2, "big") + bytes((flags,))


class RecomputedName:
    """A name with type and flags: a query for it, its counters, and the entry's use count when it was stored.

    A client has queried it since if the use count is higher now.
    """

    __slots__ = ("counters", "query", "uses")

    def __init__(self, query: bytes, counters: tuple[int, ...], uses: int) -> None:
        self.query, self.counters, self.uses = query, counters, uses


ASKED: Final = -1  # `uses` of a name whose reply was computed for a client


class RecomputedNames:
    """The names to recompute, found by the counters that their replies depend on; the newest MOST names.

    `by_key` is for reading alone.
    """

    def __init__(self) -> None:
        # A query, its key and the counters of the reply; appended by any thread.
        self._added: deque[tuple[Key, bytes, tuple[int, ...]]] = deque(maxlen=MOST)
        self.by_key: dict[Key, RecomputedName] = {}
        self._by_counter: dict[int, dict[Key, None]] = {}

    def __len__(self) -> int:
        self._take_added()
        return len(self.by_key)

    def add(self, key: Key, wire: bytes, counters: Sequence[int]) -> None:
        """Note a reply that was computed for a client; from any thread."""
        # Each event invalidates the replies that depend on the whole cluster.
        if counters and ANYTHING not in counters:
            self._added.append((key, wire, tuple(counters)))

    def invalidated(self, counters: Iterable[int]) -> list[Key]:
        """The keys of the replies that depend on one of these counters, each once."""
        if self._added:
            self._take_added()
        found: dict[Key, None] = {}
        for counter in counters:
            found |= self._by_counter.get(counter, {})
        return list(found)

    def queries(self) -> list[bytes]:
        """A query for each name, the newest last."""
        self._take_added()
        return [each.query for each in self.by_key.values()]

    def note_recomputed(self, key: Key, counters: tuple[int, ...], uses: int) -> None:
        """Note a reply that was recomputed before the next query."""
        found = self.by_key.get(key)
        if found is not None and found.counters == counters:
            found.uses = uses
        elif found is not None:
            self._put(key, RecomputedName(found.query, counters, uses))

    def forget(self, key: Key) -> None:
        """Stop recomputing a name until it is added again."""
        found = self.by_key.pop(key, None)
        for counter in found.counters if found is not None else ():
            keys = self._by_counter[counter]
            keys.pop(key, None)
            if not keys:
                del self._by_counter[counter]

    def _take_added(self) -> None:
        added = self._added
        while added:
            key, query, counters = added.popleft()
            self._put(key, RecomputedName(query, counters, ASKED))

    def _put(self, key: Key, name: RecomputedName) -> None:
        self.forget(key)
        if len(self.by_key) >= MOST:
            self.forget(next(iter(self.by_key)))
        self.by_key[key] = name
        for counter in name.counters:
            self._by_counter.setdefault(counter, {})[key] = None


async def _end(request: Request) -> Reply:
    """End the chain; a reply that is not from the source is not recomputed."""
    return unwritten(Rcode.SERVFAIL)


def skips_recompute(handler: object) -> bool:
    """Whether a handler has no effect on recomputed replies."""
    return getattr(handler, "skips_recompute", False)


def link_recompute(handlers: Sequence[Handler], source: object) -> Next | None:
    """Link the chain that recomputes replies; None if a handler before the source supports neither protocol."""
    following: Next = _end
    at = next(at for at, each in enumerate(handlers) if each is source)
    for handler in reversed(handlers[: at + 1]):
        if skips_recompute(handler):
            continue
        if not has(handler, Recomputes):
            return None
        following = partial(_recompute, handler, following)
    return following


def _recompute(handler: Recomputes, following: Next, request: Request) -> Awaitable[Reply]:
    return handler.recompute(request, following)


def compute(chain: Next, request: Request) -> Reply | None:
    """Compute the reply that replaces an invalidated one; None if the next query has to compute it."""
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
