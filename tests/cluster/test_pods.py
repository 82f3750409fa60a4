"""Addresses in pod names, and the pods of clients."""

from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest

from hsdns.cluster.history import Replaced
from hsdns.cluster.objects import Deleted, Event, Pod, Synced, Upserted
from hsdns.cluster.pack import RejectedObjects
from hsdns.cluster.store import Pods, address_in
from tests.support.cluster.objects import deletes, pod, upserts
from tests.support.tables import columns


@pytest.mark.parametrize(
    ("label", "expected"), columns(Path(__file__).with_name("tables.txt"), "labels of pods")
)
def test_address_in_the_name_of_any_pod(label: str, expected: str) -> None:
    packed = address_in(label.encode("latin-1"))
    assert str(packed and ip_address(packed)) == expected


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
