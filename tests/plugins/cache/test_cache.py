"""What the dialogues of cache cannot say: its stores, the state of the cluster, the answer table, time limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hsdns.chain import Earlier, Next, Request
from hsdns.cluster.freshness import Dependencies
from hsdns.fastpath import Versions
from hsdns.plugins.cache import Cache
from hsdns.wire.encode import MANY_RECORDS
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.eager import finish, turns
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

QNAME = "www.example.org."
SOA = "example.org. 60 IN SOA ns.example.org. host.example.org. 1 7200 1800 86400 60"
FRESH = reply([f"{QNAME} 20 IN A 192.0.2.1"], fresh=True)
FRESH_NXDOMAIN = reply(rcode=3, authority=[SOA], fresh=True)


def a(ttl: int = 60, last: int = 1) -> str:
    return f"{QNAME} {ttl} IN A 192.0.2.{last}"


class Started:
    """A cache that has started, what is below it, and its clock."""

    def __init__(self, text: str, *replies: Reply, below: Next | None = None) -> None:
        self.cache, self.runtime = set_up(Cache, text), FakeRuntime()
        self.runtime.time = 1000.0
        finish(self.cache.start(self.runtime))
        self.answers = next_with(*replies)
        self.below = below or self.answers

    def ask(self, qname: str = QNAME, **fields: object) -> Reply:
        request = make_request(qname, now=self.runtime.time).replace(**fields)
        return finish(self.cache.handle(request, self.below))

    def shown(self, **fields: object) -> list[str]:
        return section(self.ask(**fields).answer)  # type: ignore[arg-type]

    def look(self) -> tuple[Reply, str]:
        return finish(self.cache.look(make_request(QNAME, now=self.runtime.time), self.below))

    def metrics(self, *names: str) -> list[str]:
        lines = self.runtime.metrics.to_text().decode().splitlines()
        return [
            line
            for line in lines
            if line.startswith(tuple(f"coredns_cache_{name}" for name in names))
        ]


def test_evictions() -> None:
    started = Started("cache {\nsuccess 0\n}", reply((), (), [a()]))
    for number in range(1026):
        started.ask(f"n{number}.example.org.")
    labels = '{server="dns://:53",type="success",view="",zones="."}'
    assert started.metrics("evictions_total", 'entries{server="dns://:53",type="success"') == [
        f"coredns_cache_evictions_total{labels} 2.0",
        f"coredns_cache_entries{labels} 1024.0",
    ]


@pytest.mark.parametrize(("is_news", "last"), [(True, 2), (False, 1)])
def test_a_copy_is_not_used_before_a_late_watch_has_caught_up(is_news: bool, last: int) -> None:
    """Only one that depends on the cluster waits for it."""
    known, waits = list[bool](), list[float]()
    passed_on = reply([a(300)]).replace(still_holds=lambda: not known)
    started = Started("cache", passed_on, reply([a(300, last=2)]))

    async def catch_up() -> None:
        known[:] = [True] * is_news

    def late(now: float) -> Awaitable[None]:
        waits.append(now)
        return catch_up()

    started.runtime.late = late
    started.ask()
    assert waits == []
    assert [started.shown(), started.shown()] == [[a(300, last)]] * 2
    assert waits == [1000.0] * (1 if is_news else 2)


def test_a_copy_that_depends_on_the_newest_state_is_not_for_an_earlier_one() -> None:
    """It is neither used nor made; one that does not depend on the cluster is as for others."""
    held, other = (reply([a(60, last)]).replace(still_holds=lambda: True) for last in (1, 2))
    started, earlier = Started("cache 60", held, other, reply([a(60, last=3)])), Earlier(0.0)
    started.ask()
    assert started.shown(earlier=earlier) == [a(60, last=2)]
    assert started.shown() == [a(60)]
    assert [started.shown(earlier=earlier), started.shown(earlier=earlier)] == [[a(60, last=3)]] * 2
    assert len(started.answers.requests) == 3


@pytest.mark.parametrize(
    ("event", "is_lent"),
    [(None, True), ("while it is asked for", False), ("after it was looked at", False)],
)
def test_an_event_meanwhile_keeps_a_copy_from_the_answer_table(
    event: str | None, is_lent: bool
) -> None:
    versions, looks = Versions(), list[bool]()

    def is_missing() -> bool:
        looks.append(event != "after it was looked at" or not looks)
        return looks[-1]

    async def below(request: Request) -> Reply:
        assert request.dependencies is not None
        request.dependencies.add(7)
        if event == "while it is asked for":
            versions.bump(7)
        return reply([a(300)]).replace(still_holds=is_missing)

    started, found = Started("cache", reply(), below=below), Dependencies(versions)
    started.ask(dependencies=Dependencies(versions))
    looks.clear()
    started.ask(dependencies=found)
    assert len(looks) > 1 or event != "after it was looked at"
    assert (found.cached is not None) is is_lent


@pytest.mark.parametrize(
    ("text", "found", "mark"),
    [
        ("cache", FRESH, ("success", 20)),
        ("cache 7", FRESH, ("success", 7)),
        ("cache {\nsuccess 100 60 30\n}", FRESH, ("success", 30)),
        ("cache", reply([a(0)], fresh=True), ("success", 5)),
        ("cache", FRESH_NXDOMAIN, ("denial", 60)),
        ("cache {\ndisable success\n}", FRESH, ("success", 0)),
        ("cache {\ndisable success\n}", reply(authority=[SOA], fresh=True), ("denial", 60)),
        ("cache {\ndisable denial org\n}", FRESH_NXDOMAIN, ("denial", 0)),
        ("cache {\ndisable denial net\n}", FRESH_NXDOMAIN, ("denial", 60)),
        ("cache 30 example.net", FRESH, None),
        ("cache 30 org", FRESH, ("success", 20)),
    ],
)
def test_the_answer_table_counts_as_the_handler_does(
    text: str, found: Reply, mark: tuple[str, int] | None
) -> None:
    """The mark of a reply says for how long a query counts as a hit; the hits come in one number."""
    handler, table = Started(text, found), Started(text, found)
    assert handler.cache.mark(make_request(QNAME).query, found) == mark
    kind, seconds = mark or ("success", 0)
    handler.ask()
    for age in (seconds - 1, 1):
        handler.runtime.time += max(age, 0)
        handler.ask()
    if mark is not None:
        table.cache.count_cache_hits("dns://:53", kind, 1 if seconds else 0, 2 if seconds else 3)
    counts = ("requests_total", "hits_total", "misses_total")
    assert table.metrics(*counts) == handler.metrics(*counts)


def test_a_reply_of_the_cluster_that_takes_the_place_of_a_stale_one_has_its_mark() -> None:
    started, found = (
        Started("cache {\nserve_stale 1h verify\n}", reply([a()]), FRESH),
        Dependencies(Versions()),
    )
    started.ask()
    started.runtime.time += 100
    assert started.shown(dependencies=found) == [a(20)]
    assert found.mark == ("success", 20)


def test_no_hits_of_the_answer_table_make_no_line_of_hits() -> None:
    started = Started("cache", FRESH)
    started.cache.count_cache_hits("dns://:53", "denial", 0, 0)
    assert started.metrics("hits_total", "misses_total") == []


@pytest.mark.parametrize(
    ("settings", "news", "in_time", "shown"),
    [
        ("10s", reply([a(60, 2)]), True, [[a(60, 2)], [a(60, 2)]]),
        ("1ms", reply([a(60, 2)]), False, [[a(0)], [a(60, 2)]]),
        ("10s 30s 1m", unwritten(2, "nobody answers"), True, [[a(30)], [a(30)]]),
    ],
)
async def test_verify_with_a_time_limit(
    settings: str, news: Reply, in_time: bool, shown: list[list[str]]
) -> None:
    """Too late, the refresh goes on all the same; the replies have AA, as stored."""
    may_answer, runtime, protocols = asyncio.Event(), FakeRuntime(), list[str]()
    cache = set_up(Cache, f"cache {{\nserve_stale 1h verify {settings}\n}}")
    await cache.start(runtime)

    async def below(request: Request) -> Reply:
        protocols.append(request.protocol)
        if len(protocols) == 1:
            return reply([a(60)])
        await may_answer.wait()
        return news

    await cache.handle(make_request(QNAME), below)
    runtime.time = 100.0
    if in_time:
        may_answer.set()
    first = await cache.handle(make_request(QNAME, now=100.0), below)
    may_answer.set()
    await asyncio.gather(*runtime.tasks.values())
    second = await cache.handle(make_request(QNAME, now=100.0), below)
    assert [section(found.answer) for found in (first, second)] == shown
    assert (first.aa, second.aa, set(protocols)) == (True, True, {"udp"})
    await runtime.stop_tasks()


def test_the_wildcard_of_a_kept_reply_is_told_again() -> None:
    async def below(request: Request) -> Reply:
        if request.metadata is not None:
            request.metadata["zone/wildcard"] = lambda: "*.example.org."
        return reply([a()])

    started, second = Started("cache", reply(), below=below), dict[str, Callable[[], str]]()
    for metadata in ({}, second, None):
        assert started.shown(metadata=metadata) == [a()]
    assert second["zone/wildcard"]() == "*.example.org."


def test_a_prefetched_reply_has_its_wildcard() -> None:
    async def below(request: Request) -> Reply:
        assert request.metadata is not None
        request.metadata["zone/wildcard"] = lambda: f"*.{request.protocol}.org."
        return reply([a()])

    started, found = (
        Started("cache {\nprefetch 1\n}", reply(), below=below),
        dict[str, Callable[[], str]](),
    )
    for number in range(2):
        started.runtime.time += 55 * number
        started.ask(metadata=dict[str, Callable[[], str]]())
    (refresh,) = started.runtime.spawned.values()
    finish(refresh)
    started.ask(metadata=found)
    assert found["zone/wildcard"]() == "*.tcp.org."


def test_a_big_reply_of_an_upstream_is_stored_in_another_turn() -> None:
    """It has just been decoded, which takes milliseconds too; a hit does not wait."""
    started, request = (
        Started("cache 60", reply([a()] * MANY_RECORDS)),
        make_request(QNAME, now=1000.0),
    )
    first, count = turns(started.cache.handle(request, started.below))
    assert (len(first.answer), count) == (MANY_RECORDS, 1)
    again, count = turns(started.cache.handle(request, started.below))
    assert (again.answer, count) == (first.answer, 0)


def test_a_look_shows_what_would_be_answered_and_changes_nothing() -> None:
    started = Started("cache 60 {\nprefetch 1 1m\nserve_stale\n}", reply([a()]))
    shown, told = started.look()
    assert (section(shown.answer), told, started.cache.stored_octets()) == ([a()], "", 0)
    started.ask()
    before = started.metrics("requests", "hits", "misses")
    for age, ttl, told in ((20, 40, "20 s ago, 40 s left"), (60, 0, "80 s ago, stale")):
        started.runtime.time += age
        shown, found = started.look()
        assert section(shown.answer) == [a(ttl)]
        assert found == f"answered from its half success: stored {told}"
    assert started.metrics("requests", "hits", "misses") == before
    assert started.runtime.spawned == {}


@pytest.mark.parametrize("text", ["cache example.com", "cache 60"])
def test_a_look_at_what_it_does_not_store(text: str) -> None:
    """Names of another zone, and replies of the cluster, of which it knows only that they were there."""
    started = Started(text, reply([a()], fresh=True))
    started.ask()
    shown, told = started.look()
    assert (section(shown.answer), told) == ([a()], "")
