from __future__ import annotations

from random import Random

import pytest

from hsdns.plugins.cache.store import Entry, Key, Store
from hsdns.wire.iana import Rcode
from tests.support.plugins.requests import reply, section

A = "www.example.org. 30 IN A 192.0.2.1"


def key(number: int) -> Key:
    return (b"\4%04d\0" % number, 1, 1, False, False)


@pytest.mark.parametrize(
    ("capacity", "room"),
    [(0, 1024), (1000, 1024), (1024, 1024), (1279, 1024), (1280, 1280), (9984, 9984)],
)
def test_room(capacity: int, room: int) -> None:
    store, entry = Store(capacity, Random(1)), Entry(None, 30, 0.0)
    assert not any(store.store(key(number), entry) for number in range(room))
    assert len(store) == room
    assert store.store(key(room), entry)
    assert len(store) == room
    assert store.lookup(key(room), 0.0) is entry


def test_eviction_draws_any_entry() -> None:
    store = Store(0, Random(5))
    for number in range(1024 + 512):
        store.store(key(number), Entry(None, 30, 0.0))
    left = {number for number in range(1024) if store.lookup(key(number), 0.0)}
    assert len(left) < 1024 - 256
    assert any(number < 512 for number in left)
    assert any(number >= 512 for number in left)


def test_storing_a_known_key_evicts_nothing() -> None:
    store = Store(0, Random(1))
    for number in range(1024):
        store.store(key(number), Entry(None, 30, 0.0))
    second = Entry(None, 60, 10.0)
    assert not store.store(key(17), second)
    assert store.lookup(key(17), 65.0) is second


def test_forget() -> None:
    store = Store(0, Random(1))
    for number in range(3):
        store.store(key(number), Entry(None, 30, 0.0))
    store.remove(key(0))
    store.remove(key(0))
    assert [bool(store.lookup(key(number), 0.0)) for number in range(3)] == [False, True, True]
    store.remove(key(2))
    store.remove(key(1))
    assert len(store) == 0


@pytest.mark.parametrize(
    ("now", "ttl"), [(100.0, 30), (100.9, 30), (101.0, 29), (129.9, 1), (130.0, 0), (200.0, -70)]
)
def test_age(now: float, ttl: int) -> None:
    store, entry = Store(0, Random(1)), Entry(reply([A], [A], [A], rcode=Rcode.NXDOMAIN), 30, 100.0)
    store.store(key(1), entry)
    assert entry.ttl(now) == ttl
    assert (store.lookup(key(1), now) is entry) == (ttl > 0)
    assert len(store) == 1
    shown = entry.show(ttl)
    assert shown is not None
    expected = [f"www.example.org. {ttl} IN A 192.0.2.1"]
    assert [section(part) for part in (shown.answer, shown.authority, shown.additional)] == [
        expected
    ] * 3
    assert shown.rcode == Rcode.NXDOMAIN
    assert entry.show(ttl) is shown


def test_a_mark_shows_nothing() -> None:
    assert Entry(None, 30, 0.0).show(1) is None


@pytest.mark.parametrize(
    ("now", "stale", "counts"),
    [(129.9, 0, True), (130.0, 0, False), (130.0, 60, True), (189.9, 60, True), (190.0, 60, False)],
)
def test_what_is_over_counts_a_while(now: float, stale: int, counts: bool) -> None:
    store, entry = Store(0, Random(1)), Entry(reply([A]), 30, 100.0)
    store.store(key(1), entry)
    assert (store.lookup(key(1), now, stale) is entry) == counts
    assert store.find(key(1)) is entry
    assert store.find(key(2)) is None


def test_a_mark_is_never_stale() -> None:
    assert Entry(None, 30, 0.0).is_usable(29.0, 60)
    assert not Entry(None, 30, 0.0).is_usable(30.0, 60)


def test_hits_count_without_long_gaps_and_go_on_in_the_next_entry() -> None:
    entry, following = Entry(reply([A]), 30, 0.0), Entry(reply([A]), 30, 0.0)
    assert [entry.hit(now, 10.0) for now in (0, 9, 19, 29.5, 30)] == [1, 2, 3, 1, 2]
    following.take_hits(entry, 35.0)
    assert [following.hit(now, 10.0) for now in (44, 60)] == [3, 1]


def test_one_refresh_at_a_time() -> None:
    entry = Entry(reply([A]), 30, 0.0)
    assert [entry.begin_refresh(0.0), entry.begin_refresh(0.0)] == [True, False]
    entry.end_refresh(1.0, 0.0, refreshed=False)
    assert entry.begin_refresh(1.0)


@pytest.mark.parametrize(
    ("refreshed", "now", "recheck", "begins"),
    [
        pytest.param(False, 10.9, 10.0, False, id="soon-after-failure"),
        pytest.param(False, 11.0, 10.0, True, id="later"),
        pytest.param(False, 2.0, 0.0, True, id="nothing-to-wait-for"),
        pytest.param(True, 1.0, 10.0, True, id="after-success"),
    ],
)
def test_a_failed_refresh_is_not_repeated_at_once(
    refreshed: bool, now: float, recheck: float, begins: bool
) -> None:
    entry = Entry(reply([A]), 30, 0.0)
    assert entry.begin_refresh(0.0, 10.0)
    entry.end_refresh(1.0, 10.0, refreshed=refreshed)
    assert entry.begin_refresh(now, recheck) == begins
