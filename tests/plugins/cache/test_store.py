"""What the cache stores, for how long and how much, and its refreshes."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.freshness import COUNT
from hsdns.plugins.cache import LentEntries, wait_for
from hsdns.plugins.cache.store import BIG, OCTETS_PER_ENTRY, SMALL, Entry, Key, Store
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

A = "www.example.org. 30 IN A 192.0.2.1"


def key(number: int) -> Key:
    return (b"\4%04d\0" % number, 1, 1, False, False)


def test_eviction_draws_any_entry() -> None:
    store = Store(0, Random(5))
    for number in range(1024 + 512):
        store.store(key(number), Entry(None, 30, 0.0))
    left = {number for number in range(1024) if store.lookup(key(number), 0.0)}
    assert len(left) < 1024 - 256
    assert any(number < 512 for number in left)
    assert any(number >= 512 for number in left)


ROOM = 1024  # entries in the smallest store
MOST = ROOM * OCTETS_PER_ENTRY


def text(octets: int) -> Reply:
    """A reply with about so many octets of RDATA."""
    return Reply(answer=(RR(Name(b"\1a\0"), RRType.TXT, 30, bytes(octets)),))


def addresses(count: int) -> Reply:
    owner = Name.from_text("www.example.org")
    return Reply(
        answer=tuple(RR(owner, RRType.A, 30, bytes((10, 0, *divmod(n, 256)))) for n in range(count))
    )


def test_big_replies_evict_the_oldest_of_their_own_size_only() -> None:
    store = Store(0, Random(1))
    for number in range(500):
        store.store(key(number), Entry(addresses(1), 30, 0.0))
    evicted = [
        number
        for number in range(500, 900)
        if store.store(key(number), Entry(text(60_000), 30, 0.0))
    ]
    assert store.octets <= MOST
    fits = evicted[0] - 500
    assert 40 <= fits <= 60
    assert len(store) == 500 + fits
    assert all(store.find(key(number)) for number in range(500))
    assert [number for number in range(500, 900) if store.find(key(number))] == [
        *range(900 - fits, 900)
    ]


def test_the_biggest_are_evicted_first() -> None:
    store, sizes = Store(0, Random(1)), [60_000, 9_000, 4_200, 3_000]
    for number, size in enumerate(sizes):
        store.store(key(number), Entry(text(size), 30, 0.0))
    evicted = []
    for number in range(4, 900):
        known = {each for each in range(4) if store.find(key(each))}
        store.store(key(number), Entry(text(BIG + 300), 30, 0.0))
        evicted += sorted(known - {each for each in range(4) if store.find(key(each))})
    # The third is as big as the flood, and older; the last one is not big.
    assert evicted == [0, 1, 2]
    assert store.find(key(3)) is not None


def test_many_entries_that_are_not_big_are_evicted_at_random() -> None:
    store = Store(0, Random(1))
    count = sum(
        store.store(key(number), Entry(text(BIG - 1000), 30, 0.0)) for number in range(ROOM)
    )
    assert count > 0
    assert len(store) == ROOM - count
    assert store.octets <= MOST


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([None, 0, 100, 5_000, 60_000, 200_000])),
        max_size=120,
    ),
    st.integers(),
)
def test_octets_are_the_sum_of_the_entries_and_bounded(
    steps: list[tuple[int, int | None]], seed: int
) -> None:
    store = Store(0, Random(seed))
    for number, size in steps:
        if size is None:
            store.remove(key(number))
        else:
            store.store(key(number), Entry(text(size), 30, 0.0))
        left = [entry for each in range(61) if (entry := store.find(key(each))) is not None]
        assert len(left) == len(store)
        assert store.octets == sum(entry.octets + len(key(0)[0]) for entry in left) <= MOST


def test_the_answer_that_a_denial_has_replaced_counts_too() -> None:
    entry = Entry(text(10), 30, 0.0)
    before = entry.octets
    entry.last_good = Entry(text(10_000), 30, 0.0)
    assert entry.octets > before + 10_000


@pytest.mark.parametrize("count", [1, 3, 8, 30, 200, 4000])
@pytest.mark.parametrize("asked", [False, True])
def test_octets_are_those_of_memory(count: int, asked: bool) -> None:
    """Not less than 90 % of what is allocated, which includes the room of dicts; not more than 3 times as much."""
    number = 10 if count == 4000 else 200
    store = Store(0, Random(1))
    store.store((b"", 1, 1, False, False), Entry(addresses(1), 30, 0.5))
    before = store.octets
    gc.collect()
    tracemalloc.start()
    try:
        for each in range(number):
            entry = Entry(addresses(count), 30, each + 0.5)
            store.store((b"\10%08d\7example\0" % each, 1, 1, False, False), entry)
            if asked:
                entry.show(20)
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    counted = store.octets - before
    assert 0.9 * allocated < counted < 3 * allocated


def test_only_small_replies_are_stored_unpacked_too() -> None:
    small, big = Entry(addresses(3), 30, 0.0), Entry(addresses(SMALL), 30, 0.0)
    assert small.show(7) is small.show(7)
    assert big.show(7) is not big.show(7)
    assert big.show(7) == big.show(7)


def test_replies_that_differ_in_their_records_only_share_a_frame() -> None:
    first, second = Entry(addresses(1), 30, 0.0), Entry(addresses(2), 30, 0.0)
    assert first.frame is second.frame
    held = Entry(addresses(1).held(lambda: False), 30, 0.0)
    assert (held.is_outdated, first.is_outdated) == (True, False)


def test_storing_a_known_key_evicts_nothing() -> None:
    store = Store(0, Random(1))
    for number in range(1024):
        store.store(key(number), Entry(None, 30, 0.0))
    second = Entry(None, 60, 10.0)
    assert not store.store(key(17), second)
    assert store.lookup(key(17), 65.0) is second


@pytest.mark.parametrize("counter", [0, 5, COUNT - 1])
def test_an_entry_is_lent_until_it_expires_or_is_returned(counter: int) -> None:
    lent = LentEntries()
    assert not lent.take(counter, 0.0)
    lent.add(counter, 10.0)
    assert lent.take(counter, 9.5)
    assert not lent.take(counter, 9.5)
    lent.add(counter, 10.0)
    assert not lent.take(counter, 10.0)


def test_of_two_entries_with_one_counter_the_later_end_counts() -> None:
    lent = LentEntries()
    for expires in (10.0, 30.0, 20.0):
        lent.add(3, expires)
    assert lent.take(3, 25.0)
    assert not lent.take(4, 0.0)


tasks: list[asyncio.Task[Any]] = []


def spawn(coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
    tasks.append(asyncio.create_task(coro, name=name))
    return tasks[-1]


async def test_what_is_cancelled_tells_nothing() -> None:
    waiting = asyncio.create_task(wait_for(asyncio.Event().wait(), 5.0, spawn, "check"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks[-1].cancel()
    assert await waiting is None


async def test_an_error_is_the_task_s() -> None:
    async def fails() -> str | None:
        raise ValueError("odd")

    assert await wait_for(fails(), 5.0, spawn, "check") is None
    with pytest.raises(ValueError, match="odd"):
        await tasks[-1]
