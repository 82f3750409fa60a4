"""The replicas behind a Service, from its packed slices."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from hsdns.audit.run import replicas
from hsdns.cluster.value import PackedSlice, Port, ServiceValue

DNS, TCP, METRICS = (
    Port(b"dns", b"udp", 5353),
    Port(b"dns-tcp", b"tcp", 5353),
    Port(b"metrics", b"tcp", 9153),
)
OTHER = Port(b"x", b"udp", 53)


def slice_(ports: tuple[Port, ...], *addresses: str) -> PackedSlice:
    packed = [ip_address(each).packed for each in addresses]
    return PackedSlice("a", "1", len(packed[0]), b"".join(packed), None, ports)


@pytest.mark.parametrize(
    ("slices", "found"),
    [
        ([], []),
        ([slice_((TCP, METRICS, OTHER, DNS), "10.0.0.2", "10.0.0.1")], [("10.0.0.1", 5353), ("10.0.0.2", 5353)]),
        ([slice_((OTHER, METRICS), "10.0.0.1")], [("10.0.0.1", 53)]),
        ([slice_((TCP, METRICS), "10.0.0.1")], []),
        ([slice_((DNS,), "fd00::1"), slice_((DNS,), "10.0.0.1"), slice_((DNS,), "10.0.0.1")], [("10.0.0.1", 5353), ("fd00::1", 5353)]),
        ([PackedSlice("a", "1", 0, b"", None, (DNS,))], []),
    ],
)  # fmt: skip
def test_replicas(slices: list[PackedSlice], found: list[tuple[str, int]]) -> None:
    assert replicas(ServiceValue(None).with_slices(tuple(slices))) == found
