from __future__ import annotations

from random import Random

import pytest

from hsdns.plugins.cache_store import Entry, Key, Store
from hsdns.wire.iana import Rcode
from tests.support.requests import reply, section

A = "www.example.org. 30 IN A 192.0.2.1"


def key(number: int) -> Key:
    return (b"\4%04d\0" % number, 1, 1, False, False)


@pytest.mark.parametrize(
    ("capacity", "room"),
    [(0, 1024), (1000, 1024), (1024, 1024), (1279, 1024), (1280, 1280), (9984, 9984)],
)
def test_room(capacity: int, room: int) -> None:
    store, entry = Store(capacity, Random(1)), Entry(None, 30, 0.0)
    assert not any(store.remember(key(number), entry) for number in range(room))
    assert len(store) == room
    assert store.remember(key(room), entry)
    assert len(store) == room
    assert store.lookup(key(room), 0.0) is entry


def test_eviction_draws_any_entry() -> None:
    store = Store(0, Random(5))
    for number in range(1024 + 512):
        store.remember(key(number), Entry(None, 30, 0.0))
    left = {number for number in range(1024) if store.lookup(key(number), 0.0)}
    assert len(left) < 1024 - 256
    assert any(number < 512 for number in left)
    assert any(number >= 512 for number in left)


def test_storing_a_known_key_evicts_nothing() -> None:
    store = Store(0, Random(1))
    for number in range(1024):
        store.remember(key(number), Entry(None, 30, 0.0))
    second = Entry(None, 60, 10.0)
    assert not store.remember(key(17), second)
    assert store.lookup(key(17), 65.0) is second


def test_forget() -> None:
    store = Store(0, Random(1))
    for number in range(3):
        store.remember(key(number), Entry(None, 30, 0.0))
    store.forget(key(0))
    store.forget(key(0))
    assert [bool(store.lookup(key(number), 0.0)) for number in range(3)] == [False, True, True]
    store.forget(key(2))
    store.forget(key(1))
    assert len(store) == 0


@pytest.mark.parametrize(
    ("now", "ttl"), [(100.0, 30), (100.9, 30), (101.0, 29), (129.9, 1), (130.0, 0), (200.0, -70)]
)
def test_age(now: float, ttl: int) -> None:
    store, entry = Store(0, Random(1)), Entry(reply([A], [A], [A], rcode=Rcode.NXDOMAIN), 30, 100.0)
    store.remember(key(1), entry)
    assert entry.ttl(now) == ttl
    assert (store.lookup(key(1), now) is entry) == (ttl > 0)
    assert len(store) == 1
    shown = entry.show(now)
    assert shown is not None
    expected = [f"www.example.org. {ttl} IN A 192.0.2.1"]
    assert [section(part) for part in (shown.answer, shown.authority, shown.additional)] == [
        expected
    ] * 3
    assert shown.rcode == Rcode.NXDOMAIN
    assert entry.show(now) is shown


def test_a_mark_shows_nothing() -> None:
    assert Entry(None, 30, 0.0).show(1.0) is None
