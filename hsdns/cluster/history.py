"""The last changes of Services and EndpointSlices that a store has applied.

Path: services.py records each change -> a ring here -> explanation/explain.py reads those of a Service.
Rule 1: recording a change makes no text and compares nothing: the ring refers to the packed values before and after it,
        which never change, and the reader compares them.
Rule 2: the ring takes at most OCTETS, as estimated without reading each address.
Rule 3: objects that existed when the cluster was first read are not changes.

The values that changes have replaced in a store, to read it as it was at an earlier time:
Rule 1: while nothing needs an earlier state, nothing is recorded, and a change costs one check of `is_kept`.
Rule 2: values never change, so the record is the value itself: the cost of an earlier state is what has changed since.
Rule 3: all changes of one event have one time.  A state at a time includes the changes at and before that time.
Rule 4: one thread records, before it replaces the value; readers in other threads read the newest value first.
Rule 5: only what a need can ask for is kept: one value of a key for each fixed time, all values in a moving window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise, takewhile
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

from hsdns.cluster.value import NO_PORT, Key, PackedSlice, Port
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text

OCTETS: Final = 1 << 20
ENTRY_OCTETS: Final = 800  # for a change and the values of a small slice
PLACE_OCTETS: Final = 8  # for the reference to a target
ADDED, CHANGED, DELETED = "added", "changed", "deleted"  # events


class ServiceFacts(NamedTuple):
    """The fields of a Service itself that DNS needs; empty if there is no Service."""

    cluster_ips: tuple[bytes, ...] = ()
    ports: tuple[Port, ...] = ()
    external_name: Name | None = None


Packed = ServiceFacts | tuple[PackedSlice, ...]


class Noted(NamedTuple):
    """One change of an object; `served` in seconds since the epoch, `written` as annotated by the writer, or ""."""

    served: float
    service: Key
    event: str
    kind: str
    name: str
    version: str
    written: str
    before: Packed
    after: Packed

    def facts(self) -> tuple[list[str], list[str]]:
        """The facts added to DNS and those removed: `10.0.0.1 db-0`, `port http/tcp/80`, `CNAME x.test.`."""
        before, after = dict.fromkeys(_facts(self.before)), dict.fromkeys(_facts(self.after))
        return [each for each in after if each not in before], [
            each for each in before if each not in after
        ]


class History:
    """The ring; one thread writes it, any thread may read it."""

    def __init__(self, octets: int = OCTETS) -> None:
        self.is_open = False  # whether the cluster has been read
        self._most = octets
        self._octets = 0
        self._ring: deque[tuple[int, Noted]] = deque()

    def note(self, noted: Noted) -> None:
        """Add a change, and drop the oldest ones if there is no room."""
        octets = ENTRY_OCTETS + _octets(noted.before) + _octets(noted.after)
        ring = self._ring
        ring.append((octets, noted))
        self._octets += octets
        while self._octets > self._most:
            self._octets -= ring.popleft()[0]

    def of(self, service: Key, most: int) -> list[Noted]:
        """The last changes of a Service and its slices, newest first; at most `most`."""
        found = (noted for _, noted in reversed(self._ring.copy()) if noted.service == service)
        return [noted for noted, _ in zip(found, range(most), strict=False)]

    def after(self, last: Noted | None) -> list[Noted]:
        """The changes after one that a reader has seen; all without one, or if it was dropped; newest first."""
        found = (noted for _, noted in reversed(self._ring.copy()))
        return list(takewhile(lambda noted: noted is not last, found))


def _octets(packed: Packed) -> int:
    if isinstance(packed, ServiceFacts):
        return 0
    octets = 0
    for part in packed:
        octets += len(part.addresses) + len(part.labels or b"") + PLACE_OCTETS * len(part.targets)
    return octets


def _facts(packed: Packed) -> Iterator[str]:
    if isinstance(packed, ServiceFacts):
        yield from map(address_to_text, packed.cluster_ips)
        yield from map(_port, packed.ports)
        if packed.external_name is not None:
            yield f"CNAME {packed.external_name.to_text()}"
        return
    for part in packed:
        for host, label in zip(part.hosts, part.own_labels, strict=True):
            shown = host.to_text() if isinstance(host, Name) else address_to_text(host)
            yield f"{shown} {label.decode('utf-8', 'replace')}" if label else shown
        yield from map(_port, part.ports)


def _port(port: Port) -> str:
    words = [port.name.decode("utf-8", "replace"), port.protocol.decode("utf-8", "replace")]
    number = [] if port.number == NO_PORT else [str(port.number)]
    return f"port {'/'.join(filter(None, [*words, *number])) or 'any'}"


Place = tuple[
    int, Hashable
]  # identity of a table (a dict of the store, which is never another), and a key in it
Replacements = tuple[
    tuple[float, Any], ...
]  # times of changes in order, each with the previous value
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Need(NamedTuple):
    """The state at a time, in monotonic seconds; with `window`, also those of the last `window` seconds since then."""

    since: float
    window: float = 0.0

    def has(self, began: float, ended: float, now: float) -> bool:
        """Whether it may ask for a state that was valid from one time until another."""
        if self.window:
            return ended > max(self.since, now - self.window)
        return began <= self.since < ended


class Replaced:
    """The replaced values of a store; `clock` gives monotonic seconds, `latest` is the time of the last change."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = lambda: 0.0
        self.is_kept = False
        self.latest = -inf
        self._now = 0.0
        self._is_open = False
        self._needs: dict[int, tuple[Need, ...]] = {}
        self._all: tuple[Need, ...] = ()
        self._noted: dict[Place, Replacements] = {}
        self._recent: deque[tuple[float, Place]] = deque()
        self._is_to_trim = False

    def __len__(self) -> int:
        """The number of values kept."""
        return sum(map(len, self._noted.copy().values()))

    def keep(self, holder: object, needs: Sequence[Need]) -> None:
        """From now on, keep what a holder needs, in place of what it needed before; callable from any thread."""
        others = {key: each for key, each in self._needs.items() if key != id(holder)}
        self._needs = {**others, id(holder): tuple(needs)} if needs else others
        self._all = tuple(each for found in self._needs.values() for each in found)
        self._is_to_trim = True
        if not self._all:
            self._noted, self._recent = {}, deque()
        self.is_kept = bool(self._all) and self._is_open

    def open(self) -> None:
        """Begin with the current state: no earlier one is needed."""
        self._is_open = True
        self.is_kept = bool(self._all)

    def begin(self) -> None:
        """Set the time of an event, before it is applied."""
        if self.is_kept:
            self._now = self.clock()

    def put(self, table: dict[K, V], key: K, value: V | None) -> None:
        """Give a key of a table another value, or none, and record the one that it had."""
        if self.is_kept:
            self._note(id(table), key, table.get(key))
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def put_serial(self, of: Any, name: str, serial: int) -> None:
        """Give an object another value of an attribute that is a serial, and record the one that it had."""
        if self.is_kept:
            self._note(id(of), name, getattr(of, name))
        setattr(of, name, serial)

    def _note(self, table: int, key: Hashable, before: object) -> None:
        noted, now, place = self._noted, self._now, (table, key)
        self.latest = now
        if self._is_to_trim:
            self._is_to_trim = False
            for each in [*noted]:
                self._trim(each)
        known = noted.get(place, ())
        began = known[-1][0] if known else -inf
        if began == now or not any(need.has(began, now, now) for need in self._all):
            return
        noted[place] = (*known, (now, before))
        window = max((need.window for need in self._all), default=0.0)
        if window:
            recent = self._recent  # keep() may have replaced it in the meantime
            recent.append((now, place))
            while recent and recent[0][0] <= now - window:
                self._trim(recent.popleft()[1])

    def at(self, table: object, key: Hashable, time: float, newest: Any) -> Any:
        """The value of a key at a time; `newest` is the newest one, read before this call."""
        for changed, before in self._noted.get((id(table), key), ()):
            if changed > time:
                return before
        return newest

    def keys(self, table: object) -> list[Any]:
        """The keys of a table that have values here."""
        return [key for found, key in self._noted.copy() if found == id(table)]

    def first_after(self, time: float) -> float | None:
        """The time of the first change after a time, None if there is none."""
        if self.latest <= time:
            return None
        every = self._noted.copy().values()
        found = (changed for noted in every for changed, _ in noted if changed > time)
        return min(found, default=None)

    def _trim(self, place: Place) -> None:
        """Drop the values of a key that no need can ask for any more."""
        noted = self._noted.get(place, ())
        times = [-inf, *(changed for changed, _ in noted)]
        left = tuple(
            each
            for each, (began, ended) in zip(noted, pairwise(times), strict=True)
            if any(need.has(began, ended, self._now) for need in self._all)
        )
        if left:
            self._noted[place] = left
        else:
            self._noted.pop(place, None)
