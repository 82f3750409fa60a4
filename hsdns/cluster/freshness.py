"""Counters that tell whether a stored answer is still valid, and the record of those that an answer depends on.

Path: the store increments the counters of what an event changes; code that computes an answer adds the counters of what
it is about to read; fastpath/ stores the answer with their values and uses it while none of them has changed.
Rule 1: a counter is added before the store is read, and incremented after the store has changed, by the thread that
        changes it.  An answer computed from the state before an event is therefore stale after it, whenever it is
        stored.  During an event, answers may be stored for the time after it.  What another thread reads meanwhile is
        sent only then: no client gets an older state after a newer one.
Rule 2: the number of counters is fixed.  Two objects that share a counter invalidate each other's answers, which costs
        time but never gives a wrong answer.  Names that do not exist have counters as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from hsdns.fastpath import Versions

COUNT: Final = 65_536
_MASK: Final = COUNT - 1
# Seconds that an answer waits for an event that is being applied, which takes less than a millisecond.
PATIENCE: Final = 0.1


class Counters(Protocol):
    """Numbers that only grow; fastpath has them in memory that it shares with the workers."""

    def bump(self, index: int) -> None:
        """Increment a counter."""

    def hold(self) -> None:
        """Begin an event: stored answers may stay valid until release(), whatever this thread increments."""

    def release(self, *, more: bool = False) -> None:
        """End the event: stored answers that depend on a counter that was incremented are stale.

        `more`: another event follows at once.
        """

    def settle(self, seconds: float) -> None:
        """Wait until the events that other threads are applying are shown, for what was read from the store."""

    def read(self, index: int) -> int:
        """The value of a counter, with all increments."""


class NoCounters:
    """Counters for a store without an answer table."""

    def bump(self, index: int) -> None:
        """Do nothing."""

    def hold(self) -> None:
        """Do nothing."""

    def release(self, *, more: bool = False) -> None:
        """Do nothing."""

    def settle(self, seconds: float) -> None:
        """Do nothing."""

    def read(self, index: int) -> int:
        """Always 0."""
        return 0


def versions_of(counters: Counters) -> Versions | None:
    """The counters of the answer tables, for compiled code, which increments them itself; None without tables."""
    found = getattr(counters, "versions", counters)
    return found if isinstance(found, Versions) else None


def service_counter(namespace: bytes, name: bytes) -> int:
    """The counter of a Service with its slices; names in lower case."""
    return hash((namespace, name)) & _MASK


def spec_counter(namespace: bytes, name: bytes) -> int:
    """The counter of a Service without its slices: the records of a ClusterIP do not depend on endpoints."""
    return hash((b"spec", namespace, name)) & _MASK


def import_counter(namespace: bytes, name: bytes) -> int:
    """The counter of a ServiceImport with its slices; names in lower case."""
    return hash((b"import", namespace, name)) & _MASK


def namespace_counter(namespace: bytes) -> int:
    """The counter of the existence of a namespace."""
    return hash((b"namespace", namespace)) & _MASK


def address_counter(address: bytes) -> int:
    """The counter of the Services that an address (4 or 16 octets) leads to."""
    return hash(address) & _MASK


def cached_counter(key: tuple[object, ...]) -> int:
    """The counter of an entry of `cache`."""
    return hash(key) & _MASK


def plugin_counter(name: bytes) -> int:
    """The counter of a plugin's own data."""
    return hash((b"plugin", name)) & _MASK


# For answers that depend on the whole cluster: the NS records of a zone.
ANYTHING: Final = hash((b"anything", b"at all")) & _MASK

# For replies that report the age of the cluster's state.
STALENESS: Final = hash((b"staleness", b"of all")) & _MASK


class CachedReply(NamedTuple):
    """What `cache` reports about a reply from one of its entries, so that the answer table may send it too.

    `kind` is the type under which it counts hits.  `timing` says when the entry was stored, its TTL then (0: TTLs are
    not counted down), and when `cache` must be asked again, in monotonic seconds.  `ad` is the AD bit of the entry.
    """

    kind: str
    timing: tuple[float, int, float]
    ad: bool


class Dependencies:
    """The counters that one answer depends on, with their values when they were first added.

    `mark` is the type under which `cache` counted the answer and for how many seconds it counts as a hit, if it did.
    `cached` is set if the answer is from an entry of `cache`.
    """

    __slots__ = ("_counters", "_pairs", "cached", "is_cacheable", "is_numerous", "mark")

    def __init__(self, counters: Counters) -> None:
        self.is_cacheable = True
        self.is_numerous = False
        self.mark: tuple[str, int] | None = None
        self.cached: CachedReply | None = None
        self._counters = counters
        self._pairs: dict[int, int] = {}

    def add(self, counter: int) -> None:
        """Add a counter; must be called before what it counts is read."""
        if counter not in self._pairs:  # the first value counts
            self._pairs[counter] = self._counters.read(counter)

    def mark_uncacheable(self) -> None:
        """Record that the answer also depends on something without a counter."""
        self.is_cacheable = False

    def mark_numerous(self) -> None:
        """Record that any number of names have such an answer, so that most of them will not be queried again."""
        self.is_numerous = True

    @property
    def hold(self) -> bool:
        """Whether no counter has changed since it was added."""
        return all(self._counters.read(index) == value for index, value in self._pairs.items())

    def settle(self) -> None:
        """Wait, before the answer is sent, until nobody can get an older one any more."""
        self._counters.settle(PATIENCE)

    def again(self) -> Dependencies:
        """An empty record, for another attempt to compute the answer."""
        return Dependencies(self._counters)

    @property
    def counters(self) -> tuple[int, ...]:
        """The counters without their values."""
        return tuple(self._pairs)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The counters with their values."""
        return tuple(self._pairs.items())


MAX_ATTEMPTS: Final = 3


def attempts(dependencies: Dependencies | None) -> Iterator[Dependencies | None]:
    """The record for each attempt to compute an answer from a state that does not change meanwhile.

    If it does, the first record, which is that of the request, is outdated, so the answer is not stored.
    """
    for _ in range(MAX_ATTEMPTS):
        yield dependencies
        if dependencies is None or dependencies.hold:
            return
        dependencies = dependencies.again()
