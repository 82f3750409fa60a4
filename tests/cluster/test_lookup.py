"""What names and addresses stand for, with the options that expose them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from hsdns.cluster.freshness import (
    Dependencies,
    NoCounters,
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
            endpoint_slice(
                "ns/odd-1", "odd", "0.11.11.0 host=x", "0.11.11.0 host=y", "11.11.0.0 host=z"
            ),
            endpoint_slice("ns/ones-1", "ones", "9.9.9.1 host=x", "1.1.1.1 host=y"),
            endpoint_slice(
                "ns/six-1",
                "six",
                "fd00::5 host=x",
                "fd00:0::5 host=y",
                "101:102:: host=z",
                "1.1.1.2 host=w",
                address_type="IPv6",
            ),
            service("ns/" + "x" * 63, "10.0.0.3"),
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


SPEC, SLICES = spec_counter(b"ns", b"web"), service_counter(b"ns", b"web")


def test_a_service_that_becomes_headless_while_it_is_read_depends_on_its_slices() -> None:
    lookup, counters = make_lookup(), Moving()
    dependencies = Dependencies(counters)
    values, key = lookup.store.services.values, (b"ns", b"web")
    counters.moves = lambda: values.update({key: values[b"ns", b"db"]})  # type: ignore[union-attr]  # a dict here
    found = lookup.find(Name.from_text("web.ns.svc.cluster.local"), ZONE, dependencies)
    assert isinstance(found, tuple)
    assert [each.rdata for each in found[0].a] == [ONE]
    assert dependencies.counters == (namespace_counter(b"ns"), SPEC, SLICES)


@pytest.mark.parametrize(
    ("name", "options", "counter"),
    [
        ("web", {}, SPEC),
        ("_http._tcp.web", {}, SPEC),
        ("x.web", {}, SLICES),
        ("a.pin._zone.web", {}, SLICES),
        ("web", {"ignore_empty": True}, SLICES),
        ("nope", {}, service_counter(b"ns", b"nope")),
    ],
    ids=("cluster IP", "port", "endpoint", "zone", "with ignore", "none"),  # counters are hashes
)
def test_only_names_of_endpoints_depend_on_the_slices_of_a_cluster_ip(
    name: str, options: dict[str, bool], counter: int
) -> None:
    dependencies = Dependencies(NoCounters())
    with contextlib.suppress(NoSuchName):
        qname = Name.from_text(f"{name}.ns.svc.cluster.local")
        make_lookup(zonal=True, **options).find(qname, ZONE, dependencies)
    assert dependencies.counters == (namespace_counter(b"ns"), counter)


class Moving(NoCounters):
    """Counters that call `moves` when SPEC is read: another thread applies an event then."""

    moves: Callable[[], object] = staticmethod(lambda: None)

    def read(self, index: int) -> int:
        if index == SPEC:
            self.moves()
        return 0


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
        pytest.param(
            bytes((11, 11, 0, 0)), frozenset(), ["z.odd.ns"], id="not across two packed addresses"
        ),
        pytest.param(bytes((1, 1, 1, 1)), frozenset(), ["y.ones.ns"], id="from one octet further"),
        pytest.param(
            bytes((1, 1, 1, 2)), frozenset(), ["w.six.ns"], id="not the beginning of another"
        ),
        pytest.param(
            b"\xfd" + bytes(14) + b"\5", frozenset(), ["x.six.ns"], id="as it is written usually"
        ),
    ],
)
def test_pointers(address: bytes, namespaces: frozenset[bytes], expected: list[str]) -> None:
    found = make_lookup(namespaces=namespaces).pointers(address, None)
    assert [name.to_text() for name in found] == [f"{each}.svc.cluster.local." for each in expected]


def test_a_name_that_is_too_long_has_no_pointer() -> None:
    zone = Name.from_text(".".join(["y" * 63] * 3))
    assert make_lookup(primary_zone=zone).pointers(bytes((10, 0, 0, 3)), None) == []
