from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from hsdns.chain import Earlier, Request, link
from hsdns.cluster.freshness import Dependencies
from hsdns.fastpath import Versions
from hsdns.plugins.cache import Cache
from hsdns.plugins.forward import Forward
from hsdns.wire.edns import Edns
from hsdns.wire.encode import MANY_RECORDS
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RD, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish, turns
from tests.support.plugins.requests import Answers, make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.upstreams.dns_upstream import answer, serve

QNAME = "www.example.org."
SOA = "example.org. 60 IN SOA ns.example.org. host.example.org. 1 7200 1800 86400 60"


def a(ttl: int = 60, last: int = 1) -> str:
    return f"www.example.org. {ttl} IN A 192.0.2.{last}"


class Asked:
    """A cache that has started, what is below it, and its clock."""

    def __init__(
        self, text: str, *replies: Reply, zones: Sequence[str] = (".",), seed: int = 1
    ) -> None:
        self.cache = set_up(Cache, text, zones)
        self.runtime = FakeRuntime(seed)
        finish(self.cache.start(self.runtime))
        self.below: Answers = next_with(*replies)
        self.now = 1000.0

    @property
    def now(self) -> float:
        return self.runtime.time

    @now.setter
    def now(self, now: float) -> None:
        self.runtime.time = now

    def run_beside(self) -> int:
        """Let run what was spawned; return how much it was."""
        spawned, self.runtime.spawned = self.runtime.spawned, {}
        for coro in spawned.values():
            finish(coro)
        return len(spawned)

    def ask(
        self,
        qname: str = QNAME,
        qtype: str = "A",
        *,
        flags: int = RD,
        edns: Edns | None = None,
        qclass: str = "IN",
        server: str = "dns://:53",
        metadata: dict[str, Callable[[], str]] | None = None,
    ) -> Reply:
        request = make_request(
            qname, qtype, flags=flags, edns=edns, now=self.now, qclass=qclass, server=server
        ).replace(metadata=metadata)
        return finish(self.cache.handle(request, self.below))

    @property
    def times_asked(self) -> int:
        return len(self.below.requests)

    def metric(self, name: str) -> dict[tuple[str, ...], float]:
        for metric in self.runtime.metrics:
            if metric.name.removeprefix("coredns_cache_") == name:
                return {
                    labels: value
                    for labels, value in metric.values.items()
                    if isinstance(value, int | float)
                }
        raise AssertionError(f"no metric {name}")


# --- setup ---


@pytest.mark.parametrize(
    ("text", "zones", "success", "denial"),
    [
        pytest.param("cache", ["."], (10000, 3600, 5), (10000, 1800, 5), id="bare"),
        pytest.param("cache 30", ["."], (10000, 30, 5), (10000, 30, 5), id="ttl"),
        pytest.param(
            "cache 30 Example.org 10.0.0.0/8",
            ["example.org.", "10.in-addr.arpa."],
            (10000, 30, 5),
            (10000, 30, 5),
            id="ttl-and-zones",
        ),
        pytest.param(
            "cache example.org", ["example.org."], (10000, 3600, 5), (10000, 1800, 5), id="zone"
        ),
        pytest.param(
            "cache 30 {\nsuccess 5000\ndenial 2500 10\n}",
            ["."],
            (5000, 30, 5),
            (2500, 10, 5),
            id="capacities",
        ),
        pytest.param(
            "cache {\nsuccess 5000 3600 60\ndenial 0 900 0\n}",
            ["."],
            (5000, 3600, 60),
            (0, 900, 0),
            id="floors",
        ),
    ],
)
def test_setup(
    text: str, zones: list[str], success: tuple[int, int, int], denial: tuple[int, int, int]
) -> None:
    cache = set_up(Cache, text)
    assert [zone.to_text() for zone in cache.zones] == zones
    halves = [(half.capacity, half.maximum, half.floor) for half in (cache.success, cache.denial)]
    assert halves == [success, denial]


