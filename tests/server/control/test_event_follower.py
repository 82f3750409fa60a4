"""The events of a store, noted for one reader."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import ObjectMeta, Service, Synced
from hsdns.cluster.store import Store
from hsdns.server.control import watch
from hsdns.server.control.watch import EventFollower
from tests.recording.recorded import make_store
from tests.support.cluster.objects import deletes, service, upserts

WEB, DB = service("shop/web", "10.96.7.7"), service("shop/db", "10.96.7.8")


class Case:
    def __init__(self) -> None:
        self.now = 0.0
        self.store = make_store()
        self.follower = EventFollower(self.store, lambda: self.now)


def test_what_comes_after_the_state() -> None:
    case = Case()
    case.store.apply(upserts(WEB))
    case.now = 5.0
    at, state = case.follower.begin()
    assert (at, [key for key, _ in state.services]) == (5.0, [(b"shop", b"web")])
    assert case.follower.take() is None
    case.now = 6.0
    case.store.apply([*deletes(WEB), *upserts(DB)])
    case.store.apply([])
    case.store.apply([Synced()])
    assert [case.follower.take() for _ in range(3)] == [
        (6.0, [*deletes(WEB), *upserts(DB)]),
        (6.0, [Synced()]),
        None,
    ]


def test_of_too_many_the_first_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it begins again."""
    monkeypatch.setattr(watch, "MOST", 2)
    case = Case()
    case.follower.begin()
    case.store.apply(upserts(WEB, DB))
    assert case.follower.take() == (0.0, upserts(WEB, DB))
    for _ in range(3):
        case.store.apply(upserts(WEB))
    case.store.apply(deletes(WEB))
    assert (case.follower.lost, case.follower.take()) == (2, (0.0, upserts(WEB)))
    case.store.apply(upserts(WEB))
    assert case.follower.lost == 3  # there is room now, but what is lost is before it
    _, state = case.follower.begin()
    assert (case.follower.lost, case.follower.take(), len(state.services)) == (0, None, 2)
    case.store.apply(deletes(DB))
    assert case.follower.take() == (0.0, deletes(DB))


def test_one_that_has_ended_is_forgotten() -> None:
    case = Case()
    case.follower.begin()
    case.follower.end()
    case.store.apply(upserts(WEB))
    assert case.follower.take() is None
    assert followers(case.store) == 0


def test_the_next_one_has_those_forgotten_that_have_ended() -> None:
    """Though nothing happens in the cluster."""
    case = Case()
    for _ in range(3):
        follower = EventFollower(case.store, lambda: 0.0)
        follower.begin()
        follower.end()
    assert followers(case.store) == 1


def followers(store: Store) -> int:
    return len(store._followers)


def test_what_a_snapshot_had_and_the_cluster_has_not() -> None:
    """No source tells that it is gone."""
    case = Case()
    case.store.restore([WEB, DB], 0.0)
    case.follower.begin()
    case.store.apply(upserts(DB))
    case.store.apply([Synced()])
    gone = deletes(Service(ObjectMeta("web", "shop")))
    found = [case.follower.take() for _ in range(4)]
    assert found == [(0.0, upserts(DB)), (0.0, gone), (0.0, [Synced()]), None]
