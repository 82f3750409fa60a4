"""The last changes of Services and EndpointSlices that a store has applied.

Path: services.py records each change -> a ring here -> explanation/explain.py reads those of a Service.
Rule 1: recording a change makes no text and compares nothing: the ring refers to the packed values before and after it,
        which never change, and the reader compares them.
Rule 2: the ring takes at most OCTETS, as estimated without reading each address.
Rule 3: objects that existed when the cluster was first read are not changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import Final, NamedTuple

from hsdns.cluster.value import NO_PORT, Key, PackedSlice, Port
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text

OCTETS: Final = 1 << 20
ENTRY_OCTETS: Final = 800  # for a change and the values of a small slice
PLACE_OCTETS: Final = 8  # for the reference to a label


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
    event: str  # added, changed or deleted
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

    def since(self, served: float) -> list[Noted]:
        """The changes since a time in seconds since the epoch; newest first."""
        found = (noted for _, noted in reversed(self._ring.copy()))
        return list(takewhile(lambda noted: noted.served >= served, found))


def _octets(packed: Packed) -> int:
    if isinstance(packed, ServiceFacts):
        return 0
    octets = 0
    for part in packed:
        octets += len(part.addresses) + PLACE_OCTETS * len(part.labels or part.targets)
    return octets


def _facts(packed: Packed) -> Iterator[str]:
    if isinstance(packed, ServiceFacts):
        yield from map(address_to_text, packed.cluster_ips)
        yield from map(_port, packed.ports)
        if packed.external_name is not None:
            yield f"CNAME {packed.external_name.to_text()}"
        return
    for part in packed:
        for index, host in enumerate(part.hosts):
            shown = host.to_text() if isinstance(host, Name) else address_to_text(host)
            label = None if part.labels is None else part.labels[index]
            yield shown if label is None else f"{shown} {label.decode('utf-8', 'replace')}"
        yield from map(_port, part.ports)


def _port(port: Port) -> str:
    words = [port.name.decode("utf-8", "replace"), port.protocol.decode("utf-8", "replace")]
    number = [] if port.number == NO_PORT else [str(port.number)]
    return f"port {'/'.join(filter(None, [*words, *number])) or 'any'}"
