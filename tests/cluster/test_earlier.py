"""A store as it was at a time is the store whose events ended then.

What is kept of what changes have replaced, and for how long.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.answer_set import AnswerSet
from hsdns.cluster.history import Need, Replaced
from hsdns.cluster.lookup import NameLookup
from hsdns.cluster.objects import Event, Synced
from hsdns.cluster.store import ClusterView, EarlierStore, Store, StoreSettings
from hsdns.fastpath import Versions
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests.strategies import histories
from tests.support.effort import tries

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
