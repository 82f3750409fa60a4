"""A store as text and back.

The objects that a store has of a question, with their resource versions.

All objects of a store, made again; tests/recording/test_anonymise.py has the property that they give the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.answer_set import AnswerSet
from hsdns.cluster.history import Need, Replaced
from hsdns.cluster.lookup import NameLookup
from hsdns.cluster.objects import Event, Object, ObjectMeta, Pod, PodStatus, Synced
from hsdns.cluster.snapshot import BadSnapshot, WholeState, check, objects, pieces, stored_objects
from hsdns.cluster.source import Lead
from hsdns.cluster.store import ClusterView, EarlierStore, Store, StoreSettings
from hsdns.fastpath import Versions
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests import strategies
from tests.strategies import histories
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


# A store as it was at a time is the store whose events ended then.
#
# What is kept of what changes have replaced, and for how long.

SETTINGS = StoreSettings(multicluster=True, zonal=True)
CLUSTER, SHARED, REVERSE = (
    Name.from_text(each) for each in ("cluster.local", "clusterset.local", "in-addr.arpa")
)
MODES = {"pods": "verified", "zonal": True, "multicluster": (SHARED,)}


class Applied:
    """A store whose events come a second apart, the first at 1; before them it was synced and empty."""

    def __init__(self, *needs: Need) -> None:
        self.now = 0.0
        self.replaced = Replaced()
        self.replaced.clock = self._clock
        self.replaced.keep(self, needs)
        self.store = Store(
            SETTINGS, wall=self._clock, warn=_ignore, counters=Versions(), replaced=self.replaced
        )
        self.store.apply([Synced()])

    def apply(self, *events: Event) -> Applied:
        for event in events:
            self.now += 1
            self.store.apply([event])
        return self

    def _clock(self) -> float:
        return self.now


def _ignore(sentence: str) -> None:
    pass


def everything(view: ClusterView) -> tuple[object, ...]:
    """All records and serials, and the pods of clients."""
    lookup = NameLookup(view, primary_zone=CLUSTER, ttl=5, **MODES)  # type: ignore[arg-type]
    zones = (CLUSTER, SHARED, REVERSE)
    found = AnswerSet(ClusterAnswers(lookup), zones).rrsets()
    addresses = (f"10.0.0.{last}" for last in range(8))
    return (
        sorted(map(_rrset, found)),
        (view.serial, view.imports.serial, view.services.external_serial),
        sorted(view.namespaces),
        [view.pods.of_client(each) for each in addresses],
        sorted(view.services.external_ips.addresses()),
        len(view.services.values),
    )


def _rrset(found: Sequence[RR]) -> list[tuple[bytes, int, int, bytes]]:
    return sorted((each.owner.lower, each.rrtype, each.ttl, each.rdata) for each in found)


SOME = [Need(0.0, 100.0), Need(3.5), Need(7.0)]


@settings(max_examples=tries(30))
@given(histories(), st.lists(st.sampled_from(SOME), min_size=1, unique=True), st.data())
def test_earlier_states(events: list[Event], needs: list[Need], data: st.DataObject) -> None:
    applied = Applied(*needs).apply(*events)
    need = data.draw(st.sampled_from(needs))
    time = need.since
    if need.window:
        time = data.draw(st.sampled_from([each / 2 for each in range(2 * len(events) + 2)]))
    then = Applied().apply(*events[: int(time)])
    then.now = applied.now
    assert everything(EarlierStore(applied.store, time)) == everything(then.store)


@settings(max_examples=tries(15))
@given(histories(), st.integers(1, 6))
def test_windows_move(events: list[Event], seconds: int) -> None:
    """At each moment the state of so many seconds ago is there, and little more is kept than that."""
    applied = Applied(Need(0.0, float(seconds)))
    for number, event in enumerate(events, 1):
        applied.apply(event)
        time = max(number - seconds, 0)
        then = Applied().apply(*events[:time])
        found = EarlierStore(applied.store, float(time))
        assert (found.serial, sorted(found.services.values)) == (
            then.store.serial,
            sorted(then.store.services.values),
        )
    assert all(
        when > applied.replaced.latest - seconds
        for noted in applied.replaced._noted.values()
        for when, _ in noted
    )


def replaced(*needs: Need) -> Replaced:
    made = Replaced()
    made.open()
    made.keep(made, needs)
    return made


SERVICES: dict[str, str] = {}


def change(found: Replaced, *times: float, key: str = "web") -> None:
    """Changes of a key at some times; its value before each is the time of the one before."""
    SERVICES[key] = "none"
    for time in times:
        found.clock = lambda time=time: time  # type: ignore[misc]
        found.begin()
        found.put(SERVICES, key, f"of {time:g}")


TIMES = (1.0, 2.0, 3.0, 4.0, 5.0)
VALUES = {
    0.5: "none",
    1.0: "of 1",
    1.5: "of 1",
    2.0: "of 2",
    2.5: "of 2",
    4.999: "of 4",
    5.0: "newest",
}


@pytest.mark.parametrize(
    ("need", "kept", "times"),
    [
        (Need(0.0), 1, ()),
        (Need(0.5), 1, (0.5,)),
        (Need(1.5), 1, (1.5,)),
        (Need(2.0), 1, (2.0,)),
        (Need(5.0), 0, (5.0,)),
        (Need(0.5, 100.0), 5, tuple(VALUES)),
        (Need(0.5, 2.0), 2, (4.999, 5.0)),
        (Need(2.5, 100.0), 3, (2.5, 4.999, 5.0)),
    ],
)
def test_what_is_kept(need: Need, kept: int, times: tuple[float, ...]) -> None:
    found = replaced(need)
    change(found, *TIMES)
    assert len(found) == kept
    assert [found.at(SERVICES, "web", each, "newest") for each in times] == [
        VALUES[each] for each in times
    ]


def test_several_needs() -> None:
    found = replaced(Need(0.5))
    change(found, *TIMES)
    other = object()
    found.keep(other, [Need(5.5)])
    change(found, 6.0, 7.0)
    assert [found.at(SERVICES, "web", each, "newest") for each in (0.5, 5.5)] == ["none"] * 2
    assert len(found) == 2
    found.keep(found, ())
    change(found, 8.0, key="db")
    assert (len(found), found.at(SERVICES, "web", 5.5, "newest")) == (2, "none")
    found.keep(other, ())
    assert (len(found), found.is_kept) == (0, False)


@pytest.mark.parametrize(
    ("time", "first"), [(0.0, 1.0), (1.0, 2.0), (4.5, 5.0), (5.0, None), (9.0, None)]
)
def test_first_after(time: float, first: float | None) -> None:
    found = replaced(Need(0.0, 100.0))
    change(found, *TIMES)
    assert found.first_after(time) == first
