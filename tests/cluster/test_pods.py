"""Addresses in pod names, and the pods of clients."""

import msgspec
import pytest

from hsdns.cluster.history import Replaced
from hsdns.cluster.objects import Deleted, Event, Pod, Synced, Upserted
from hsdns.cluster.pack import RejectedObjects
from hsdns.cluster.store import Pods, address_in
from tests.support.cluster.objects import deletes, pod, upserts


@pytest.mark.parametrize(
    ("label", "address"),
    [
        (b"1-2-3-4", bytes((1, 2, 3, 4))),
        (b"1-2-3-256", None),
        (b"1-2-3", None),
        (b"01-2-3-4", None),
        (b"--1", bytes(15) + b"\1"),
        (b"fd00--1", b"\xfd" + bytes(14) + b"\1"),
        (b"1--2-3", b"\0\1" + bytes(10) + b"\0\2\0\3"),
        (b"--ffff-102-304", bytes((1, 2, 3, 4))),
        (b"fe80--1%eth0", None),
        (b"web", None),
        (b"\xff", None),
    ],
)
def test_address_in_the_name_of_any_pod(label: bytes, address: bytes | None) -> None:
    assert address_in(label) == address


def terminating(path: str, address: str) -> Event:
    """An event of a pod that is being deleted."""
    found = pod(path, address, version="2")
    meta = msgspec.structs.replace(found.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return Upserted(Pod(meta, found.status))


def pods_after(events: list[Event]) -> Pods:
    """Pods after some events about them."""
    pods = Pods(RejectedObjects(pytest.fail), labels=False, replaced=Replaced())
    for event in events:
        assert not isinstance(event, Synced)
        assert isinstance(event.object, Pod)
        pods.apply(event.object, isinstance(event, Deleted))
    return pods


WEB, DB = pod("shop/web-0", "10.5.0.1"), pod("data/db-0", "10.5.0.1")


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param([], None, id="nobody"),
        pytest.param(upserts(WEB), (b"shop", "web-0"), id="one"),
        pytest.param(upserts(WEB, pod("shop/web-1", "10.5.0.1")), (b"shop", "web-1"), id="two of one namespace"),
        pytest.param(upserts(WEB, DB), None, id="two of two namespaces"),
        pytest.param([*upserts(WEB), terminating("shop/web-0", "10.5.0.1")], (b"shop", "web-0"), id="terminating, alone"),
        pytest.param(
            [*upserts(WEB), terminating("shop/web-0", "10.5.0.1"), *upserts(DB)], (b"data", "db-0"), id="used again"
        ),
        pytest.param(
            [*upserts(WEB, DB), terminating("data/db-0", "10.5.0.1"), *deletes(DB)], (b"shop", "web-0"), id="gone"
        ),
        pytest.param(
            [*upserts(DB), terminating("data/db-0", "10.5.0.1"), *deletes(DB), *upserts(DB, WEB)], None, id="back again"
        ),
        pytest.param([*upserts(WEB), terminating("data/db-0", "10.5.0.1")], (b"shop", "web-0"), id="terminating, never known"),
        pytest.param(upserts(pod("shop/web-0", "10.5.0.1", "Succeeded")), None, id="ended"),
    ],
)  # fmt: skip
def test_the_pod_of_a_client(events: list[Event], found: tuple[bytes, str] | None) -> None:
    assert pods_after(events).of_client("10.5.0.1") == found


@pytest.mark.parametrize(
    ("label", "namespace", "address"),
    [
        (b"10-5-0-1", b"shop", bytes((10, 5, 0, 1))),
        (b"10-5-0-1", b"data", None),
        (b"10-5-0-2", b"shop", None),
        (b"--ffff-10-5-0-1", b"shop", None),
        (b"web", b"shop", None),
    ],
)
def test_verified_addresses_are_those_of_pods(
    label: bytes, namespace: bytes, address: bytes | None
) -> None:
    pods = pods_after(upserts(WEB, pod("shop/web-1", "10.5.0.1")))
    assert pods.address_of(label, namespace) == address
    assert pods.count(bytes((10, 5, 0, 1)), b"shop") == 2
