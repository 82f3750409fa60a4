"""What names and addresses stand for, with the options that expose them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from hsdns.cluster.freshness import (
    Dependencies,
    NoCounters,
    address_counter,
    import_counter,
    namespace_counter,
    service_counter,
    spec_counter,
)
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.store import Store, StoreSettings
from hsdns.wire.name import Name
from tests.support.cluster.objects import endpoint_slice, namespace, pod, service, upserts

ZONE = Name.from_text("cluster.local")
TEN = bytes((10, 0, 0, 1))
ONE = bytes((172, 0, 0, 1))


def make_lookup(**options: Any) -> NameLookup:
    """Lookups in a cluster with two namespaces."""
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    store.apply(
        upserts(
            namespace("ns"),
            namespace("other"),
            service("other/copy", "10.0.0.1"),
            service("ns/web", "10.0.0.1"),
            service("ns/db"),
            endpoint_slice("ns/db-1", "db", "172.0.0.1 host=a"),
            service("lost/web", "10.0.0.2"),
            pod("ns/p", "10.5.0.1"),
            pod("ns/q", "10.5.0.1"),
        )
    )
    known: dict[str, Any] = {
        "primary_zone": ZONE,
        "ttl": 5,
        "namespaces": frozenset(),
        "pods": "disabled",
        "ignore_empty": False,
        "zonal": False,
        "multicluster": (),
    }
    return NameLookup(store, **(known | options))


@pytest.mark.parametrize(
    ("name", "options", "exists"),
    [
        pytest.param("web.ns.svc", {}, True, id="service"),
        pytest.param("web.ns.svc", {"ignore_empty": True}, False, id="empty"),
        pytest.param("db.ns.svc", {"ignore_empty": True}, True, id="headless"),
        pytest.param("a.db.ns.svc", {}, True, id="endpoint"),
        pytest.param("b.db.ns.svc", {}, False, id="no endpoint"),
        pytest.param("copy.other.svc", {"namespaces": frozenset({b"ns"})}, False, id="not exposed"),
        pytest.param("web.lost.svc", {}, False, id="no namespace"),
        pytest.param("10-5-0-1.ns.pod", {}, False, id="pods disabled"),
        pytest.param("10-5-0-9.ns.pod", {"pods": "insecure"}, True, id="pods insecure"),
        pytest.param("10-5-0-1.ns.pod", {"pods": "verified"}, True, id="pods verified"),
        pytest.param("10-5-0-9.ns.pod", {"pods": "verified"}, False, id="no pod"),
        pytest.param("ns.svc", {}, True, id="namespace"),
        pytest.param("a.b", {}, False, id="no kind"),
    ],
)
def test_names(name: str, options: dict[str, Any], exists: bool) -> None:
    lookup = make_lookup(**options)
    qname = Name.from_text(f"{name}.cluster.local")
    if exists:
        lookup.find(qname, ZONE, None)
    else:
        with pytest.raises(NoSuchName):
            lookup.find(qname, ZONE, None)


SPEC, SLICES = spec_counter(b"ns", b"web"), service_counter(b"ns", b"web")
DB = service_counter(b"ns", b"db")


@pytest.mark.parametrize(
    ("name", "options", "counter"),
    [
        pytest.param("web.ns.svc", {}, SPEC, id="ClusterIP"),
        pytest.param("_http._tcp.web.ns.svc", {}, SPEC, id="port of a ClusterIP"),
        pytest.param(
            "web.ns.svc", {"ignore_empty": True}, SLICES, id="ClusterIP that may be hidden"
        ),
        pytest.param("no.web.ns.svc", {}, SLICES, id="endpoint of a ClusterIP"),
        pytest.param("db.ns.svc", {}, DB, id="headless"),
        pytest.param("a.db.ns.svc", {}, DB, id="endpoint"),
        pytest.param("gone.ns.svc", {}, service_counter(b"ns", b"gone"), id="no Service"),
        pytest.param(
            "web.ns.svc",
            {"multicluster": (ZONE,)},
            import_counter(b"ns", b"web"),
            id="ServiceImport",
        ),
    ],
)
def test_what_is_read_becomes_a_dependency(
    name: str, options: dict[str, Any], counter: int
) -> None:
    lookup, dependencies = make_lookup(**options), Dependencies(NoCounters())
    with contextlib.suppress(NoSuchName):
        lookup.find(Name.from_text(f"{name}.cluster.local"), ZONE, dependencies)
    assert dependencies.counters == (namespace_counter(b"ns"), counter)
    assert dependencies.is_cacheable


def test_pointers_depend_on_their_address_and_its_owners() -> None:
    dependencies = Dependencies(NoCounters())
    make_lookup().pointers(ONE, dependencies)
    assert dependencies.counters == (address_counter(ONE), DB)


def test_a_service_that_becomes_headless_while_it_is_read_depends_on_its_slices() -> None:
    lookup, counters = make_lookup(), Moving()
    dependencies = Dependencies(counters)
    values, key = lookup.store.services.values, (b"ns", b"web")
    counters.moves = lambda: values.update({key: values[b"ns", b"db"]})  # type: ignore[union-attr]  # a dict here
    found = lookup.find(Name.from_text("web.ns.svc.cluster.local"), ZONE, dependencies)
    assert isinstance(found, tuple)
    assert [each.rdata for each in found[0].a] == [ONE]
    assert dependencies.counters == (namespace_counter(b"ns"), SPEC, SLICES)


class Moving(NoCounters):
    """Counters that call `moves` when SPEC is read: another thread applies an event then."""

    moves: Callable[[], object] = staticmethod(lambda: None)

    def read(self, index: int) -> int:
        if index == SPEC:
            self.moves()
        return 0


def test_names_of_verified_pods_are_not_cacheable() -> None:
    lookup, dependencies = make_lookup(pods="verified"), Dependencies(NoCounters())
    lookup.find(Name.from_text("10-5-0-1.ns.pod.cluster.local"), ZONE, dependencies)
    assert not dependencies.is_cacheable
    assert lookup.pod_entries(bytes((10, 5, 0, 1)), b"ns") == 2
    assert make_lookup(pods="insecure").pod_entries(bytes((10, 5, 0, 1)), b"ns") == 1


@pytest.mark.parametrize(
    ("name", "is_numerous"),
    [
        ("web.ns.svc", False),
        ("10-5-0-1.ns.pod", True),
        ("any.prefer._zone.db.ns.svc", True),
        ("any.pin._zone.db.ns.svc", True),
    ],
)
def test_names_without_number(name: str, is_numerous: bool) -> None:
    lookup = make_lookup(pods="insecure", zonal=True)
    dependencies = Dependencies(NoCounters())
    lookup.find(Name.from_text(f"{name}.cluster.local"), ZONE, dependencies)
    assert (dependencies.is_numerous, dependencies.is_cacheable) == (is_numerous, True)


@pytest.mark.parametrize(
    ("address", "namespaces", "expected"),
    [
        pytest.param(
            TEN, frozenset(), ["web.ns"], id="the first of two Services, though it came last"
        ),
        pytest.param(TEN, frozenset({b"other"}), ["copy.other"], id="the exposed one"),
        pytest.param(ONE, frozenset(), ["a.db.ns"], id="endpoint"),
        pytest.param(ONE, frozenset({b"other"}), [], id="not exposed"),
        pytest.param(bytes((10, 0, 0, 2)), frozenset(), ["web.lost"], id="any namespace"),
    ],
)
def test_pointers(address: bytes, namespaces: frozenset[bytes], expected: list[str]) -> None:
    found = make_lookup(namespaces=namespaces).pointers(address, None)
    assert [name.to_text() for name in found] == [f"{each}.svc.cluster.local." for each in expected]
