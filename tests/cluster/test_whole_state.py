"""All objects of a store, made again; tests/recording/test_playback.py has the property that they give the same one."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.cluster.objects import Object, ObjectMeta, Pod, PodStatus, Synced
from hsdns.cluster.snapshot import WholeState
from hsdns.cluster.store import Store, StoreSettings
from tests.support.cluster.objects import endpoint_slice, namespace, pod, service, upserts

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
