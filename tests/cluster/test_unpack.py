"""Objects from values; packing them again is tested with any cluster in test_snapshot.py."""

import pytest

from hsdns.cluster.snapshot import import_slice_labels, unpack
from hsdns.cluster.store import Store
from hsdns.cluster.value import CLUSTER_IP, HEADLESS, PackedSlice, Port, ServiceValue
from tests.cluster.test_snapshot import lines_of, make_store, restored
from tests.support.cluster.objects import endpoint_slice


def part_of(store: Store) -> PackedSlice:
    """The one part of the one slice of ns/web."""
    (part,) = store.services.values[b"ns", b"web"].slices
    return part


@pytest.mark.parametrize(
    ("address", "written", "reversible"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1", False),
        ("fd00::1", "fd00::1", True),
        ("FD00::1", "fd00:0000:0000:0000:0000:0000:0.0.0.1", False),
        # Its full form is canonical, so the last 32 bits have to be written as IPv4.
        ("2001:1111:2222:3333:4444:5555:6666:AAAA", "2001:1111:2222:3333:4444:5555:102.102.170.170", False),
    ],
)  # fmt: skip
def test_non_canonical_addresses_stay_non_canonical(
    address: str, written: str, reversible: bool
) -> None:
    store = make_store([endpoint_slice("ns/s", "web", address)])
    lines = lines_of(store)
    assert f'"{written}"'.encode() in lines[1]
    assert part_of(restored(lines)).reversible is reversible
    assert part_of(restored(lines)).label(0) == part_of(store).label(0)


def test_a_slice_of_a_service_and_a_service_import_is_written_once() -> None:
    part = PackedSlice("s", "1", 4, bytes((10, 0, 0, 1)), None, (Port(b"http", b"tcp", 80),))
    key = (b"ns", b"web")
    imports = [(key, ServiceValue(CLUSTER_IP, slices=(part._replace(cluster=b"east"),)))]
    unwritten = import_slice_labels(imports)
    written = [
        *unpack(key, ServiceValue(HEADLESS, slices=(part,)), unwritten),
        *unpack(*imports[0], unwritten, shared=True),
    ]
    assert [each["kind"] for each in written] == ["Service", "EndpointSlice", "ServiceImport"]
    assert written[1]["metadata"]["labels"] == {
        "kubernetes.io/service-name": "web",
        "multicluster.kubernetes.io/service-name": "web",
        "multicluster.kubernetes.io/source-cluster": "east",
    }