def test_zones_are_the_block_s_where_none_are_named() -> None:
    cache = set_up(Cache, "cache 30", ["example.org.", "example.net."])
    assert cache.zones == (Name.from_text("example.org."), Name.from_text("example.net."))


@pytest.mark.parametrize(
    ("lines", "success", "denial"),
    [
        pytest.param("", [], [], id="none"),
        pytest.param("disable success", ["."], [], id="all-zones"),
        pytest.param(
            "disable success Cluster.local\ndisable denial a. b.",
            ["cluster.local."],
            ["a.", "b."],
            id="both",
        ),
        pytest.param("disable denial a\ndisable denial b", [], ["b."], id="last-one-counts"),
    ],
)
def test_disable(lines: str, success: list[str], denial: list[str]) -> None:
    cache = set_up(Cache, f"cache {{\n{lines}\n}}")
    assert [zone.to_text() for zone in cache.success.disabled] == success
    assert [zone.to_text() for zone in cache.denial.disabled] == denial


# --- what is kept, and for how long ---


def test_a_reply_is_as_old_as_it_was_when_it_came() -> None:
    asked = Asked("cache", reply([a(60)]))

    async def slow(request: Request) -> Reply:
        asked.now += 50
        return await asked.below(request)

    asked.now, request = 1000.0, make_request(QNAME, now=1000.0)
    finish(asked.cache.handle(request, slow))
    asked.now = 1109.9  # 59.9 s after the reply, 109.9 s after the question
    assert section(asked.ask().answer) == [a(1)]
    assert asked.times_asked == 1


# --- the key ---


# --- flags ---


# --- zones ---


# --- the two halves ---


def test_a_servfail_does_not_hide_a_good_answer() -> None:
    good, bad = reply([a(60)]), reply([], rcode=Rcode.SERVFAIL)
    asked = Asked("cache", good)
    asked.ask()
    other = Asked("cache", bad)
    other.ask()
    asked.cache.denial.store = other.cache.denial.store
    assert asked.ask().rcode == Rcode.NOERROR
    asked.now += 60  # the answer is over, and so is the SERVFAIL
    asked.ask()
    assert asked.times_asked == 2


def test_a_denial_comes_before_an_answer() -> None:
    asked, other = Asked("cache", reply([a(60)])), Asked("cache", reply([], [SOA], rcode=3))
    asked.ask()
    other.ask()
    asked.cache.denial.store = other.cache.denial.store
    assert asked.ask().rcode == Rcode.NXDOMAIN


# --- the cluster's own answers ---


# --- metrics ---


def test_evictions() -> None:
    asked = Asked("cache {\nsuccess 0\n}", reply((), (), [a()]))
    for number in range(1026):
        asked.ask(f"n{number}.example.org.")
    assert asked.metric("evictions_total") == {("dns://:53", "success", ".", ""): 2}
    assert asked.metric("entries")["dns://:53", "success", ".", ""] == 1024


def test_a_copy_is_used_only_while_the_cluster_does_not_know_the_name() -> None:
    known: list[bool] = []
    passed_on = reply([a(300)]).replace(still_holds=lambda: not known)
    asked = Asked("cache", passed_on, reply([a(5, last=2)], fresh=True))
    asked.ask()
    assert section(asked.ask().answer) == [a(300)]
    known.append(True)
    assert section(asked.ask().answer) == [a(5, last=2)]
    assert asked.times_asked == 2


def test_a_copy_is_not_used_before_a_late_watch_has_caught_up() -> None:
    """Only one that depends on the cluster waits for it."""
    known, waits = list[bool](), list[float]()
    passed_on = reply([a(300)]).replace(still_holds=lambda: not known)
    asked = Asked("cache", passed_on, reply([a(300, last=2)]))

    async def catch_up() -> None:
        known.append(True)

    def late(now: float) -> Awaitable[None]:
        waits.append(now)
        return catch_up()

    asked.runtime.late = late
    asked.ask()
    assert waits == []
    assert section(asked.ask().answer) == [a(300, last=2)]
    assert section(asked.ask().answer) == [a(300, last=2)]
    assert waits == [asked.now]


