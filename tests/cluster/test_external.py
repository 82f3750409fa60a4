"""Names below an external zone; the replies stand in tests/plugins/test_k8s_external.py and its scenarios."""

import pytest

from hsdns.cluster.external import ExternalNames, parse, target_name
from hsdns.cluster.freshness import Dependencies, NoCounters, namespace_counter, service_counter
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.objects import Service, ServiceSpec
from hsdns.cluster.question import SVC, ParsedName
from hsdns.cluster.store import Store, StoreSettings
from hsdns.wire.name import Name
from tests.support.cluster.objects import endpoint_slice, meta, namespace, service, upserts

ZONE = Name.from_text("example.org")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ns", ParsedName(SVC, b"ns")),
        ("web.ns", ParsedName(SVC, b"ns", b"web")),
        ("ep.web.ns", ParsedName(SVC, b"ns", b"web", endpoint=b"ep")),
        ("_ep.web.ns", ParsedName(SVC, b"ns", b"web", endpoint=b"ep")),
        ("_.web.ns", ParsedName(SVC, b"ns", b"web")),
        ("_http._tcp.web.ns", ParsedName(SVC, b"ns", b"web", port=b"http", protocol=b"tcp")),
        ("http.tcp.web.ns", ParsedName(SVC, b"ns", b"web", port=b"http", protocol=b"tcp")),
        ("a.b.c.web.ns", None),
    ],
)
def test_parse(text: str, expected: ParsedName | None) -> None:
    assert parse(tuple(text.encode().split(b"."))) == expected


def outside(*, headless: bool = False) -> ExternalNames:
    spec = ServiceSpec(cluster_ips=["10.0.0.1"], external_ips=["192.0.2.1", "nonsense..", ""])
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    store.apply(
        upserts(
            namespace("ns"),
            Service(meta("ns/bare"), spec),
            service("ns/db"),
            endpoint_slice("ns/db-1", "db", "172.0.0.1 host=a"),
            endpoint_slice("ns/lost-1", "lost", "172.0.0.2"),
        )
    )
    return ExternalNames(NameLookup(store, primary_zone=ZONE, ttl=5), headless=headless)


@pytest.mark.parametrize(
    ("labels", "headless", "hosts"),
    [
        ((b"ns",), False, []),
        ((b"bare", b"ns"), False, [bytes((192, 0, 2, 1))]),
        ((b"http", b"tcp", b"bare", b"ns"), False, None),  # it has no ports
        ((b"db", b"ns"), False, None),
        ((b"db", b"ns"), True, [bytes((172, 0, 0, 1))]),
        ((b"a", b"db", b"ns"), True, [bytes((172, 0, 0, 1))]),
        ((b"b", b"db", b"ns"), True, None),
        ((b"lost", b"ns"), True, None),
        ((b"other",), True, None),
    ],
)
def test_find(labels: tuple[bytes, ...], headless: bool, hosts: list[bytes] | None) -> None:
    names = outside(headless=headless)
    if hosts is None:
        with pytest.raises(NoSuchName):
            names.find(labels, None)
    else:
        assert [entry.host for entry in names.find(labels, None)[0]] == hosts


def test_what_is_read_becomes_a_dependency() -> None:
    dependencies = Dependencies(NoCounters())
    outside().find((b"bare", b"ns"), dependencies)
    assert {index for index, _ in dependencies.pairs} == {
        namespace_counter(b"ns"),
        service_counter(b"ns", b"bare"),
    }


def test_pointers_are_in_a_fixed_order() -> None:
    names = outside()
    spec = ServiceSpec(external_ips=["192.0.2.1"])
    store = names._lookup.store
    assert isinstance(store, Store)
    store.apply(upserts(Service(meta("ns/a"), spec)))
    assert names.pointers(bytes((192, 0, 2, 1)), None) == [(b"ns", b"a"), (b"ns", b"bare")]


def test_target_names_fit_or_are_none() -> None:
    asked = ParsedName(SVC, b"ns", b"web")
    assert target_name(b"a", asked, ZONE) == Name.from_text("a.web.ns.example.org")
    assert target_name(None, asked, Name.from_text("EXAMPLE.org")) == Name.from_text("web.ns.example.org")  # fmt: skip
    long = Name.from_text(".".join(["x" * 60] * 4))
    assert target_name(b"y" * 63, asked, long) is None
