"""What names and addresses stand for, with the options that expose them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hsdns.cluster import schema
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.objects import Selector
from hsdns.cluster.schema import ParsedName, parse
from hsdns.cluster.store import Store, StoreSettings
from hsdns.cluster.value import Node
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests.support.cluster.objects import endpoint_slice, namespace, service, upserts
from tests.support.tables import columns

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


# Names in a cluster zone.
#
# The reason of each absence, in words that a client gets; the names are looked up in a real store.

TABLES = Path(__file__).with_name("tables.txt")


def words(parsed: ParsedName | None) -> str:
    """The parts of a name as tables.txt has them."""
    if parsed is None:
        return "None"
    texts = {
        name: each.decode() if isinstance(each, bytes) else each
        for name, each in parsed._asdict().items()
    }
    return " ".join(f"{name}={text}" for name, text in texts.items() if text and name != "kind")


@pytest.mark.parametrize(("text", "expected"), columns(TABLES, "zonal names"))
def test_parse_with_topology_zones(text: str, expected: str) -> None:
    labels = tuple(text.encode().split(b"."))
    assert words(parse(labels, zonal=True)) == expected
    if len(labels) > 5:
        assert parse(labels) is None
        assert parse(labels, zonal=True, multicluster=True) is None


def test_a_dot_within_a_label_is_no_dot_of_a_topology_zone() -> None:
    found = parse((b"eu.1", b"pin", b"_zone", b"web", b"ns", b"svc"), zonal=True)
    assert found is not None
    assert found.topology_zone == b"eu\\.1"


@pytest.mark.parametrize(("text", "expected"), columns(TABLES, "names in a clusterset"))
def test_parse_with_clusters(text: str, expected: str) -> None:
    assert words(parse(tuple(text.encode().split(b".")), multicluster=True)) == expected


OBJECTS = upserts(
    namespace("ns"),
    service("ns/web", "10.0.0.1"),
    service("ns/db"),
    endpoint_slice("ns/db-1", "db", "172.0.0.1 host=a", "172.0.0.2 host=b ready=false"),
    endpoint_slice("ns/db-2", "db", "172.0.0.3 ready=false", "172.0.0.4 ready=false"),
    service("ns/both"),
    endpoint_slice("ns/both-4", "both", "172.0.1.1 ready=false", "172.0.1.2 ready=false"),
    endpoint_slice(
        "ns/both-6", "both", "fd00::1 ready=false", "fd00::2 ready=false", address_type="IPv6"
    ),
    service("ns/none"),
    endpoint_slice("ns/alone-1", "alone", "172.0.2.1 ready=false"),
)


def why(name: str, settings: StoreSettings, **options: Any) -> str:
    """Why a name does not exist."""
    store = Store(settings, wall=lambda: 0.0, warn=pytest.fail)
    store.apply(OBJECTS)
    lookup = NameLookup(store, primary_zone=ZONE, ttl=5, **options)
    with pytest.raises(NoSuchName) as absent:
        lookup.find(Name.from_text(f"{name}.cluster.local"), ZONE, None)
    return absent.value.reason


@pytest.mark.parametrize(("row", "expected"), columns(TABLES, "why a name is absent"))
def test_reasons(row: str, expected: str) -> None:
    name, *pairs = row.split()
    options: dict[str, Any] = dict(pair.split("=") for pair in pairs)
    if "namespaces" in options:
        options["namespaces"] = frozenset({options["namespaces"].encode()})
    assert why(name, StoreSettings(not_ready=True), **options) == expected


def test_what_a_selector_hides_may_exist() -> None:
    hidden = Selector.from_text("app=web")
    assert why("web.ns.svc", StoreSettings(labels=hidden)) == schema.NO_SERVED_SERVICE
    assert why("web.ns.svc", StoreSettings(namespace_labels=hidden)) == schema.NO_SERVED_NAMESPACE


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, text in vars(schema).items()
        if name.startswith(("NO_", "PODS_")) and isinstance(text, str)
    ),
)
def test_the_page_has_each_text(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "plugins" / "kubernetes.md"
    assert f"`{getattr(schema, name)}`" in page.read_text(encoding="utf-8")


def test_without_the_number_of_all_none_is_given() -> None:
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    store.apply(OBJECTS)
    texts = {
        name: schema.readiness(store.services.values[b"ns", name.encode()], counted=False)
        for name in ("db", "none")
    }
    assert texts == {"db": "1 endpoints ready", "none": "no ready endpoints"}


FOUR = (RR(ZONE, RRType.A, 5, bytes(4)),)


@pytest.mark.parametrize(
    ("found", "qtype", "expected"),
    [
        (None, RRType.A, "the name has no A records"),
        (bytes(4), RRType.AAAA, "no IPv6 address"),
        (Node(FOUR, (), 1, bytes(4), ()), RRType.AAAA, "no IPv6 address"),
        (Node((), FOUR, 1, bytes(4), ()), RRType.A, "no IPv4 address"),
        (Node((), (), 0, None, ()), RRType.A, "no address"),
        (Node((), (), 1, ZONE, (ZONE,)), RRType.AAAA, "the externalName leads to no AAAA records"),
        (Node(FOUR, (), 1, bytes(4), ()), RRType.MX, "the name has no MX records"),
    ],
)
def test_nodata(found: Node | bytes | None, qtype: int, expected: str) -> None:
    assert schema.nodata(found, qtype) == expected