def test_a_copy_that_depends_on_the_newest_state_is_not_for_an_earlier_one() -> None:
    """It is neither used nor made; one that does not depend on the cluster is as for others."""
    held = reply([a(300)]).replace(still_holds=lambda: True)
    asked = Asked(
        "cache 60",
        held,
        reply([a(60, last=2)]).replace(still_holds=lambda: True),
        reply([a(60, last=3)]),
    )
    asked.ask()
    earlier = make_request(QNAME, "A", now=asked.now).replace(earlier=Earlier(0.0))

    def ask() -> list[str]:
        return section(finish(asked.cache.handle(earlier, asked.below)).answer)

    assert ask() == [a(60, last=2)]
    assert section(asked.ask().answer) == [a(60)]
    assert (ask(), asked.times_asked) == ([a(60, last=3)], 3)
    assert (ask(), asked.times_asked) == ([a(60, last=3)], 3)


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

    asked = Asked("cache", reply())
    first, second = Dependencies(versions), Dependencies(versions)
    for each in (first, second):
        request = make_request(QNAME, now=asked.now).replace(dependencies=each)
        finish(asked.cache.handle(request, below))
    assert (second.cached is not None) is is_lent


# --- what the fast path needs to know ---

FRESH = reply([a(20)], fresh=True)
FRESH_NXDOMAIN = reply(rcode=Rcode.NXDOMAIN, authority=[SOA], fresh=True)
FRESH_NODATA = reply(authority=[SOA], fresh=True)


@pytest.mark.parametrize(
    ("text", "found", "mark"),
    [
        pytest.param("cache", FRESH, ("success", 20), id="success"),
        pytest.param("cache 7", FRESH, ("success", 7), id="maximum"),
        pytest.param("cache {\nsuccess 100 60 30\n}", FRESH, ("success", 30), id="floor"),
        pytest.param("cache", reply([a(0)], fresh=True), ("success", 5), id="ttl-of-0"),
        pytest.param("cache", FRESH_NXDOMAIN, ("denial", 60), id="nxdomain"),
        pytest.param("cache", FRESH_NODATA, ("denial", 60), id="nodata"),
        pytest.param("cache {\ndisable success\n}", FRESH, ("success", 0), id="success-disabled"),
        pytest.param("cache {\ndisable success\n}", FRESH_NODATA, ("denial", 60), id="only-success-disabled"),
        pytest.param("cache {\ndisable denial org\n}", FRESH_NXDOMAIN, ("denial", 0), id="denial-disabled"),
        pytest.param("cache {\ndisable denial net\n}", FRESH_NXDOMAIN, ("denial", 60), id="disabled-elsewhere"),
        pytest.param("cache 30 example.net", FRESH, None, id="another-zone"),
        pytest.param("cache 30 org", FRESH, ("success", 20), id="zone-above"),
    ],
)  # fmt: skip
def test_mark_is_what_the_handler_does(
    text: str, found: Reply, mark: tuple[str, int] | None
) -> None:
    asked = Asked(text, found)
    query = make_request(QNAME).query
    assert asked.cache.mark(query, found) == mark
    asked.ask()
    if mark is None:
        assert asked.metric("requests_total") == {}
        return
    kind, seconds = mark
    if seconds:
        asked.now += seconds - 1
        asked.ask()
    asked.now += 1
    asked.ask()
    hits = asked.metric("hits_total")
    assert sum(hits.values()) == (1 if seconds else 0)
    assert {labels[1] for labels in hits} <= {kind}


