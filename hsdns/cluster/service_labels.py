"""The labels that exist below a Service, and what an event changes; the answer table answers NXDOMAIN for all others.

Path: services.py, for an event -> here -> fastpath's ClusterNames, reverse.py.
Rule 1: every label that schema.py finds is listed.  Others may be listed too: the labels of an ExternalName's slices,
        for example, have no records, so the table leaves them to the chain.
Rule 2: a label is listed once for each slice that has it, so that an event is compared only with the last state of its
        slice.
Rule 3: a label is in wire form; a port is listed as PORT PROTOCOL, two labels in one, without underscores.
Rule 4: compiled code (native/src/slice_change.rs) finds the same changes as the code here, in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from hsdns.cluster.address import dashed
from hsdns.cluster.pack import MOST_SHARED
from hsdns.cluster.value import HEADLESS, PackedSlice, Port, ServiceValue
from hsdns.fastpath import dashed_labels, slice_change
from hsdns.wire.name import MAX_LABEL_LEN

# Names for a topology zone are below it, and have three labels or more.
_LENGTHS: Final = tuple(bytes((length,)) for length in range(MAX_LABEL_LEN + 1))
TOPOLOGY: Final = b"\5_zone"


class SliceChange(NamedTuple):
    """What the replacement of one slice's parts changes, each without repetitions and in any order.

    `gained` and `lost` are labels below the Service in wire form, `gone` and `come` addresses that PTR queries find.
    """

    gained: Sequence[bytes]
    lost: Sequence[bytes]
    gone: Sequence[bytes]
    come: Sequence[bytes]


class SliceLabels:
    """The labels of one slice's endpoints and ports.

    `addresses` are those whose labels are their dashed form, `labels` all other labels, `reversible` the addresses that
    PTR queries find.
    """

    __slots__ = ("addresses", "labels", "reversible")

    def __init__(self, parts: Sequence[PackedSlice]) -> None:
        self.addresses: set[bytes] = set()
        self.labels: set[bytes] = set()
        self.reversible = self.addresses  # one set for both, while no part differs
        if any(part.labels is not None or not part.reversible for part in parts):
            self.reversible = set()
        for part in parts:
            self.labels.update(_ports(part.ports))
            separate = part.separate
            if part.reversible:
                self.reversible.update(separate)
            if part.labels is None:
                if self.addresses is not self.reversible:
                    self.addresses.update(separate)
                continue
            if None not in part.labels:
                self.labels.update([_LENGTHS[len(each)] + each for each in part.labels if each])
                continue
            for host, label in zip(part.hosts, part.labels, strict=True):
                if label is not None:
                    self.labels.add(_wire(label))
                elif isinstance(host, bytes):
                    self.addresses.add(host)

    def without(self, other: SliceLabels) -> list[bytes]:
        """The labels that the other slice does not have."""
        addresses = self.addresses - other.addresses if other.addresses else self.addresses
        return [*_dashed(addresses), *(self.labels - other.labels)]


def change_in_python(old: Sequence[PackedSlice], new: Sequence[PackedSlice]) -> SliceChange:
    """The same as change_of(), without compiled code."""
    # At the start, and for a new slice, there is nothing to compare.
    had = SliceLabels(old) if old else _NOTHING
    has = SliceLabels(new) if new else _NOTHING
    return SliceChange(
        has.without(had),
        had.without(has),
        list(had.reversible - has.reversible),
        list(has.reversible - had.reversible),
    )


_NOTHING: Final = SliceLabels(())


def change_of(old: Sequence[PackedSlice], new: Sequence[PackedSlice]) -> SliceChange:
    """What changes if the parts of a slice are replaced."""
    return (
        change_in_python(old, new) if slice_change is None else SliceChange(*slice_change(old, new))
    )


def own_labels(value: ServiceValue | None, zonal: bool) -> set[bytes]:
    """The labels below a Service that do not come from its slices."""
    if value is None:
        return set()
    found = set(_ports(value.ports))
    if zonal and value.kind == HEADLESS:
        found.add(TOPOLOGY)
    return found


@lru_cache(maxsize=MOST_SHARED)
def _ports(ports: tuple[Port, ...]) -> list[bytes]:
    """The ports that can be queried by name: those with a name and a protocol."""
    return [
        _wire(port.name) + _wire(port.protocol)
        for port in ports
        if 0 < len(port.name) <= MAX_LABEL_LEN and 0 < len(port.protocol) <= MAX_LABEL_LEN
    ]


def _dashed_one_by_one(addresses: Iterable[bytes]) -> list[bytes]:
    return [_wire(dashed(address)) for address in addresses]


_dashed: Callable[[Iterable[bytes]], list[bytes]] = dashed_labels or _dashed_one_by_one


def _wire(label: bytes) -> bytes:
    return _LENGTHS[len(label)] + label
