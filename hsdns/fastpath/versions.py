"""Counters that say whether a stored reply is still true, and names whose absence can be told.

Path: cluster/store.py bumps and adds; table.py and region.py of the same step compare and ask.  Pure twin of
native/src/versions.rs and names.rs.
Rule 1: whoever computes a reply reads the counters first and the store after that; an event changes the store and
        bumps them in one step.  So a reply is true as long as its counters stand where they were read.
Rule 2: counters are shared by many names: a collision costs a miss, never a wrong answer.
Rule 3: whatever can make a stored or prepared reply untrue moves CHANGES too, and each counter has where CHANGES
        stood when it was bumped last.  So where CHANGES stood when a reply was found true says it all: it is true
        until CHANGES moves, which is one comparison for each hit, and after that if none of its counters was bumped.
"""

from __future__ import annotations

from typing import Final

# How many changes there were in this process: one number in a list, so that all see the same.
CHANGES: Final = [0]


class Versions:
    """65,536 counters that only grow; an index is taken modulo that."""

    SIZE: Final = 65536

    __slots__ = ("moved", "values")

    def __init__(self) -> None:
        self.values = [0] * self.SIZE
        self.moved = [0] * self.SIZE  # what CHANGES was after the last bump

    def bump(self, index: int) -> None:
        """Make stale what depends on a counter."""
        index %= self.SIZE
        self.values[index] += 1
        CHANGES[0] += 1
        self.moved[index] = CHANGES[0]

    def read(self, index: int) -> int:
        """Return where a counter stands."""
        return self.values[index % self.SIZE]


class ClusterNames:
    """Which namespaces and Services a cluster has, and the serial of its zones.

    Absence means NXDOMAIN only while `open` is set, that is once everything was listed.  Labels are in lower case.
    """

    __slots__ = ("_count", "_is_open", "_serial", "namespaces", "services")

    def __init__(self) -> None:
        self._is_open = False
        self._serial = 0
        self._count = 0
        self.namespaces: set[bytes] = set()
        self.services: dict[bytes, set[bytes]] = {}  # namespace -> its Services

    @property
    def open(self) -> bool:
        """Whether absence means NXDOMAIN."""
        return self._is_open

    @open.setter  # noqa: A003 - it is the property above that is meant
    def open(self, is_open: bool) -> None:
        self._is_open = is_open
        CHANGES[0] += 1

    @property
    def serial(self) -> int:
        """The SOA serial now, 32 bits."""
        return self._serial

    @serial.setter
    def serial(self, serial: int) -> None:
        if not 0 <= serial < 1 << 32:
            raise OverflowError(f"a serial has 32 bits, {serial} does not fit")
        self._serial = serial
        CHANGES[0] += 1

    def add_namespace(self, label: bytes) -> None:
        """Note a namespace."""
        self.namespaces.add(label)
        CHANGES[0] += 1

    def remove_namespace(self, label: bytes) -> None:
        """Forget a namespace; its Services stay until they are removed themselves."""
        self.namespaces.discard(label)
        CHANGES[0] += 1

    def has_namespace(self, label: bytes) -> bool:
        """Tell whether there is such a namespace."""
        return label in self.namespaces

    def add_service(self, namespace: bytes, name: bytes) -> None:
        """Note a Service."""
        found = self.services.setdefault(namespace, set())
        self._count += name not in found
        found.add(name)
        CHANGES[0] += 1

    def remove_service(self, namespace: bytes, name: bytes) -> None:
        """Forget a Service."""
        found = self.services.get(namespace)
        if found is None or name not in found:
            return
        found.remove(name)
        self._count -= 1
        CHANGES[0] += 1
        if not found:
            del self.services[namespace]

    def has_service(self, namespace: bytes, name: bytes) -> bool:
        """Tell whether there is such a Service."""
        return name in self.services.get(namespace, ())

    def __len__(self) -> int:
        return self._count
