"""A store as text and back.

The objects that a store has of a question, with their resource versions.

All objects of a store, made again; tests/recording/test_reader.py has the property that they give the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.cluster.objects import Object, ObjectMeta, Pod, PodStatus, Synced
from hsdns.cluster.snapshot import BadSnapshot, WholeState, check, objects, pieces, stored_objects
from hsdns.cluster.source import Lead
from hsdns.cluster.store import Store, StoreSettings
from tests import strategies
from tests.support.cluster.objects import endpoint_slice, namespace, pod, service, upserts
from tests.support.cluster.reverse_index import owners_by_address
from tests.support.effort import tries

CLUSTERS = settings(
    max_examples=tries(30),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
    # Making a cluster smaller takes minutes, more than a test may.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def make_store(found: Iterable[Object], **options: Any) -> Store:
    """A synced store that holds objects."""
    store = Store(StoreSettings(**options), wall=lambda: 0.0, warn=lambda sentence: None)
    store.apply([*upserts(*found), Synced()])
    return store


def lines_of(store: Store) -> list[bytes]:
    """The text of a store."""
    found = pieces(store, version="1.2.3", saved=1_700_000_000.25, settings={"a": "b"})
    return b"".join(found).splitlines(keepends=True)


def restored(lines: Iterable[bytes], **options: Any) -> Store:
    """A store that has only been restored."""
    store = Store(StoreSettings(**options), wall=lambda: 0.0, warn=pytest.fail)
    store.restore(objects(lines), 0.0)
    return store


def state(store: Store) -> dict[str, Any]:
    """All that answers are made of, without versions and without Services that DNS cannot show."""
    return {
        "services": {
            key: (
                value.kind,
                value.cluster_ips,
                value.ports,
                value.external_name,
                value.has_selector,
                value.external,
                [part._replace(resource_version="") for part in value.slices],
            )
            for key, value in store.services.values.items()
            if value.kind or value.slices
        },
        "namespaces": set(store.namespaces),
        "pods": store.pods.by_address,
        "cluster_ips": owners_by_address(store.services.cluster_ips),
        "endpoint_ips": owners_by_address(store.services.endpoint_ips),
        "external_ips": owners_by_address(store.services.external_ips),
        "pod_labels": store.pods.labels,
        "imports": {
            key: (
                value.kind,
                value.cluster_ips,
                value.ports,
                {part._replace(resource_version="") for part in value.slices},
            )
            for key, value in store.imports.values.items()
        },
    }


@CLUSTERS
@given(strategies.clusters())
@pytest.mark.parametrize(
    "options",
    [{}, {"endpoint_pod_names": True}, {"zonal": True, "multicluster": True, "pod_labels": True}],
    ids=["plain", "pod names", "zones"],
)
def test_what_was_packed_comes_back_equal(options: dict[str, bool], cluster: list[Object]) -> None:
    store = make_store(cluster, **options)
    lines = lines_of(store)
    again = restored(
        lines, **{name: on for name, on in options.items() if name != "endpoint_pod_names"}
    )
    assert state(again) == state(store)
    assert lines_of(again) == lines


PLAIN: list[Object] = [
    namespace("ns"),
    service("ns/web", "10.96.0.1", "fd96::1", ports=("http/TCP/80", "dns/UDP/53")),
    service("ns/db", ports=()),
    service("ns/ext", external="www.example.org"),
    endpoint_slice("ns/web-1", "web", "10.0.0.1", "10.0.0.2 ready=false"),
    endpoint_slice("ns/db-1", "db", "10.0.0.3 host=db-0", ports=()),
    endpoint_slice("ns/names", "db", "db.example.org", address_type="FQDN"),
    pod("ns/p", "10.0.0.9"),
]


def test_the_state_is_that_of_the_moment() -> None:
    store = make_store(PLAIN)
    expected = lines_of(store)
    text = pieces(store, version="1.2.3", saved=1_700_000_000.25, settings={"a": "b"})
    first = next(text)
    store.apply(upserts(service("ns/new"), namespace("new"), pod("ns/q", "10.0.0.8"), endpoint_slice("ns/web-1", "web")))  # fmt: skip
    assert b"".join([first, *text]) == b"".join(expected)


def test_half_of_a_surrogate_pair_is_left_out() -> None:
    store = make_store([endpoint_slice("ns/s", "web", "10.0.0.1 host=\ud800"), *PLAIN[:1]])
    lines = lines_of(store)
    check(lines)
    assert [type(each).__name__ for each in objects(lines)] == ["Namespace"]


GOOD = lines_of(make_store(PLAIN))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        pytest.param([], "it is empty", id="empty"),
        pytest.param([b"\n"], "its first line is not that of a snapshot", id="blank"),
        pytest.param([b"apiVersion: v1\n"], "its first line is not that of a snapshot", id="yaml"),
        pytest.param([b"\xff\xfe\n"], "its first line is not that of a snapshot", id="binary"),
        pytest.param([b"[" * 100_000], "its first line is not that of a snapshot", id="deep"),
        pytest.param([b'{"kind":"List","items":[\n'], "its first line is not that of a snapshot", id="other-list"),
        pytest.param([GOOD[0].replace(b"2023", b"9"), *GOOD[1:]], "its first line is not that of a snapshot", id="no-time"),
        pytest.param(GOOD[:1], "its end is missing", id="header-only"),
        pytest.param(GOOD[:4], "its end is missing", id="cut"),
        pytest.param([*GOOD[:-1], b"]"], "its last line is not that of a snapshot", id="cut-in-the-end"),
        pytest.param([*GOOD[:3], *GOOD[4:]], "its checksum is wrong: it was changed, or damaged", id="line-missing"),
        pytest.param([GOOD[0], GOOD[1].replace(b"ns", b"nt"), *GOOD[2:]], "its checksum is wrong: it was changed, or damaged", id="changed"),
    ],
)  # fmt: skip
def test_damage_is_noticed(lines: list[bytes], why: str) -> None:
    with pytest.raises(BadSnapshot) as caught:
        check(lines)
    assert str(caught.value) == why


def test_what_only_another_version_can_read_is_left_out() -> None:
    lines = [GOOD[0], b'{"kind":"ServiceImport"},\n', b'{"kind":"Service","metadata":7},\n', *GOOD[1:]]  # fmt: skip
    assert list(objects(lines)) == list(objects(GOOD))


STORED: list[Object] = [
    namespace("shop"),
    namespace("other"),
    service("shop/db"),
    service("shop/web", "10.96.0.1"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2 ready=false"),
    pod("shop/x", "10.0.0.9"),
]


def store() -> Store:
    made = Store(StoreSettings(pods=True), wall=lambda: 0.0, warn=lambda sentence: None)
    made.apply([*upserts(*STORED), Synced()])
    return made


def test_of_an_address() -> None:
    (found,) = stored_objects(store(), Lead(address="10.0.0.9"))
    assert found.metadata.name == "x"


OBJECTS: list[Object] = [
    namespace("shop"),
    service("shop/web", "10.96.7.7"),
    endpoint_slice("shop/web-1", "web", "10.0.0.1", "10.0.0.2 ready=false", "10.0.0.3 ready=false"),
    pod("shop/web-0", "10.0.0.1"),
]


def state_of(*more: Object, not_ready: bool = False) -> WholeState:
    store = Store(StoreSettings(not_ready=not_ready), wall=lambda: 0.0, warn=pytest.fail)
    store.apply([*upserts(*OBJECTS, *more), Synced()])
    return WholeState.of(store)


def shown(found: Any) -> list[tuple[str, str, str | None]]:
    return [
        (each["kind"], each["metadata"]["name"], each["metadata"].get("resourceVersion"))
        for each in found
    ]


def test_versions() -> None:
    state = state_of()
    bare = [("Namespace", "shop", None), ("Service", "web", None), ("EndpointSlice", "web-1", None), ("Pod", "web-0", None)]  # fmt: skip
    assert shown(state.objects()) == bare
    assert shown(state.objects(versioned=True)) == [(kind, name, None if kind == "Pod" else "1") for kind, name, _ in bare]  # fmt: skip
    assert state.serves


@pytest.mark.parametrize(
    ("is_counted", "not_ready"),
    [(True, [{"addresses": ["0.0.0.0", "0.0.0.0"], "conditions": {"ready": False}}]), (False, [])],
)
def test_endpoints_that_are_not_ready(is_counted: bool, not_ready: list[dict[str, Any]]) -> None:
    """Their number is known, if it is counted, and not their addresses."""
    (found,) = [
        each
        for each in state_of(not_ready=is_counted).objects(versioned=True)
        if each["kind"] == "EndpointSlice"
    ]
    assert found["endpoints"] == [{"addresses": ["10.0.0.1"]}, *not_ready]


def test_a_pod_that_is_being_deleted() -> None:
    """A store takes its address only from what it was before."""
    ending = Pod(
        ObjectMeta("web-0", "shop", deletion_timestamp="2026-01-01T00:00:00Z"),
        PodStatus("10.0.0.1"),
    )
    found = [each for each in state_of(ending).objects(versioned=True) if each["kind"] == "Pod"]
    assert [each["metadata"].get("deletionTimestamp") for each in found] == [None, "unknown"]
