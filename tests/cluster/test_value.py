"""Packed values."""

import pytest

from hsdns.cluster.value import CLUSTER_IP, HEADLESS, Entry, PackedSlice, Port, ServiceValue

HTTP = Port(b"http", b"tcp", 80)
DNS = Port(b"dns", b"udp", 53)
ONE = b"\n\0\0\1"
TWO = b"\n\0\0\2"
PART = PackedSlice("s", "1", 4, ONE + TWO, (b"a", None), (HTTP, DNS))


def test_positions_are_whole_addresses() -> None:
    """10.10.0.0 stands across the border of 0.10.10.0 and 0.10.10.0; that is no address of the slice."""
    part = PackedSlice("s", "1", 4, bytes((0, 10, 10, 0, 0, 10, 10, 0)), None, (HTTP,))
    assert list(part.positions(bytes((10, 10, 0, 0)))) == []
    assert list(part.positions(bytes((0, 10, 10, 0)))) == [0, 1]
    assert list(part.positions(bytes(16))) == []


@pytest.mark.parametrize(
    ("kind", "endpoint", "port", "protocol", "expected"),
    [
        (
            HEADLESS,
            None,
            b"",
            b"",
            [(ONE, b"a", 80), (ONE, b"a", 53), (TWO, b"10-0-0-2", 80), (TWO, b"10-0-0-2", 53)],
        ),
        (HEADLESS, None, b"http", b"tcp", [(ONE, b"a", 80), (TWO, b"10-0-0-2", 80)]),
        (HEADLESS, None, b"", b"udp", [(ONE, b"a", 53), (TWO, b"10-0-0-2", 53)]),
        (HEADLESS, None, b"http", b"udp", []),
        (HEADLESS, b"a", b"", b"", [(ONE, b"a", 80), (ONE, b"a", 53)]),
        (HEADLESS, b"10-0-0-1", b"", b"", []),
        (CLUSTER_IP, None, b"", b"", [(TWO, None, 80)]),
        (CLUSTER_IP, b"a", b"dns", b"", [(ONE, b"a", 53)]),
        (None, None, b"", b"", [(TWO, None, 80)]),
    ],
)
def test_entries(
    kind: str | None,
    endpoint: bytes | None,
    port: bytes,
    protocol: bytes,
    expected: list[tuple[bytes, bytes, int]],
) -> None:
    value = ServiceValue(kind, "1", (TWO,), (HTTP,), None, (PART,))
    assert list(value.entries(endpoint, port, protocol)) == [Entry(*row) for row in expected]
    if endpoint is None:
        hosts, count = value.hosts(port, protocol)
        assert list(dict.fromkeys(hosts)) == list(dict.fromkeys(host for host, _, _ in expected))
        assert count == len(expected)


def test_a_value_is_empty_without_object_and_slices() -> None:
    assert ServiceValue(None).is_empty
    assert not ServiceValue(None, slices=(PART,)).is_empty
    assert not ServiceValue(HEADLESS).is_empty
    assert ServiceValue(HEADLESS, slices=(PART,)).has_endpoints
    assert not ServiceValue(
        HEADLESS, slices=(PART._replace(addresses=b"", labels=None),)
    ).has_endpoints


def test_an_event_makes_a_new_value_without_the_old_records() -> None:
    value = ServiceValue(HEADLESS, "1", slices=(PART,))
    value.nodes[b"x"] = None  # type: ignore[assignment]  # any record will do
    other = value.with_slices(())
    assert (other.kind, other.slices, other.nodes) == (HEADLESS, (), {})
    assert value.slices == (PART,)
