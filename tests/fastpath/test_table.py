"""Entries: when they are hits, how they rotate, what they count as, and how much memory they may use.

What the table has for a query: the hit that would come next, found without a trace.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest

from hsdns.fastpath._python import Peeked
from hsdns.metrics import SIZE_BUCKETS, TIME_BUCKETS
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply, nodata
from hsdns.wire.name import Name
from tests.fastpath.twins import CAPACITY, V6, WEB, TableUnderTest, addresses, ask, soa, to_wire

# What a hot name is asked for.
OFTEN = 5


def test_an_entry_is_a_hit_only_while_its_counters_are_unchanged(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    dependencies = [(1, 0), (65535, 0)]
    for round_number in range(3):
        assert under_test.store(query, addresses(query), dependencies=dependencies)
        for _ in range(OFTEN):
            assert under_test.lookup(query) == to_wire(query, addresses(query))
        under_test.versions.bump(7)
        assert under_test.lookup(query) is not None, "a counter that it does not depend on"
        under_test.versions.bump(dependencies[round_number % 2][0])
        for _ in range(2):
            assert under_test.lookup(query) is None
        dependencies = [(index, under_test.versions.read(index)) for index, _ in dependencies]
    statistics = under_test.table.statistics()
    assert (statistics.hits, statistics.misses) == (3 * (OFTEN + 1), 6)
    assert statistics.stale > 0
    assert (statistics.stored, statistics.refused) == (3, 0)


def test_a_reply_computed_before_an_event_is_not_stored_after_it(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    dependencies = [(4, under_test.versions.read(4))]
    reply = addresses(query)
    under_test.versions.bump(4)
    assert not under_test.store(query, reply, dependencies=dependencies)
    assert under_test.lookup(query) is None
    assert under_test.table.statistics().refused == 1


def test_the_reply_to_an_event_is_a_hit_from_its_end_on(twin: ModuleType) -> None:
    """The compiled entries before stay valid until then; in Python, they are stale at once."""
    under_test, queries = TableUnderTest(twin), [ask(), ask("a.b."), ask("c.b.")]
    for each in queries:
        assert under_test.store(each, addresses(each), dependencies=[(4, 0)])
    is_compiled = twin.__name__.endswith("_native")
    under_test.versions.hold()
    under_test.versions.bump(4)
    if is_compiled:  # there the thread of the event recomputes its replies
        assert under_test.store(queries[0], addresses(queries[0], 2), dependencies=[(4, 1)])
    for each in queries:
        old = to_wire(each, addresses(each)) if is_compiled else None
        assert under_test.lookup(each) == old
    with ThreadPoolExecutor(1) as other:
        for dependencies in ([(4, 0)], [(4, 1)], [(5, 0)], []):  # whatever it has read
            reply = addresses(queries[1], 3)
            assert not other.submit(
                under_test.store, queries[1], reply, dependencies=dependencies
            ).result()
        under_test.versions.release()
        found = [under_test.lookup(each) for each in queries]
        new = to_wire(queries[0], addresses(queries[0], 2)) if is_compiled else None
        assert found == [new, None, None]
        reply = addresses(queries[1], 3)
        assert other.submit(under_test.store, queries[1], reply, dependencies=[(4, 1)]).result()
    assert under_test.lookup(queries[1]) == to_wire(queries[1], addresses(queries[1], 3))


def test_a_miss_over_udp_is_looked_up_again(twin: ModuleType) -> None:
    """It was counted before it waited; as a hit it is one over UDP, logged and cut to what the client takes."""
    under_test, query, other = TableUnderTest(twin), ask(), ask("a.b.")
    assert under_test.store(query, addresses(query, 60), group=3, log=True)
    under_test.store(other, addresses(other), dependencies=[(3, 0)])
    under_test.versions.bump(3)
    for missing in (other, ask("b.c."), query[:2] + b"\x29\x00" + query[4:], b""):
        assert under_test.lookup(missing, None) is None
    statistics = under_test.table.statistics()
    assert (statistics.misses, statistics.stale, statistics.not_plain) == (0, 0, 0)
    for _ in range(OFTEN):
        reply = under_test.lookup(query, None, v6=True)
        assert reply == to_wire(query, addresses(query, 60), 512)
    assert [is_tcp for _, is_tcp in under_test.cells()] == [False]
    assert under_test.table.statistics().hits == OFTEN
    records = under_test.table.take_log(9)
    assert [(each.query, each.address, each.is_tcp) for each in records] == [
        (query, V6, False)
    ] * OFTEN


# --- rotation ---


@pytest.mark.parametrize("rrtype", [RRType.A, RRType.AAAA])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_addresses_rotate(twin: ModuleType, rrtype: int, count: int) -> None:
    under_test = TableUnderTest(twin)
    query = ask(qtype=rrtype)
    reply = addresses(query, count, rrtype).replace(authority=(soa(0),))
    assert under_test.store(query, reply, rotate=True)
    for step in range(3 * count):
        at = step % count
        expected = reply.replace(answer=reply.answer[at:] + reply.answer[:at])
        # Another ID and limit each time, as from other clients.
        asked = ask(qtype=rrtype, query_id=step)
        limit = (512, 65535, 100)[step % 3]
        assert under_test.lookup(asked, limit) == to_wire(asked, expected, limit)


def test_addresses_behind_aliases_rotate(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask(edns=Edns(1232, options=((10, b"12345678"),)))
    aliases = (
        ALIAS,
        ALIAS._replace(owner=Name.from_text("x.org."), rdata=Name.from_text("y.org.").wire),
    )
    found = addresses(ask("y.org."), 3).answer
    assert under_test.store(query, Reply(answer=aliases + found, authority=(soa(0),)), rotate=True)
    for step in range(3 * OFTEN):
        at = step % 3
        expected = Reply(answer=aliases + found[at:] + found[:at], authority=(soa(0),))
        asked = ask(query_id=step, edns=Edns(1232, options=((10, b"%8d" % step),)))
        limit = (512, 65535, 120)[step % 3]
        assert under_test.lookup(asked, limit) == to_wire(asked, expected, limit)


def test_rotation_goes_on_when_a_reply_is_stored_again(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    reply = addresses(query, 2)
    found = []
    for _ in range(4):
        assert under_test.store(query, reply, rotate=True)
        found.append(under_test.lookup(query))
    assert found[0] != found[1]
    assert found[:2] == found[2:]


ALIAS = RR(Name.from_text(WEB), RRType.CNAME, 5, Name.from_text("x.org.").wire)
FIXED = {
    "not asked for": (addresses(ask(), 3), False),
    "an alias behind the addresses": (Reply(answer=(*addresses(ask(), 2).answer, ALIAS)), True),
    "two types": (Reply(answer=addresses(ask(), 2).answer + addresses(ask(), 2, 28).answer), True),
    "another type": (Reply(answer=(RR(Name.from_text(WEB), 16, 5, b"\1a"),) * 2), True),
    "owners that are not in the question": (addresses(ask("other.org."), 2), True),
    "no answer": (nodata(soa(0)), True),
}


@pytest.mark.parametrize(("reply", "rotate"), FIXED.values(), ids=FIXED)
def test_answers_that_do_not_rotate(twin: ModuleType, reply: Reply, rotate: bool) -> None:
    under_test, query = TableUnderTest(twin), ask()
    assert under_test.store(query, reply, rotate=rotate)
    for _ in range(OFTEN):
        assert under_test.lookup(query) == to_wire(query, reply)


# --- what is counted ---


def bucket(bounds: tuple[float, ...], value: float) -> int:
    return sum(value > bound for bound in bounds)


@pytest.mark.parametrize("size", [0, 1, 100, 101, 511, 512, 4095, 64000, 64001, 1 << 20])
@pytest.mark.parametrize(
    "edns", [None, Edns(1232), Edns(1232, do=True, options=((12, bytes(300)),))]
)
def test_cells(twin: ModuleType, size: int, edns: Edns | None) -> None:
    under_test, query = TableUnderTest(twin), ask(edns=edns)
    assert under_test.store(query, addresses(query), group=9, size=size)
    for v6 in (False, False, False, True):
        assert under_test.lookup(query, v6=v6) is not None
    [((group, is_tcp), cells)] = under_test.cells().items()
    assert (group, is_tcp, len(cells)) == (9, True, 55)
    assert cells[0:2] == [3, 1]
    assert cells[2] == (4 if edns is not None and edns.do else 0)
    assert cells[3:18] == [4 * (at == bucket(SIZE_BUCKETS, len(query))) for at in range(15)]
    assert cells[18] == 4 * len(query)
    assert cells[19:34] == [4 * (at == bucket(SIZE_BUCKETS, size)) for at in range(15)]
    assert cells[34] == 4 * size
    assert len(cells[35:52]) == len(TIME_BUCKETS) + 1
    assert sum(cells[35:52]) == 4
    assert cells[52] > 0
    assert cells[53:55] == [0, 0]
    assert under_test.cells() == {}, "what was drained is gone"


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_numbers_have_32_bits(twin: ModuleType, number: int) -> None:
    under_test, query = TableUnderTest(twin), ask()
    for wrong in ({"group": number}, {"size": number}):
        with pytest.raises(OverflowError):
            under_test.store(query, addresses(query), **wrong)


@pytest.mark.parametrize(
    ("size", "error"),
    [
        (-1, OverflowError),
        (511, ValueError),
        (65508, ValueError),
        (65534, ValueError),
        (65536, OverflowError),
    ],
)
def test_refused_payload_sizes(twin: ModuleType, size: int, error: type[Exception]) -> None:
    under_test, query = TableUnderTest(twin), ask()
    with pytest.raises(error):
        under_test.store(query, addresses(query), max_payload=size)
    with pytest.raises(error):
        under_test.add_negative_zone(max_payload=size)
    for taken in (512, 65507, 65535):
        assert under_test.store(query, addresses(query), max_payload=taken)


def outcomes(under_test: TableUnderTest) -> list[int]:
    rows = list(under_test.cells().values())
    return [sum(cells[at] for cells in rows) for at in (53, 54)]


def test_a_mark_ends_and_is_set_again(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    assert under_test.store(query, addresses(query), mark_ttl=30)
    now = time.monotonic()
    for seconds, expected in (
        (0, [1, 0]), (20, [1, 0]), (28, [1, 0]),
        (40, [0, 1]), (41, [1, 0]), (69, [1, 0]), (71, [0, 1]), (71, [1, 0]), (200, [0, 1]), (200, [1, 0]),
    ):  # fmt: skip
        assert under_test.lookup(query, now=now + seconds) == to_wire(query, addresses(query))
        assert outcomes(under_test) == expected, seconds


def test_a_mark_passes_to_the_next_entry(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    assert under_test.store(query, addresses(query), mark_ttl=30, dependencies=[(1, 0)])
    now = time.monotonic()
    under_test.versions.bump(1)
    assert under_test.lookup(query, now=now) is None
    assert under_test.store(query, addresses(query, 2), mark_ttl=300)
    for seconds, expected in ((28, [1, 0]), (32, [0, 1]), (300, [1, 0]), (400, [0, 1])):
        assert under_test.lookup(query, now=now + seconds) is not None
        assert outcomes(under_test) == expected, seconds


def test_a_reply_that_nobody_has_asked_for_is_not_marked(twin: ModuleType) -> None:
    """It keeps the mark of the one before, also one that has ended."""
    under_test, query = TableUnderTest(twin), ask()
    now = time.monotonic()
    for seconds, expected in ((0, [0, 1]), (29, [1, 0]), (31, [0, 1]), (32, [1, 0])):
        assert under_test.store(query, addresses(query), mark_ttl=30, renewed=True)
        assert under_test.lookup(query, now=now + seconds) == to_wire(query, addresses(query))
        assert outcomes(under_test) == expected, seconds


def test_uses_are_seen_however_many_there_were(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    assert under_test.table.uses(query) is None
    assert under_test.table.uses(b"no query") is None
    assert under_test.store(query, addresses(query), dependencies=[(1, 0)])
    assert under_test.table.uses(query) == 0
    for event in range(1, 4):
        for _ in range(OFTEN):
            assert under_test.lookup(query) is not None
        under_test.versions.bump(1)
        assert under_test.table.uses(query) == 3, "of one that is stale, too"
        assert under_test.store(query, addresses(query), dependencies=[(1, event)], renewed=True)
        assert under_test.table.uses(query) == 2


# --- memory ---


def test_memory_is_bounded(twin: ModuleType) -> None:
    capacity = 100_000
    under_test = TableUnderTest(twin, capacity)
    for number in range(3000):
        query = ask(f"n{number}.org.")
        assert under_test.store(query, addresses(query, number % 20), dependencies=[(1, 0)])
        for _ in range(number % 4):
            assert under_test.lookup(query) is not None
        assert under_test.table.statistics().octets <= capacity
    statistics = under_test.table.statistics()
    assert statistics.entries + statistics.evicted == statistics.stored == 3000
    assert statistics.entries > 20
    under_test.table.clear()
    statistics = under_test.table.statistics()
    assert (statistics.entries, statistics.octets, statistics.stored) == (0, 0, 3000)
    octets = []
    for _ in range(2):
        assert under_test.store(ask(), addresses(ask()))
        assert under_test.lookup(ask()) is not None
        octets.append(under_test.table.statistics().octets)
    assert octets[0] == octets[1] > 0, "stored again"


def test_the_capacity_changes_with_the_next_reply(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin, 200_000)

    def fill(zone: str, count: int) -> int:
        for number in range(count):
            query = ask(f"n{number}.{zone}.")
            assert under_test.store(query, addresses(query, 3))
        octets = under_test.table.statistics().octets
        assert isinstance(octets, int)
        return octets

    assert 150_000 < fill("a", 1000) <= 200_000
    under_test.table.set_capacity(50_000)
    assert 30_000 < fill("b", 1) <= 50_000
    assert 30_000 < fill("c", 1000) <= 50_000
    under_test.table.set_capacity(200_000)
    assert 150_000 < fill("d", 1000) <= 200_000


def test_a_reply_larger_than_the_table_is_refused(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin, 1000), ask()
    assert not under_test.store(query, addresses(query, 500))
    small = TableUnderTest(twin, 0)
    assert not small.store(query, addresses(query))
    assert small.table.statistics().entries == 0


@pytest.mark.parametrize("timed", [False, True], ids=["not timed", "timed"])
@pytest.mark.parametrize("count", [1, 30])
def test_counted_octets_are_those_that_python_allocates(count: int, timed: bool) -> None:
    """The estimate of the Python twin covers what the interpreter really allocates."""
    from hsdns.fastpath import _python  # noqa: PLC0415 - imported before memory is traced

    under_test = TableUnderTest(_python, 1 << 26)
    number = 1000
    queries = [
        ask(f"name-{each}.default.svc.cluster.local.", edns=Edns(1232)) for each in range(number)
    ]
    replies = [to_wire(query, addresses(query, count)) for query in queries]
    gc.collect()  # what is freed while memory is traced would be missing in it
    tracemalloc.start()
    try:
        for index, (query, reply) in enumerate(zip(queries, replies, strict=True)):
            under_test.store(
                query,
                reply,
                dependencies=[(index + 300, 0), (index + 3000, 0)],
                rotate=True,
                timed=(index / 7, 1000, index / 7 + 1000) if timed else None,
            )
        stored = tracemalloc.get_traced_memory()[0], under_test.table.statistics().octets
        for now in (150.0, 150.5, 152.0):
            for query in queries:
                assert under_test.lookup(query, now=now) is not None
        asked = tracemalloc.get_traced_memory()[0], under_test.table.statistics().octets
    finally:
        tracemalloc.stop()
    for traced, counted in (stored, asked):
        assert 0.5 * counted < traced < 1.1 * counted, (stored, asked)


def test_a_flood_of_once_asked_names_keeps_the_hot_ones(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin, 400_000)
    hot = [ask(f"hot{number}.org.") for number in range(50)]
    for query in hot:
        under_test.store(query, addresses(query))
    lost = 0
    for number in range(20_000):
        if number % 4 == 0:  # one in five is for a hot name
            query = hot[number // 4 % len(hot)]
            if under_test.lookup(query) is None:
                lost += 1
                under_test.store(query, addresses(query))
        query = ask(f"once{number}.org.")
        under_test.store(query, addresses(query))
    assert under_test.table.statistics().evicted > 15_000
    assert lost < 50, "each hot name may be lost once, while it was not used yet"


ERRORS = b"\0\x0f\0\6\0\0none\0\x0f\0\2\0\x13"
COOKIE = (10, b"12345678")


@pytest.mark.parametrize("count", [0, 1, 20, 80])
def test_errors_are_sent_as_encode_does(twin: ModuleType, count: int) -> None:
    """Each form of query, each limit near the length of the reply."""
    under_test = TableUnderTest(twin)
    forms = [None, Edns(512), Edns(1232), Edns(1232, do=True), Edns(4096, options=(COOKIE,)), Edns(1232, options=((3, b""), (8, b"x"), COOKIE))]  # fmt: skip
    for edns in forms:
        query = ask(edns=edns)
        reply = addresses(query, count).replace(extended_errors=ERRORS)
        length = len(to_wire(query, reply))
        limits = {512, *range(length - len(ERRORS) - 30, length + 2)}
        for asked in (query, ask(WEB.upper(), edns=edns)):
            for _ in range(3):
                assert under_test.store(query, reply, errors=ERRORS)
                for limit in sorted(each for each in limits if each >= 100):
                    expected = to_wire(asked, reply, limit)
                    assert under_test.lookup(asked, limit) == expected, limit


def test_too_many_errors_are_refused(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin)
    query = ask(edns=Edns(1232))
    assert under_test.store(query, addresses(query), errors=bytes(1024))
    assert not under_test.store(query, addresses(query), errors=bytes(1025))


ENTRY, DENIAL = Peeked(False, None, None), Peeked(True, None, None)


def peek(under_test: TableUnderTest, query: bytes, now: float = 0.0) -> Peeked | None:
    found: Peeked | None = under_test.table.peek(query, now=now)
    return found


def test_what_needs_the_lease(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin)
    free, bound = ask("a.b."), ask("c.d.")
    under_test.store(free, addresses(free))
    under_test.store(bound, addresses(bound), dependencies=[(3, 0)])
    under_test.add_negative_zone()
    under_test.set_template()
    missing = ask("nope.cluster.local.")
    under_test.versions.renew_lease(100.0)
    assert [peek(under_test, each, 99.0) for each in (free, bound, missing)] == [ENTRY, ENTRY, DENIAL]  # fmt: skip
    assert [peek(under_test, each, 101.0) for each in (free, bound, missing)] == [ENTRY, None, None]


def test_a_reply_of_cache_until_it_expires(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    began = time.monotonic()
    under_test.store(query, addresses(query), timed=(began, 30, began + 30))
    found = peek(under_test, query, began + 12)
    assert found is not None
    assert not found.is_denial
    assert (found.stored, found.expires) == pytest.approx((began, began + 30), abs=1e-6)
    assert peek(under_test, query, began + 30.5) is None


def test_nothing_is_counted_or_turned(twin: ModuleType) -> None:
    looked_at, plain = TableUnderTest(twin), TableUnderTest(twin)
    query = ask()
    for under_test in (looked_at, plain):
        under_test.store(query, addresses(query, 3), rotate=True, mark_ttl=30, log=True)
    for _ in range(5):
        assert peek(looked_at, query) == ENTRY
        assert peek(looked_at, ask("a.b.")) is None
        assert looked_at.lookup(query) == plain.lookup(query)
    assert looked_at.table.statistics() == plain.table.statistics()
    assert len(looked_at.table.take_log(9)) == 5


def test_an_entry_that_is_only_looked_at_is_evicted_first(twin: ModuleType) -> None:
    """Asked for twice it would stay when the queue of new entries is emptied."""
    under_test, query = TableUnderTest(twin, CAPACITY >> 6), ask()
    under_test.store(query, addresses(query))
    for number in range(2000):
        assert peek(under_test, query, 0.0) in (ENTRY, None)
        other = ask(f"a{number}.b.")
        under_test.store(other, Reply(answer=addresses(other).answer))
    assert peek(under_test, query) is None