@pytest.mark.parametrize(
    ("text", "zone", "kind", "names"),
    [
        ("cache", "org.", "denial", None),
        ("cache {\ndisable denial\n}", "org.", "denial", []),
        ("cache {\ndisable success\n}", "org.", "denial", None),
        ("cache {\ndisable denial org\n}", "org.", "denial", []),
        ("cache {\ndisable denial org\n}", "example.org.", "denial", []),
        ("cache {\ndisable denial example.org\n}", "org.", "denial", None),
        ("cache 30 org", "example.org.", "denial", None),
        ("cache 30 example.org example.net", "org.", None, ["example.org."]),
    ],
)
def test_names_counted_one_by_one(
    text: str, zone: str, kind: str | None, names: list[str] | None
) -> None:
    cache = set_up(Cache, text)
    found = cache.names_answered_first(Name.from_text(zone))
    assert (None if found is None else [name.to_text() for name in found]) == names
    assert cache.denial_kind(Name.from_text(zone)) == kind


# --- prefetch ---


# --- serve_stale ---

FAILED = unwritten(Rcode.SERVFAIL, "nobody answers")
SERVFAIL = reply(rcode=Rcode.SERVFAIL)
NXDOMAIN = reply([], [SOA], rcode=3)


def stale_total(asked: Asked) -> float:
    return sum(asked.metric("served_stale_total").values())


def test_a_stale_servfail_is_served_but_hides_no_stale_answer() -> None:
    asked = Asked("cache {\nserve_stale\n}", SERVFAIL, FAILED)
    asked.ask()
    asked.now += 100
    assert asked.ask().rcode == Rcode.SERVFAIL
    assert stale_total(asked) == 1
    asked.run_beside()
    other = Asked("cache {\nserve_stale\n}", reply([a(60)]))
    other.ask()
    asked.cache.success.store = other.cache.success.store
    assert section(asked.ask().answer) == [a(0)]
    asked.run_beside()


def test_a_stale_copy_is_not_used_when_the_cluster_knows_the_name() -> None:
    known: list[bool] = []
    passed_on = reply([a(60)]).replace(still_holds=lambda: not known)
    asked = Asked("cache {\nserve_stale\n}", passed_on, reply([a(5, last=2)], fresh=True))
    asked.ask()
    known.append(True)
    asked.now += 100
    assert section(asked.ask().answer) == [a(5, last=2)]
    assert asked.run_beside() == 0


# --- verify with a time limit ---


class Slow:
    """A `next` that answers at once, then only when it is told to."""

    def __init__(self, first: Reply, news: Reply) -> None:
        self.first, self.news = first, news
        self.may_answer = asyncio.Event()
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        if len(self.asked) == 1:
            return self.first
        await self.may_answer.wait()
        return self.news


def verify(news: Reply, *, seconds: str = "10s", in_time: bool, more: str = "") -> list[Reply]:
    """Two replies: of a query that finds a stale entry, and of one after what it asked for has come."""

    async def run() -> list[Reply]:
        cache = set_up(Cache, f"cache {{\nserve_stale 1h verify {seconds}{more}\n}}")
        runtime = FakeRuntime()
        await cache.start(runtime)
        below = Slow(reply([a(60)]), news)
        await cache.handle(make_request(QNAME), below)
        runtime.time = 100.0
        if in_time:
            below.may_answer.set()
        first = await cache.handle(make_request(QNAME, now=100.0), below)
        below.may_answer.set()
        await asyncio.gather(*runtime.tasks.values())
        second = await cache.handle(make_request(QNAME, now=100.0), below)
        assert [request.protocol for request in below.asked] == ["udp"] * len(below.asked)
        await runtime.stop_tasks()
        return [first, second]

    return asyncio.run(run())


def test_verify_in_time() -> None:
    first, second = verify(reply([a(60, 2)]), in_time=True)
    assert [section(found.answer) for found in (first, second)] == [[a(60, 2)]] * 2
    assert (first.aa, second.aa) == (True, True)


def test_verify_too_late_refreshes_all_the_same() -> None:
    first, second = verify(reply([a(60, 2)]), seconds="1ms", in_time=False)
    assert section(first.answer) == [a(0)]
    assert section(second.answer) == [a(60, 2)]


