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
from hsdns.metrics import Registry
from hsdns.plugins.cache import LentEntries
from hsdns.plugins.cache.refresh import wait_for
from hsdns.plugins.cache.store import BIG, OCTETS_PER_ENTRY, SMALL, Counts, Entry, Key, Store, judge
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Outcome, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request, reply, section

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


def test_errors_of_the_reply_that_was_stored_are_not_shown_again() -> None:
    shown = Entry(addresses(1).replace(extended_errors=b"\0\x0f\0\2\0\0"), 30, 0.0).show(30)
    assert shown is not None
    assert shown.extended_errors == b""


def test_the_metrics_of_coredns_are_there() -> None:
    registry = Registry()
    Counts(registry, ".")
    assert {metric.name for metric in registry} - {"hsdns_cache_bytes"} == {
        f"coredns_cache_{name}"
        for name in (
            *("requests_total", "misses_total", "hits_total", "evictions_total", "entries"),
            *("prefetch_total", "served_stale_total", "drops_total"),
        )
    }


A_RECORD = "www.example.org. 60 IN A 192.0.2.1"
SOA = "example.org. 30 IN SOA ns.example.org. host.example.org. 1 7200 1800 86400 60"
CNAME = "www.example.org. 60 IN CNAME a.example.org."
NS = "example.org. 60 IN NS ns.example.org."


@pytest.mark.parametrize(
    ("found", "kind", "is_storable", "is_positive", "is_denial", "replaces_stale"),
    [
        pytest.param(reply([A_RECORD]), Outcome.POSITIVE, True, True, False, True, id="answer"),
        pytest.param(reply([A_RECORD], tc=True), Outcome.POSITIVE, False, False, False, False, id="cut"),
        pytest.param(reply(), Outcome.POSITIVE, True, False, False, True, id="empty"),
        pytest.param(reply([], [SOA]), Outcome.NODATA, True, False, True, True, id="nodata"),
        pytest.param(reply([CNAME]), Outcome.POSITIVE, False, False, False, True, id="chain"),
        pytest.param(reply([CNAME], [SOA]), Outcome.NODATA, True, False, True, True, id="chain-soa"),
        pytest.param(reply([], [NS]), Outcome.DELEGATION, True, False, False, True, id="referral"),
        pytest.param(reply([], [SOA], rcode=3), Outcome.NXDOMAIN, True, False, True, True, id="nxdomain"),
        pytest.param(reply(rcode=3), Outcome.NXDOMAIN, False, False, True, True, id="without-soa"),
        pytest.param(reply([A_RECORD], rcode=3), Outcome.OTHER_ERROR, False, False, False, False, id="odd"),
        pytest.param(reply(rcode=2), Outcome.SERVER_ERROR, True, False, True, False, id="servfail"),
        pytest.param(reply(rcode=4), Outcome.SERVER_ERROR, True, False, True, False, id="notimp"),
        pytest.param(reply(rcode=5), Outcome.OTHER_ERROR, False, False, False, False, id="refused"),
        pytest.param(unwritten(Rcode.SERVFAIL), Outcome.SERVER_ERROR, True, False, True, False, id="unwritten"),
        pytest.param(Reply(dropped=True), Outcome.POSITIVE, True, False, False, False, id="dropped"),
    ],
)  # fmt: skip
def test_judge(
    found: Reply,
    kind: Outcome,
    is_storable: bool,
    is_positive: bool,
    is_denial: bool,
    replaces_stale: bool,
) -> None:
    judgement = judge(make_request("www.example.org.").query, found, lambda: 0.0)
    assert (judgement.kind, judgement.is_storable, judgement.is_positive) == (
        kind,
        is_storable,
        is_positive,
    )
    assert judgement.is_denial == is_denial
    assert judgement.replaces_stale(found) == replaces_stale


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


async def found() -> str | None:
    await asyncio.sleep(0)
    return "found"


def test_in_time() -> None:
    assert asyncio.run(wait_for(found(), 5.0, spawn, "check")) == "found"


def test_too_late_it_goes_on() -> None:
    async def run() -> None:
        go_on, seen = asyncio.Event(), list[str]()

        async def later() -> str | None:
            await go_on.wait()
            seen.append("done")
            return "found"

        assert await wait_for(later(), 0.001, spawn, "check") is None
        assert seen == []
        go_on.set()
        await tasks[-1]
        assert seen == ["done"]

    asyncio.run(run())


def test_what_is_cancelled_tells_nothing() -> None:
    async def run() -> None:
        waiting = asyncio.create_task(wait_for(asyncio.Event().wait(), 5.0, spawn, "check"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[-1].cancel()
        assert await waiting is None

    asyncio.run(run())


def test_an_error_is_the_task_s() -> None:
    async def fails() -> str | None:
        raise ValueError("odd")

    async def run() -> None:
        assert await wait_for(fails(), 5.0, spawn, "check") is None
        with pytest.raises(ValueError, match="odd"):
            await tasks[-1]

    asyncio.run(run())
