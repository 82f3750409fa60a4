"""Version counters, which show whether a stored reply is stale, and the names of a cluster.

Path: the cluster's store increments counters and adds names; table.py and negative_zone.py read them.  Twin of
native/src/versions.rs and names.rs.
Rule 1: a reply is computed from the store after its counters were read; an event changes the store and then increments
        the counters.  So a reply is valid as long as its counters have the values that were read.
Rule 2: many names share a counter: a collision costs a miss, never a wrong answer.
Rule 3: everything that can invalidate a stored reply, and each new serial, also increments CHANGES, and each counter
        stores the value of CHANGES after its last increment.  So a reply needs one number: the value of CHANGES when it
        was found valid.  It is valid until CHANGES is incremented, which costs one comparison for each hit; after that,
        if none of its counters was incremented since.
Rule 4: threads write while others read.  A change is written before CHANGES is incremented, and CHANGES is read before
        the data that it covers; so a reader may see too old a number, never too new a one.
Rule 5: counters with a lease are valid for a store only until it ends: the store's writer renews it while it follows
        the cluster.  Without a lease they are always valid.
Rule 6: while other threads hold, the thread of the tables may have read a state that is not shown yet.  It stores
        nothing then, and waits for their release() before it sends what it has read (`settle`): no reply of the state
        before follows one of the state after.
Rule 7: for the labels below a Service only hashes are stored, sorted, one for each time that a label was added.  If two
        are equal, a query for a name that does not exist goes to the chain; a name that exists is never denied.  A
        change creates a new array, which replaces the old one in one step: a lookup sees one of the two.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from math import inf
from threading import Condition, Lock, get_ident
from typing import Final, TypeAlias

# The number of changes in this process; in a list, so that all modules share it.
CHANGES: Final = [0]
_WRITING: Final = Lock()  # held by writers only, for some instructions


# Labels in wire form -> the hashes of those that exist below a Service.
Hashes: TypeAlias = "array[int]"
_NO_HASHES: Final[Hashes] = array("q")


class Versions:
    """65,536 counters that are only incremented; an index is taken modulo that number."""

    SIZE: Final = 65536

    __slots__ = ("_held", "_released", "lease_end", "moved", "values")

    def __init__(self) -> None:
        # The threads that hold, and what each of them has incremented.
        self._held: dict[int, list[int]] = {}
        self._released = Condition()
        self.values = [0] * self.SIZE
        self.moved = [0] * self.SIZE  # the value of CHANGES after the last bump
        self.lease_end = inf

    def bump(self, index: int) -> None:
        """Invalidate the replies that depend on a counter."""
        index %= self.SIZE
        with _WRITING:
            self.values[index] += 1
            self.moved[index] = CHANGES[0] + 1
            CHANGES[0] += 1
        if (held := self._held.get(get_ident())) is not None:
            held.append(index)

    def hold(self) -> None:
        """Record which counters this thread increments, until release(); the increments are made at once.

        The twin makes them at release(), because another thread than that of the table can store replies in it.
        """
        self._held[get_ident()] = []

    def held(self) -> list[int]:
        """The counters that this thread has incremented since hold()."""
        return [*self._held.get(get_ident(), ())]

    def release(self, *, more: bool = False) -> None:
        """End hold()."""
        if self._held.pop(get_ident(), None) is not None:
            with self._released:
                self._released.notify_all()

    def is_held_elsewhere(self) -> bool:
        """Return whether another thread is between hold() and release(), and this one is not."""
        return bool(self._held) and get_ident() not in self._held

    def settle(self, seconds: float) -> None:
        """Wait until the events of other threads are shown, for so long at most."""
        if self.is_held_elsewhere():
            begun, held = tuple(self._held.items()), self._held
            with self._released:
                self._released.wait_for(
                    lambda: all(held.get(thread) is not each for thread, each in begun), seconds
                )

    def renew_lease(self, end: float) -> None:
        """Set when replies that depend on counters, and those of negative zones, expire (monotonic seconds)."""
        self.lease_end = end

    def read(self, index: int) -> int:
        """Return the value of a counter."""
        return self.values[index % self.SIZE]


class ClusterNames:
    """The namespaces and Services of a cluster, the labels below these, and the SOA serial of its zones.

    An unlisted name is NXDOMAIN only while `open` is set, that is after everything was listed.  Labels are in lower
    case.
    """

    __slots__ = ("_serial", "namespaces", "open", "services")

    def __init__(self) -> None:
        self.open = False  # whether an unlisted name is NXDOMAIN
        self._serial = 0
        self.namespaces: set[bytes] = set()
        # namespace -> its Services, with the labels below each
        self.services: dict[bytes, dict[bytes, Hashes]] = {}

    @property
    def serial(self) -> int:
        """The current SOA serial, 32 bits."""
        return self._serial

    @serial.setter
    def serial(self, serial: int) -> None:
        if not 0 <= serial < 1 << 32:
            raise OverflowError(f"a serial has 32 bits, {serial} does not fit")
        self._serial = serial
        with _WRITING:
            CHANGES[0] += 1  # after the change has become visible

    def add_namespace(self, label: bytes) -> None:
        """Add a namespace."""
        self.namespaces.add(label)

    def remove_namespace(self, label: bytes) -> None:
        """Remove a namespace; its Services stay until they are removed themselves."""
        self.namespaces.discard(label)

    def has_namespace(self, label: bytes) -> bool:
        """Return whether there is such a namespace."""
        return label in self.namespaces

    def add_service(self, namespace: bytes, name: bytes) -> None:
        """Add a Service."""
        self.services.setdefault(namespace, {}).setdefault(name, _NO_HASHES)

    def remove_service(self, namespace: bytes, name: bytes) -> None:
        """Remove a Service, with the labels below it."""
        found = self.services.get(namespace, {})
        if found.pop(name, None) is not None and not found:
            del self.services[namespace]

    def add_labels(self, namespace: bytes, name: bytes, labels: Iterable[bytes]) -> None:
        """Add labels below a Service, in wire form; without effect if it is not listed.

        `PORT PROTOCOL`, without underscores, are two labels in one.
        """
        self._change(namespace, name, labels, insort)

    def remove_labels(self, namespace: bytes, name: bytes, labels: Iterable[bytes]) -> None:
        """Remove labels below a Service once each; a label that was added more often stays."""
        self._change(namespace, name, labels, _remove)

    def _change(
        self,
        namespace: bytes,
        name: bytes,
        labels: Iterable[bytes],
        change: Callable[[Hashes, int], None],
    ) -> None:
        """Replace the hashes of a Service by changed ones, in one step."""
        found = self.services.get(namespace, {})
        if name in found:
            hashes = found[name][:]
            for label in labels:
                change(hashes, hash(label))
            found[name] = hashes

    def label_count(self, namespace: bytes, name: bytes) -> int:
        """Return how many labels are listed below a Service, each as often as it was added."""
        return len(self.services.get(namespace, {}).get(name, ()))

    def __len__(self) -> int:
        return sum(map(len, self.services.values()))


def _remove(hashes: Hashes, wanted: int) -> None:
    at = bisect_left(hashes, wanted)
    if at < len(hashes) and hashes[at] == wanted:
        del hashes[at]


def has_label(hashes: Hashes, label: bytes) -> bool:
    """Return whether one of the labels below a Service is this one, in wire form."""
    wanted = hash(label)
    at = bisect_left(hashes, wanted)
    return at < len(hashes) and hashes[at] == wanted


def has_port(hashes: Hashes, port: bytes, protocol: bytes) -> bool:
    """Return whether a Service may have a port and protocol, each a label without its length.

    The first underscore of each does not count; without a name it stands for any port or protocol.
    """
    port, protocol = port.removeprefix(b"_"), protocol.removeprefix(b"_")
    if not port or not protocol:
        return True
    return has_label(hashes, b"%c%b%c%b" % (len(port), port, len(protocol), protocol))