def test_verify_without_news_serves_stale() -> None:
    first, second = verify(FAILED, in_time=True, more=" 30s 1m")
    assert [section(found.answer) for found in (first, second)] == [[a(30)]] * 2


# --- prefer_positive ---

PREFER = "cache {\nserve_stale 1h %s\nserve_stale_policy prefer_positive\n}"


def test_a_live_denial_stands_before_no_answer_that_may_be_served() -> None:
    asked, other = Asked(PREFER % "immediate", reply([a(60)])), Asked("cache", NXDOMAIN)
    asked.ask()
    other.ask()
    asked.cache.denial.store = other.cache.denial.store
    assert section(asked.ask().answer) == [a(60)]


# --- keepttl, servfail ---


# --- metadata ---


def test_the_wildcard_of_a_kept_reply_is_told_again() -> None:
    asked = Asked("cache", reply([a(60)]))

    class Below(Answers):
        async def __call__(self, request: Request) -> Reply:
            if request.metadata is not None:
                request.metadata["zone/wildcard"] = lambda: "*.example.org."
            return await super().__call__(request)

    asked.below = Below(reply([a(60)]))
    first: dict[str, Callable[[], str]] = {}
    second: dict[str, Callable[[], str]] = {}
    asked.ask(metadata=first)
    asked.ask(metadata=second)
    assert asked.times_asked == 1
    assert second["zone/wildcard"]() == first["zone/wildcard"]() == "*.example.org."
    asked.ask()


# --- with forward ---


class TickingRuntime(FakeRuntime):
    """A runtime whose clock goes on by `step` seconds whenever it is read."""

    step = 0.0

    def clock(self) -> float:
        self.time += self.step
        return self.time


def test_stale_answers_bridge_an_upstream_that_is_silent() -> None:
    async def run() -> None:
        well = True

        def script(wire: bytes) -> list[bytes]:
            return answer(a(60, 1 if len(server.udp) == 1 else 2))(wire) if well else []

        async with asyncio.timeout(10), serve(script, script) as server:
            runtime = TickingRuntime()
            cache = set_up(Cache, "cache {\nserve_stale 1h verify 10s 30s\n}")
            forward = set_up(
                Forward,
                f"forward . 127.0.0.1:{server.port} {{\nread_timeout 20ms\nmax_connect_attempts 1\nmax_fails 0\n}}",
            )
            for plugin in (cache, forward):
                await plugin.start(runtime)
            chain = link([cache, forward], asyncio.create_task)
            shown = []
            for now, is_well in ((0, True), (30, False), (100, False), (200, True)):
                runtime.time, well = now, is_well
                runtime.step = 0.0 if is_well or now < 60 else 0.005
                found = await chain(make_request(QNAME, now=float(now)))
                shown.append((section(found.answer), found.error))
            assert shown == [
                ([a(60)], None),
                ([a(30)], None),
                ([a(30)], None),  # stale
                ([a(60, 2)], None),
            ]
            await forward.stop()
            await runtime.stop_tasks()

    asyncio.run(run())


def test_a_big_reply_of_an_upstream_is_stored_in_another_turn() -> None:
    """It has just been decoded, which takes milliseconds too; a hit does not wait."""
    found = reply([a()])
    asked = Asked("cache 30", found.replace(answer=found.answer * MANY_RECORDS))
    request = make_request(QNAME, "A", now=asked.now)
    first, count = turns(asked.cache.handle(request, asked.below))
    assert (len(first.answer), count) == (MANY_RECORDS, 1)
    again, count = turns(asked.cache.handle(request, asked.below))
    assert (again.answer, count) == (first.answer, 0)


# --- looking into it ---


def test_a_look_at_a_name_of_another_zone() -> None:
    asked = Asked("cache example.com", reply([a(60)]))
    shown, told = finish(asked.cache.look(make_request(QNAME, now=asked.now), asked.below))
    assert ([rr.ttl for rr in shown.answer], told) == ([60], "")
