"""Any history of events leaves the store that its last objects make of an empty one; the comparison finds differences."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.cluster.objects import (
    Event,
    Object,
    Pod,
    PodStatus,
    ServiceImport,
    ServiceImportSpec,
    Synced,
)
from hsdns.cluster.store import Store, StoreSettings
from tests import strategies
from tests.support.cluster.differences import differences
from tests.support.cluster.objects import endpoint_slice, meta, namespace, service, upserts
from tests.support.effort import tries


def make_store(*events: Event, **options: bool) -> Store:
    """A synced store after some events."""
    store = Store(StoreSettings(**options), wall=lambda: 0.0, warn=lambda sentence: None)  # type: ignore[arg-type]  # those that are flags
    store.apply([*events, Synced()])
    return store


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
ONE = endpoint_slice("ns/web-1", "web", "10.0.0.1")
ONE_LATER = endpoint_slice("ns/web-1", "web", "10.0.0.3", version="2")


@pytest.mark.parametrize(
    ("here", "there", "subjects"),
    [
        pytest.param([ONE, WEB], [WEB, ONE], [], id="order"),
        pytest.param([], [WEB], ["Service b'ns' b'web'", "clusterIP 10.96.0.1"], id="missing"),
        pytest.param([WEB, ONE], [WEB, ONE_LATER], ["Service b'ns' b'web'", "endpoint 10.0.0.1", "endpoint 10.0.0.3"], id="slice"),
        pytest.param([ServiceImport(meta("ns/web"), ServiceImportSpec("Headless"))], [], ["ServiceImport b'ns' b'web'"], id="import"),
        pytest.param([namespace("a")], [namespace("c")], ["namespace b'a'", "namespace b'c'"], id="namespaces"),
        pytest.param([Pod(meta("ns/p"), PodStatus("10.0.0.1"))], [], ["pod (b'ns', 'p') 10.0.0.1"], id="pods"),
    ],
)  # fmt: skip
def test_differences(here: list[Object], there: list[Object], subjects: list[str]) -> None:
    shared = any(isinstance(each, ServiceImport) for each in here)
    found = differences(make_store(*upserts(*here), multicluster=shared), there)
    assert [each.partition(":")[0] for each in found] == subjects


def test_an_index_that_is_wrong_by_itself_is_found() -> None:
    store = make_store(*upserts(WEB, ONE))
    store.services.endpoint_ips.add(bytes((10, 0, 0, 9)), (b"ns", b"web", "web-1"))
    assert differences(store, [WEB, ONE]) == [
        "endpoint 10.0.0.9: the store has {(b'ns', b'web', 'web-1')}, and should have None"
    ]
