"""The course of a replay, with the clock of the test."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hsdns.cluster.objects import Deleted, Event, Object, ObjectMeta, Synced
from hsdns.cluster.store import Store, StoreSettings
from hsdns.recording.entry import Entry, ObjectEvent, RecordedObject, State, to_raw
from hsdns.recording.playback import Playback
from tests import strategies
from tests.recording.recorded import END, Course, make_store, opened, recorded, to_octets, whole
from tests.support.cluster.objects import deletes, service, upserts
from tests.support.effort import tries

TIME = "2026-01-01T00:00:00.000+00:00"
WEB, DB, API = (service(f"shop/{name}", f"10.96.7.{at}") for at, name in enumerate(("web", "db", "api")))  # fmt: skip
# web at the start, db after 1 s, api after 2 s, no db after 3 s
SHOP = recorded(upserts(WEB), [upserts(DB), upserts(API), deletes(DB)])


def play(entries: list[Entry], *, speed: float = 1.0, is_paused: bool = False) -> Playback:
    """A replay that begins when the clock is at 100 s."""
    found = Playback(opened(to_octets(entries)), speed=speed, is_paused=is_paused)
    found.begin(100.0)
    return found


def names(found: Playback) -> list[str]:
    return sorted(each.metadata.name for each in found.objects.values())


settings_of_stores = st.builds(
    StoreSettings,
    endpoints=st.just(True),
    pods=st.just(True),
    pod_labels=st.booleans(),
    pod_names=st.booleans(),
    zonal=st.booleans(),
    multicluster=st.booleans(),
    not_ready=st.booleans(),
)


# Making a history smaller takes minutes, more than a test may.
@settings(max_examples=tries(12), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(strategies.histories(), settings_of_stores, st.data())
def test_a_replay_has_the_state_that_was_recorded_after_each_event(
    history: list[Event], chosen: StoreSettings, data: st.DataObject
) -> None:
    """Wherever in a history the recording begins."""
    at = data.draw(st.integers(0, len(history)))
    course = Course(make_store(chosen))
    course.apply(history[:at])
    entries = course.begin()
    states = [whole(course.store)]
    for event in history[at:]:
        found = course.apply([event])
        assert found or whole(course.store) == states[-1]
        entries += found
        states += [whole(course.store)] * len(found)
    replayed = Playback(opened(to_octets([*entries, END])), is_paused=True)
    store = make_store(chosen)
    store.apply(replayed.begin(0.0))
    for expected in states:
        assert whole(store) == expected
        store.apply(replayed.step(1, 0.0))
    assert (replayed.is_over, replayed.recording.problem, replayed.recording.end) == (True, "", END)


@pytest.mark.parametrize(("speed", "wait"), [(2.0, 0.5), (0.5, 2.0), (0.0, 0.0)])
def test_speed(speed: float, wait: float) -> None:
    found = play(SHOP, speed=speed)
    assert found.wait(100.0) == wait
    assert (found.due(100.0 + wait) == upserts(DB)) is (speed > 0)


def test_steps() -> None:
    found = play(SHOP)
    assert found.step(1, 100.0) == upserts(DB)
    assert (found.is_paused, found.place(300.0), found.wait(300.0)) == (True, 1.0, inf)
    assert len(found.step(7, 300.0)) == 2
    assert (found.is_over, found.step(1, 300.0), found.applied) == (True, [], 3)


def test_a_place_and_then_on() -> None:
    found = play(SHOP)
    found.go_to(1.5, 100.0)
    assert (found.wait(100.0), found.applied) == (0.5, 1)


def state_of(*objects: Object, at: float, serves: bool = True) -> list[Entry]:
    return [*(RecordedObject(to_raw(each)) for each in objects), State(at, TIME, len(objects), serves)]  # fmt: skip


def test_of_another_state_only_the_difference_is_delivered() -> None:
    changed = service("shop/web", "10.96.9.9")
    found = play([*state_of(WEB, DB, at=0.0), *state_of(changed, API, at=1.0), END])
    events = found.due(101.0)
    assert events == [Deleted(type(DB)(ObjectMeta("db", "shop"))), *upserts(changed, API), Synced()]
    assert (names(found), found.applied) == (["api", "web"], 1)


def serves(entries: list[Entry]) -> tuple[Store, Playback]:
    found = Playback(opened(to_octets(entries)))
    store = make_store()
    store.apply(found.begin(0.0))
    store.apply(found.go_to(inf, 0.0))
    return store, found


def test_an_object_that_is_none_ends_it() -> None:
    event = ObjectEvent(1.0, TIME, "ADDED", to_raw(DB))
    broken = ObjectEvent(2.0, TIME, "ADDED")
    store, found = serves([*state_of(WEB, at=0.0), event, broken, event])
    assert (store.serves, names(found)) == (True, ["db", "web"])
    assert found.recording.problem.startswith(
        "FILE is broken at line 5: an object cannot be read: "
    )
