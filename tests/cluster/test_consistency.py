"""A store and what the objects make of an empty one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.cluster.consistency import STEP, ConsistencyCheck, inconsistencies_in
from hsdns.cluster.objects import (
    Event,
    Object,
    Pod,
    PodStatus,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServiceSpec,
    Synced,
)
from hsdns.cluster.selector import Selector
from hsdns.cluster.store import Store, StoreSettings
from hsdns.metrics import Registry
from tests import strategies
from tests.support.cluster.differences import differences
from tests.support.cluster.objects import (
    deletes,
    endpoint_slice,
    meta,
    namespace,
    pod,
    service,
    upserts,
)
from tests.support.effort import tries


def make_store(*events: Event, **options: bool) -> Store:
    """A synced store after some events."""
    store = Store(StoreSettings(**options), wall=lambda: 0.0, warn=lambda sentence: None)  # type: ignore[arg-type]  # those that are flags
    store.apply([*events, Synced()])
    return store


def run_check(check: ConsistencyCheck, store: Store, objects: Sequence[Object]) -> list[str]:
    """Run all steps of a check."""
    steps = check.steps(store, objects)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[str] = end.value
            return found


@settings(
    max_examples=tries(30),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # fmt: skip
@pytest.mark.parametrize("shared", [False, True], ids=["plain", "multicluster"])
@given(strategies.histories())
def test_any_history_ends_where_its_objects_do(shared: bool, history: list[Event]) -> None:
    store = make_store(*history, zonal=shared, multicluster=shared)
    assert differences(store, strategies.remaining(history)) == []


WEB = service("ns/web", "10.96.0.1")
ONE, TWO = (
    endpoint_slice("ns/web-1", "web", "10.0.0.1"),
    endpoint_slice("ns/web-2", "web", "10.0.0.2"),
)
ONE_LATER = endpoint_slice("ns/web-1", "web", "10.0.0.3", "10.0.0.4", version="2")


@pytest.mark.parametrize(
    ("here", "there", "sentences"),
    [
        pytest.param([ONE, TWO, WEB], [WEB, TWO, ONE], [], id="order"),
        pytest.param(
            [WEB], [], ["Service ns/web: the store has it, the API does not (version 1)",
                        "Service ns/web: clusterIP 10.96.0.1 still leads back to it"], id="too-much",
        ),
        pytest.param(
            [], [WEB], ["Service ns/web: the API has it, the store does not (version 1)",
                        "Service ns/web: clusterIP 10.96.0.1 does not lead back to it"], id="missing",
        ),
        pytest.param(
            [WEB, ONE], [WEB, ONE_LATER],
            ["Service ns/web: slice web-1 is version 1 with 1 addresses in the store, version 2 with 2 in the API",
             "Service ns/web: endpoint 10.0.0.1 still leads back to it",
             "Service ns/web: endpoint 10.0.0.3 does not lead back to it",
             "Service ns/web: endpoint 10.0.0.4 does not lead back to it"], id="slice",
        ),
        pytest.param(
            [WEB, ONE], [WEB, TWO],
            ["Service ns/web: slice web-1 is only in the store", "Service ns/web: slice web-2 is not in the store",
             "Service ns/web: endpoint 10.0.0.1 still leads back to it",
             "Service ns/web: endpoint 10.0.0.2 does not lead back to it"], id="slices",
        ),
        pytest.param(
            [WEB], [service("ns/web", "10.96.0.1", version="2")],
            ["Service ns/web: the store has version 1 (cluster_ip), the API 2 (cluster_ip)"], id="version",
        ),
        pytest.param(
            [service("ns/web")], [service("ns/web", ports=("x/UDP/1",))],
            ["Service ns/web: the store and the API differ in ports"], id="ports",
        ),
        pytest.param(
            [Service(meta("ns/web"), ServiceSpec(cluster_ips=["10.96.0.1"], external_ips=["192.0.2.1"]))],
            [Service(meta("ns/web"), ServiceSpec(cluster_ips=["10.96.0.1"], external_ips=["192.0.2.2"]))],
            ["Service ns/web: the store and the API differ in external addresses",
             "Service ns/web: external IP 192.0.2.1 still leads back to it",
             "Service ns/web: external IP 192.0.2.2 does not lead back to it"], id="external",
        ),
        pytest.param(
            [ServiceImport(meta("ns/web"), ServiceImportSpec("Headless"))], [],
            ["ServiceImport ns/web: the store has it, the API does not (version 1)"], id="import",
        ),
        pytest.param(
            [ServiceImport(meta("ns/web"), ServiceImportSpec("ClusterSetIP", ["10.0.1.1"]))],
            [ServiceImport(meta("ns/web"), ServiceImportSpec("ClusterSetIP", ["10.0.1.2"]))],
            ["ServiceImport ns/web: the store and the API differ in clusterIPs"], id="import-address",
        ),
        pytest.param([namespace("a"), namespace("b")], [namespace("b"), namespace("c")],
                     ["Namespace a: the store has it, the API does not",
                      "Namespace c: the API has it, the store does not"], id="namespaces"),
        pytest.param([namespace("a")], [msgspec.structs.replace(namespace("a"), metadata=meta("a", "2"))],
                     ["Namespace a: the store has version 1, the API 2"], id="namespace-version"),
        pytest.param([pod("ns/p", "10.0.0.1"), pod("ns/q", "10.0.0.1")], [pod("ns/q", "10.0.0.1"), pod("ns/r", "10.0.0.1")],
                     ["Pod ns/p: 10.0.0.1 still leads to it", "Pod ns/r: 10.0.0.1 does not lead to it"], id="pods"),
    ],
)  # fmt: skip
def test_differences(here: list[Object], there: list[Object], sentences: list[str]) -> None:
    shared = any(isinstance(each, ServiceImport) for each in here)
    assert differences(make_store(*upserts(*here), multicluster=shared), there) == sentences


def test_an_index_that_is_wrong_by_itself_is_found() -> None:
    store = make_store(*upserts(WEB, ONE))
    store.services.cluster_ips.remove(bytes((10, 96, 0, 1)), (b"ns", b"web"))
    store.services.endpoint_ips.add(bytes((10, 0, 0, 9)), (b"ns", b"web", "web-1"))
    assert differences(store, [WEB, ONE]) == [
        "Service ns/web: clusterIP 10.96.0.1 does not lead back to it",
        "Service ns/web: endpoint 10.0.0.9 still leads back to it",
    ]


def test_the_settings_are_those_of_the_store() -> None:
    store = Store(
        StoreSettings(endpoints=False, labels=Selector.from_text("app=web")),
        wall=lambda: 0.0,
        warn=pytest.fail,
    )
    store.apply([Synced()])
    assert differences(store, [WEB, ONE, Service(meta("ns/x", labels={"app": "db"}))]) == []


LATE = service("ns/late")
MISSING = "Service ns/late: the API has it, the store does not (version 1)"


@pytest.mark.parametrize(
    ("lists", "confirmed"),
    [
        pytest.param([[LATE]], [[]], id="once-is-not-believed"),
        pytest.param([[LATE], [LATE]], [[], [MISSING]], id="twice-is"),
        pytest.param([[LATE]] * 4, [[], [MISSING], [], []], id="told-once"),
        pytest.param([[LATE], [], [LATE]], [[], [], []], id="not-in-a-row"),
        pytest.param([[LATE], [service("ns/late", version="2")]], [[], []], id="changed-between"),
        pytest.param([[LATE], [LATE, endpoint_slice("ns/s", "late")]], [[], []], id="slice-changed-between"),
        pytest.param([[LATE], [LATE], [], [LATE], [LATE]], [[], [MISSING], [], [], [MISSING]], id="again"),
        pytest.param([[Pod(meta("ns/p"), PodStatus("10.0.0.1"))]] * 2, [[], ["Pod ns/p: 10.0.0.1 does not lead to it"]], id="pod"),
        pytest.param([[namespace("x")]] * 2, [[], ["Namespace x: the API has it, the store does not"]], id="namespace"),
    ],
)  # fmt: skip
def test_check(lists: list[list[Object]], confirmed: list[list[str]]) -> None:
    store, check = make_store(), ConsistencyCheck()
    assert [run_check(check, store, objects) for objects in lists] == confirmed


def test_a_store_that_catches_up_is_not_suspect() -> None:
    store, check = make_store(), ConsistencyCheck()
    assert run_check(check, store, [WEB, ONE]) == []
    store.apply(upserts(WEB))
    assert run_check(check, store, [WEB, ONE_LATER]) == []
    store.apply([*upserts(ONE_LATER), *deletes(TWO)])
    assert run_check(check, store, [WEB, ONE_LATER]) == []


def test_a_store_that_is_not_synced_is_not_checked() -> None:
    store, check = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail), ConsistencyCheck()
    assert [run_check(check, store, [LATE]) for _ in range(3)] == [[], [], []]


def test_a_pod_that_is_being_deleted_may_be_there_or_not() -> None:
    known, other = pod("ns/p", "10.0.0.1"), pod("ns/q", "10.0.0.2")
    ending = [
        msgspec.structs.replace(
            each, metadata=msgspec.structs.replace(each.metadata, deletion_timestamp="now")
        )
        for each in (known, other)
    ]
    store, check = make_store(*upserts(known)), ConsistencyCheck()
    assert differences(store, ending) == []
    assert [run_check(check, store, ending) for _ in range(2)] == [[], []]


def test_confirmed_ones_can_be_counted() -> None:
    metrics = Registry()
    inconsistencies_in(metrics).inc(amount=2)
    assert b"hsdns_store_inconsistencies_total 2.0" in metrics.to_text()


def test_a_check_can_be_made_in_steps() -> None:
    many = [
        service(f"ns/s-{number}", f"10.96.{number // 250}.{number % 250}") for number in range(1000)
    ]
    store, check = make_store(*upserts(*many)), ConsistencyCheck()
    store.apply(deletes(many[7]))
    run_check(check, store, many)
    count, sentences = 0, list[str]()

    def collect() -> Iterator[None]:
        sentences.extend((yield from check.steps(store, many)))

    for count, _ in enumerate(collect(), start=1):
        store.apply(upserts(namespace("meanwhile"), service(f"ns/new-{count}")))
    assert count >= 3 * len(many) // STEP
    assert sentences == [
        "Service ns/s-7: the API has it, the store does not (version 1)",
        "Service ns/s-7: clusterIP 10.96.0.7 does not lead back to it",
    ]
