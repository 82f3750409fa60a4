"""Any history of events leaves the store that its last objects make of an empty one; the comparison finds differences."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.cluster.objects import Event, Synced
from hsdns.cluster.store import Store, StoreSettings
from tests import strategies
from tests.support.cluster.differences import differences
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
