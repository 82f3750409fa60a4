"""Counters that an event moves, and the record of which of them an answer depends on.

Path: store.py bumps what an event touches; whoever computes an answer notes what it is about to read; fastpath/ keeps
an answer only as long as none of these counters has moved.
Rule 1: a counter is noted before the store is read and bumped in the step of the loop that changes the store, so an
        answer that was computed from the state before an event is stale after it, whenever it is learned.
Rule 2: there is a fixed number of counters.  Two things that share one cost each other a computation, never a wrong
        answer.  Names that do not exist are covered like those that do: what is counted is the place looked at.
"""

from __future__ import annotations

from typing import Final, Protocol

COUNT: Final = 65_536
_MASK: Final = COUNT - 1


class Counters(Protocol):
    """Numbers that only go up; fastpath has them, shared with its workers."""

    def bump(self, index: int) -> None:
        """Move one counter."""

    def read(self, index: int) -> int:
        """Read one counter."""


class Names(Protocol):
    """Which namespaces and Services there are, for whoever answers that a name does not exist."""

    open: bool  # whether absence means that a name does not exist
    serial: int  # of the zone, now

    def add_namespace(self, label: bytes) -> None:
        """Take a namespace, in lower case."""

    def remove_namespace(self, label: bytes) -> None:
        """Drop a namespace."""

    def add_service(self, namespace: bytes, name: bytes) -> None:
        """Take a Service, in lower case."""

    def remove_service(self, namespace: bytes, name: bytes) -> None:
        """Drop a Service."""


class NoNames:
    """Names for a store that nobody answers from but the chain."""

    open = False
    serial = 0

    def add_namespace(self, label: bytes) -> None:
        """Do nothing."""

    def remove_namespace(self, label: bytes) -> None:
        """Do nothing."""

    def add_service(self, namespace: bytes, name: bytes) -> None:
        """Do nothing."""

    def remove_service(self, namespace: bytes, name: bytes) -> None:
        """Do nothing."""


class NoCounters:
    """Counters for a store that nobody keeps answers of."""

    def bump(self, index: int) -> None:
        """Do nothing."""

    def read(self, index: int) -> int:
        """Always the same."""
        return 0


def service_counter(namespace: bytes, name: bytes) -> int:
    """The counter of a Service with its slices, in lower case."""
    return hash((namespace, name)) & _MASK


def import_counter(namespace: bytes, name: bytes) -> int:
    """The counter of a ServiceImport with its slices, in lower case."""
    return hash((b"import", namespace, name)) & _MASK


def namespace_counter(namespace: bytes) -> int:
    """The counter of a namespace's being there."""
    return hash((b"namespace", namespace)) & _MASK


def address_counter(address: bytes) -> int:
    """The counter of which Services an address leads to; 4 or 16 octets."""
    return hash(address) & _MASK


def plugin_counter(name: bytes) -> int:
    """The counter of what a plugin knows by itself."""
    return hash((b"plugin", name)) & _MASK


# What depends on the whole cluster: who serves the zone.
ANYTHING: Final = hash((b"anything", b"at all")) & _MASK


class Dependencies:
    """What one answer depends on: pairs of a counter and its value at that time.

    `mark` is how `cache` counted it, where it did: as which kind, and for how many seconds it counts as a hit.
    """

    __slots__ = ("_counters", "_pairs", "is_cacheable", "mark")

    def __init__(self, counters: Counters) -> None:
        self.is_cacheable = True  # False: it depends on something else too
        self.mark: tuple[str, int] | None = None
        self._counters = counters
        self._pairs: dict[int, int] = {}

    def note(self, index: int) -> None:
        """Take note of a counter; to be called before what it stands for is read."""
        if index not in self._pairs:  # the oldest value counts
            self._pairs[index] = self._counters.read(index)

    def mark_uncacheable(self) -> None:
        """Take note that the answer depends on what no counter tells."""
        self.is_cacheable = False

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Counters and their values."""
        return tuple(self._pairs.items())
