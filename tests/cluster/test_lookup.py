"""What names and addresses stand for, with the options that expose them."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.cluster.lookup import NameLookup
from hsdns.cluster.store import Store, StoreSettings
from hsdns.wire.name import Name
from tests.support.cluster.objects import endpoint_slice, namespace, service, upserts

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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web", False),
        ("empty", True),
        ("mute", True),  # no endpoint has its port
        ("plain", False),  # a Service without ports
        ("good", False),
        ("bad", True),
        ("gone", True),
        ("outside", False),
        ("loop", True),
    ],
)
def test_what_leads_nowhere(name: str, expected: bool) -> None:
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    targets = {"good": "web", "bad": "empty", "gone": "nosuch", "loop": "loop"}
    store.apply(
        upserts(
            namespace("ns"),
            *(service(f"ns/{each}", "10.0.0.1") for each in ("web", "empty", "mute")),
            service("ns/plain", "10.0.0.1", ports=()),
            *(endpoint_slice(f"ns/{each}-1", each, "172.0.0.1") for each in ("web", "plain")),
            endpoint_slice("ns/mute-1", "mute", "172.0.0.1", ports=()),
            *(
                service(f"ns/{each}", external=f"{target}.ns.svc.cluster.local")
                for each, target in targets.items()
            ),
            service("ns/outside", external="example.org"),
        )
    )
    lookup = NameLookup(store, primary_zone=ZONE, ttl=5)
    assert lookup.is_dead_end(Name.from_text(f"{name}.ns.svc.cluster.local"), ZONE) is expected
