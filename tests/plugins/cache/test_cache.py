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
from hsdns.wire.message import AD, CD, RD, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish, turns
from tests.support.plugins.requests import Answers, make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.upstreams.dns_upstream import answer, serve

QNAME = "www.example.org."
SOA = "example.org. 60 IN SOA ns.example.org. host.example.org. 1 7200 1800 86400 60"
CNAME = "www.example.org. 60 IN CNAME a.example.org."


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


def test_a_reply_that_does_not_hold_takes_no_place() -> None:
    """One for a client subnet neither replaces the entry that it refreshes nor becomes one."""
    tailored = reply((a(last=2),)).held(lambda: False)
    asked = Asked("cache 30 {\nprefetch 1 60s 90%\n}", reply((a(),)), tailored)
    assert section(asked.ask().answer) == [a(30)]
    asked.now += 10.0
    assert section(asked.ask().answer) == [a(20)]
    for times_asked in (2, 3):  # it is still due
        assert asked.run_beside() == 1
        assert asked.times_asked == times_asked
        assert section(asked.ask().answer) == [a(20)]
    assert asked.run_beside() == 1


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


@pytest.mark.parametrize(
    ("text", "found", "ttl"),
    [
        pytest.param("cache", reply([a(60)]), 60, id="as-it-is"),
        pytest.param("cache", reply([a(7200)]), 3600, id="at-most-an-hour"),
        pytest.param(
            "cache", reply([], [SOA.replace("60", "7200")], rcode=3), 1800, id="denial-half"
        ),
        pytest.param("cache 30", reply([a(60)]), 30, id="maximum"),
        pytest.param("cache 30", reply([], [SOA], rcode=3), 30, id="maximum-of-denial"),
        pytest.param("cache 30", reply([a(1)]), 5, id="floor"),
        pytest.param("cache 30", reply([a(0)]), 5, id="floor-of-zero"),
        pytest.param("cache 3", reply([a(60)]), 3, id="maximum-beats-floor"),
        pytest.param("cache {\nsuccess 1000 60 20\n}", reply([a(1)]), 20, id="own-floor"),
        pytest.param("cache", reply([a(60), a(20, 2)], [SOA]), 20, id="least-of-answer"),
        pytest.param(
            "cache",
            reply([a(60)], ["example.org. 9 IN NS ns.example.org."]),
            9,
            id="least-of-authority",
        ),
        pytest.param("cache", reply([a(60)], (), [a(8, 9)]), 8, id="least-of-additional"),
        pytest.param("cache", reply([], [SOA]), 60, id="nodata"),
        pytest.param("cache", reply([], [SOA], rcode=Rcode.NXDOMAIN), 60, id="nxdomain"),
        pytest.param("cache", reply([CNAME], [SOA]), 60, id="nodata-behind-a-cname"),
        pytest.param("cache", reply([], [SOA], rcode=Rcode.SERVFAIL), 5, id="servfail"),
        pytest.param("cache", reply(rcode=Rcode.NOTIMP), 5, id="notimp"),
        pytest.param("cache", reply(), 5, id="empty"),
        pytest.param("cache", reply((), (), [a(60)]), 60, id="only-additional"),
        pytest.param(
            "cache", reply((), ["example.org. 60 IN NS ns.example.org."]), 5, id="delegation"
        ),
    ],
)
def test_kept(text: str, found: Reply, ttl: int) -> None:
    """The first reply shows the TTL; then it goes down for as many seconds and the source is asked again."""
    asked = Asked(text, found)
    for age, times in ((0, 1), (0, 1), (ttl - 0.1, 1), (ttl, 2)):
        asked.now = 1000.0 + age
        shown = asked.ask()
        left = ttl if times == 2 else ttl - int(age)
        records = (*shown.answer, *shown.authority, *shown.additional)
        assert {rr.ttl for rr in records} <= {left}
        assert len(records) == len((*found.answer, *found.authority, *found.additional))
        assert shown.rcode == found.rcode
        assert asked.times_asked == times


@pytest.mark.parametrize(
    ("found", "qtype"),
    [
        pytest.param(reply([a()], tc=True), "A", id="truncated"),
        pytest.param(reply(rcode=Rcode.NXDOMAIN), "A", id="nxdomain-without-soa"),
        pytest.param(reply([a()], [SOA], rcode=Rcode.NXDOMAIN), "A", id="nxdomain-with-answer"),
        pytest.param(reply([CNAME]), "A", id="cname-chain-without-end"),
        pytest.param(reply(rcode=Rcode.REFUSED), "A", id="refused"),
        pytest.param(reply(rcode=Rcode.FORMERR), "A", id="formerr"),
        pytest.param(reply([a()]), "AXFR", id="transfer"),
        pytest.param(unwritten(Rcode.SERVFAIL, "nobody answers"), "A", id="unwritten"),
        pytest.param(Reply(dropped=True), "A", id="dropped"),
    ],
)
def test_not_kept(found: Reply, qtype: str) -> None:
    asked = Asked("cache", found)
    for times in (1, 2):
        shown = asked.ask(qtype=qtype)
        assert (shown.rcode, shown.tc, shown.error) == (found.rcode, found.tc, found.error)
        assert (shown.written, shown.dropped) == (found.written, found.dropped)
        assert asked.times_asked == times


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


def test_a_floor_of_zero_keeps_no_ttl_of_zero() -> None:
    asked = Asked("cache {\nsuccess 1000 60 0\n}", reply([a(0)]))
    for times in (1, 2):
        assert section(asked.ask().answer) == [a(0)]
        assert asked.times_asked == times


def test_a_notify_is_not_kept() -> None:
    asked = Asked("cache", reply())
    for _ in range(2):
        asked.ask(qtype="SOA", flags=4 << 11)
    assert asked.times_asked == 2


# --- the key ---


@pytest.mark.parametrize(
    ("second", "times"),
    [
        pytest.param({}, 1, id="same"),
        pytest.param({"qname": "WWW.Example.ORG."}, 1, id="case"),
        pytest.param({"flags": 0}, 1, id="rd"),
        pytest.param({"flags": RD | AD}, 1, id="ad"),
        pytest.param({"edns": Edns(4096)}, 1, id="edns"),
        pytest.param({"server": "dns://:1053"}, 1, id="listener"),
        pytest.param({"qname": "ftp.example.org."}, 2, id="name"),
        pytest.param({"qtype": "AAAA"}, 2, id="type"),
        pytest.param({"qclass": "CH"}, 2, id="class"),
        pytest.param({"edns": Edns(4096, do=True)}, 2, id="do"),
        pytest.param({"flags": RD | CD}, 2, id="cd"),
    ],
)
def test_key(second: dict[str, object], times: int) -> None:
    asked = Asked("cache", reply((), (), [a()]))
    asked.ask()
    asked.ask(**second)  # type: ignore[arg-type]  # a row of the table is one keyword
    assert asked.times_asked == times


# --- flags ---


@pytest.mark.parametrize(
    ("flags", "edns", "ad"),
    [
        pytest.param(RD, None, False, id="plain"),
        pytest.param(RD | AD, None, True, id="ad"),
        pytest.param(RD, Edns(1232, do=True), True, id="do"),
        pytest.param(RD, Edns(1232), False, id="edns-alone"),
    ],
)
def test_flags(flags: int, edns: Edns | None, ad: bool) -> None:
    found = reply([a()], aa=False, ra=True, ad=True, error="odd", edns_options=((8, b"x"),))
    asked = Asked("cache", found)
    first, second = asked.ask(flags=flags, edns=edns), asked.ask(flags=flags, edns=edns)
    assert (first.aa, first.ra, first.ad, first.error) == (False, True, ad, "odd")
    assert (second.aa, second.ra, second.ad, second.error) == (True, True, ad, None)
    assert (first.edns_options, second.edns_options) == (None, None)
    (request,) = asked.below.requests
    assert request.query.flags == flags | AD


def test_ad_is_kept_for_who_asks_for_it_later() -> None:
    asked = Asked("cache", reply([a()], ad=True))
    assert [asked.ask().ad, asked.ask(flags=RD | AD).ad, asked.ask().ad] == [False, True, False]
    assert asked.times_asked == 1


def test_owners_are_written_as_the_first_client_wrote_them() -> None:
    asked = Asked("cache", reply([a()]))
    asked.ask()
    assert section(asked.ask("WWW.EXAMPLE.ORG.").answer) == [a()]


# --- zones ---


def test_other_zones_pass_by() -> None:
    found = reply([a(7200)])
    asked = Asked("cache 30 example.net", found)
    assert asked.ask() is found
    assert asked.ask() is found
    assert [request.query.flags for request in asked.below.requests] == [RD, RD]
    assert asked.metric("requests_total") == {}


@pytest.mark.parametrize(
    ("line", "found", "times"),
    [
        pytest.param("disable success example.org", reply([a()]), 2, id="success"),
        pytest.param("disable success", reply([a()]), 2, id="all"),
        pytest.param("disable success example.net", reply([a()]), 1, id="other-zone"),
        pytest.param("disable success example.org", reply([], [SOA], rcode=3), 1, id="other-kind"),
        pytest.param("disable denial example.org", reply([], [SOA], rcode=3), 2, id="nxdomain"),
        pytest.param("disable denial example.org", reply([], [SOA]), 2, id="nodata"),
        pytest.param("disable denial example.org", reply([], [SOA], rcode=2), 2, id="servfail"),
        pytest.param("disable denial example.org", reply([a()]), 1, id="answer"),
    ],
)
def test_disabled_zones(line: str, found: Reply, times: int) -> None:
    """The TTL of the first reply is shown all the same."""
    asked = Asked(f"cache 30 {{\n{line}\n}}", found)
    for _ in range(2):
        shown = asked.ask()
        assert {rr.ttl for rr in (*shown.answer, *shown.authority)} <= {30, 5}
    assert asked.times_asked == times


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


@pytest.mark.parametrize(
    ("text", "found", "ttl"),
    [
        pytest.param("cache 30", reply([a(60)], fresh=True), 30, id="maximum"),
        pytest.param("cache 30", reply([a(10)], fresh=True), 10, id="own"),
        pytest.param("cache 30", reply([a(2)], fresh=True), 5, id="floor"),
        pytest.param("cache 30", reply([a(0)], fresh=True), 0, id="zero-stays"),
        pytest.param("cache 30", reply([], [SOA], rcode=3, fresh=True), 30, id="nxdomain"),
        pytest.param(
            "cache 30",
            reply([], [SOA.replace("org. 60", "org. 0", 1)], rcode=3, fresh=True),
            0,
            id="nxdomain-zero",
        ),
        pytest.param(
            "cache 30 {\ndisable success\n}", reply([a(60)], fresh=True), 30, id="disabled"
        ),
        pytest.param("cache 30 example.net", reply([a(60)], fresh=True), 60, id="other-zone"),
    ],
)
def test_fresh_replies_are_asked_for_each_time_and_never_age(
    text: str, found: Reply, ttl: int
) -> None:
    asked = Asked(text, found)
    for times in range(1, 5):
        shown = asked.ask()
        assert {rr.ttl for rr in (*shown.answer, *shown.authority)} == {ttl}
        assert (shown.aa, shown.fresh, shown.rcode) == (found.aa, True, found.rcode)
        assert asked.times_asked == times
        asked.now += 1.5


def test_a_change_in_the_cluster_is_seen_at_once() -> None:
    asked = Asked(
        "cache 30",
        reply([], [SOA], rcode=Rcode.NXDOMAIN, fresh=True),
        reply([a(30, 1)], fresh=True),
        reply([a(30, 2)], fresh=True),
        reply([], [SOA], rcode=Rcode.NXDOMAIN, fresh=True),
    )
    rcodes_and_answers = [
        (shown.rcode, section(shown.answer)) for shown in (asked.ask() for _ in range(4))
    ]
    assert rcodes_and_answers == [(3, []), (0, [a(30, 1)]), (0, [a(30, 2)]), (3, [])]


def test_fresh_replies_are_counted_as_if_they_were_kept() -> None:
    kept, fresh = Asked("cache 30", reply([a(60)])), Asked("cache 30", reply([a(60)], fresh=True))
    for asked in (kept, fresh):
        for seconds in (0, 10, 10, 10, 1):
            asked.now += seconds
            asked.ask()
    for name in ("requests_total", "hits_total", "misses_total", "entries"):
        assert fresh.metric(name) == kept.metric(name) != {}
    assert (kept.times_asked, fresh.times_asked) == (2, 5)


def test_what_is_not_fresh_takes_the_place_of_a_mark() -> None:
    asked = Asked("cache 30", reply([a(30, 1)], fresh=True), reply([a(60, 2)]))
    asked.ask()
    for _ in range(3):
        assert section(asked.ask().answer) == [a(30, 2)]
    assert asked.times_asked == 2


# --- metrics ---


def test_metrics() -> None:
    asked = Asked("cache", reply([a()]), reply([], [SOA], rcode=3), zones=("example.org.", "a."))
    for qname in (QNAME, QNAME, "x.example.org.", "x.example.org.", "x.example.org."):
        asked.ask(qname)
    zones = "example.org.,a."
    assert asked.metric("requests_total") == {("dns://:53", zones, ""): 5}
    assert asked.metric("misses_total") == {("dns://:53", zones, ""): 2}
    assert asked.metric("hits_total") == {
        ("dns://:53", "success", zones, ""): 1,
        ("dns://:53", "denial", zones, ""): 2,
    }
    assert asked.metric("entries") == {
        ("dns://:53", "success", zones, ""): 1,
        ("dns://:53", "denial", zones, ""): 1,
    }
    assert asked.metric("evictions_total") == {}
    octets = asked.metric("hsdns_cache_bytes")
    assert sorted(labels[1] for labels in octets) == ["denial", "success"]
    assert min(octets.values()) > 0
    assert sum(octets.values()) == asked.cache.stored_octets()


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


def test_hits_of_the_answer_table_count_as_in_the_handler() -> None:
    one, other = Asked("cache", FRESH), Asked("cache", FRESH)
    for _ in range(4):
        one.ask()
    other.cache.count_cache_hits("dns://:53", "success", 3, 1)
    for name in ("requests_total", "hits_total", "misses_total"):
        assert other.metric(name) == one.metric(name)
    unused = Asked("cache", FRESH)
    unused.cache.count_cache_hits("dns://:53", "denial", 0, 0)
    for name, expected in (
        ("requests_total", {("dns://:53", ".", ""): 0}),
        ("hits_total", {}),
        ("misses_total", {}),
    ):
        assert unused.metric(name) == expected


# --- prefetch ---


@pytest.mark.parametrize(
    ("line", "ages", "begun"),
    [
        pytest.param("", (55, 59), (0, 0), id="off"),
        pytest.param("prefetch 0", (55, 59), (0, 0), id="zero"),
        pytest.param("prefetch 1", (53, 54), (0, 1), id="last-tenth"),
        pytest.param("prefetch 1 1m 50%", (29, 30), (0, 1), id="second-half"),
        pytest.param("prefetch 3", (53, 55, 56), (0, 0, 1), id="popular"),
        pytest.param("prefetch 2 2s", (50, 55, 56), (0, 0, 1), id="gap"),
        pytest.param("prefetch 3", (50, 51, 54, 107, 108), (0, 0, 1, 0, 1), id="hits-go-on"),
    ],
)
def test_prefetch(line: str, ages: Sequence[float], begun: Sequence[int]) -> None:
    """A late hit of an entry that is hit often asks anew, beside the answer."""
    asked = Asked(f"cache {{\n{line}\n}}", reply([a(60)]))
    asked.ask()
    seen = []
    for age in ages:
        asked.now = 1000.0 + age
        asked.ask()
        seen.append(asked.run_beside())
    assert seen == list(begun)
    assert asked.times_asked == 1 + sum(begun)
    expected = {("dns://:53", ".", ""): sum(begun)} if sum(begun) else {}
    assert asked.metric("prefetch_total") == expected


def test_what_a_prefetch_asks_and_does() -> None:
    asked = Asked("cache {\nprefetch 1\n}", reply([a(60)]), reply([a(60, 2)]))
    asked.ask(edns=Edns(1232, do=True))
    asked.now += 55
    for _ in range(3):  # one at a time
        assert section(asked.ask(edns=Edns(1232, do=True)).answer) == [a(5)]
    assert asked.run_beside() == 1
    assert section(asked.ask(edns=Edns(1232, do=True)).answer) == [a(60, 2)]
    first, second = asked.below.requests
    assert (first.protocol, second.protocol) == ("udp", "tcp")
    assert second.query == first.query
    assert second.dependencies is None


def test_a_prefetch_that_fails_is_tried_again() -> None:
    failed = unwritten(Rcode.SERVFAIL, "nobody answers")
    asked = Asked("cache {\nprefetch 1\n}", reply([a(60)]), failed, reply([a(60, 2)]))
    asked.ask()
    asked.now += 55
    for last in (1, 1, 2):
        assert section(asked.ask().answer) == [a(5 if last == 1 else 60, last)]
        asked.run_beside()


def test_a_denial_may_follow_an_answer_by_prefetch_and_the_other_way_round() -> None:
    asked = Asked(
        "cache {\nprefetch 1 1m 90%\n}",
        reply([a(60)]),
        reply([], [SOA], rcode=3),
        reply([a(60)]),
        reply([a(60)]),
    )
    rcodes = []
    for _ in range(4):
        rcodes.append(asked.ask().rcode)
        asked.run_beside()
        asked.now += 10
    assert rcodes == [0, 0, 3, 0]


def test_cluster_answers_are_not_prefetched_nor_stale() -> None:
    text = "cache {\nprefetch 1 1m 90%\nserve_stale\nkeepttl\n}"
    asked = Asked(text, reply([a(20)], fresh=True))
    for times in range(1, 6):
        assert section(asked.ask().answer) == [a(20)]
        assert (asked.times_asked, asked.run_beside()) == (times, 0)
        asked.now += 15
    for name in ("prefetch_total", "served_stale_total"):
        assert asked.metric(name) == {}
    assert asked.metric("misses_total") == {("dns://:53", ".", ""): 3}


# --- serve_stale ---

FAILED = unwritten(Rcode.SERVFAIL, "nobody answers")
REFUSED = reply(rcode=Rcode.REFUSED)
SERVFAIL = reply(rcode=Rcode.SERVFAIL)
NXDOMAIN = reply([], [SOA], rcode=3)


def stale_total(asked: Asked) -> float:
    return sum(asked.metric("served_stale_total").values())


@pytest.mark.parametrize(
    ("line", "age", "shown"),
    [
        pytest.param("", 60, a(60, 2), id="off"),
        pytest.param("serve_stale", 59, a(1), id="not-yet"),
        pytest.param("serve_stale", 60, a(0), id="just-over"),
        pytest.param("serve_stale", 3659, a(0), id="an-hour-later"),
        pytest.param("serve_stale", 3660, a(60, 2), id="too-late"),
        pytest.param("serve_stale 30s", 89, a(0), id="duration"),
        pytest.param("serve_stale 30s", 90, a(60, 2), id="duration-over"),
        pytest.param("serve_stale 0s", 60, a(60, 2), id="zero"),
        pytest.param("serve_stale 1h immediate 30s", 60, a(30), id="ttl"),
        pytest.param("serve_stale\nkeepttl", 60, a(60), id="keepttl"),
        pytest.param("serve_stale 1h immediate 30s\nkeepttl", 60, a(30), id="ttl-beats-keepttl"),
    ],
)
def test_stale(line: str, age: float, shown: str) -> None:
    asked = Asked(f"cache {{\n{line}\n}}", reply([a(60)], ad=True, ra=True), reply([a(60, 2)]))
    asked.ask()
    asked.now += age
    found = asked.ask()
    assert section(found.answer) == [shown]
    is_stale = shown.endswith("2.1") and age >= 60
    assert stale_total(asked) == is_stale
    assert asked.run_beside() == is_stale
    if is_stale:
        assert (found.aa, found.ra, found.ad) == (True, True, False)
        assert section(asked.ask().answer) == [a(60, 2)]
        assert asked.metric("hits_total") == {("dns://:53", "success", ".", ""): 2}


def test_one_refresh_at_a_time_and_over_tcp() -> None:
    asked = Asked("cache {\nserve_stale\n}", reply([a(60)]), reply([a(60, 2)]))
    asked.ask()
    asked.now += 100
    for _ in range(3):
        assert section(asked.ask().answer) == [a(0)]
    assert (asked.run_beside(), asked.times_asked) == (1, 2)
    assert [request.protocol for request in asked.below.requests] == ["udp", "tcp"]
    assert asked.metric("prefetch_total") == {("dns://:53", ".", ""): 1}
    assert stale_total(asked) == 3


@pytest.mark.parametrize(
    ("news", "rcode", "is_kept"),
    [
        pytest.param(reply([a(60, 2)]), 0, True, id="answer"),
        pytest.param(NXDOMAIN, 3, True, id="nxdomain"),
        pytest.param(reply([], [SOA]), 0, True, id="nodata"),
        pytest.param(SERVFAIL, 2, False, id="servfail"),
        pytest.param(REFUSED, 5, False, id="refused"),
        pytest.param(FAILED, 2, False, id="unwritten"),
        pytest.param(Reply(dropped=True), 0, False, id="dropped"),
        pytest.param(reply([a(60, 2)], tc=True), 0, False, id="cut"),
    ],
)
def test_what_replaces_a_stale_answer(news: Reply, rcode: int, is_kept: bool) -> None:
    for mode in ("immediate", "verify"):
        asked = Asked(f"cache {{\nserve_stale 1h {mode}\n}}", reply([a(60)]), news)
        asked.ask()
        asked.now += 100
        first = asked.ask()
        asked.run_beside()
        second = asked.ask()
        if mode == "immediate":
            assert section(first.answer) == [a(0)]
        elif is_kept:
            assert (first.rcode, section(first.answer)) == (rcode, section(news.answer))
        if is_kept:
            assert (second.rcode, section(second.answer)) == (rcode, section(news.answer))
        else:
            assert section(second.answer) == [a(0)]
        asked.run_beside()


def test_verify_asks_first_over_the_client_s_protocol() -> None:
    asked = Asked("cache {\nserve_stale 1h verify\n}", reply([a(60)]), FAILED, reply([a(60, 2)]))
    asked.ask()
    asked.now += 100
    assert section(asked.ask().answer) == [a(0)]
    found = asked.ask()
    assert (section(found.answer), found.aa) == ([a(60, 2)], False)
    assert section(asked.ask().answer) == [a(60, 2)]
    assert [request.protocol for request in asked.below.requests] == ["udp"] * 3
    assert (stale_total(asked), asked.metric("prefetch_total")) == (1, {})


@pytest.mark.parametrize("mode", ["immediate 30s", "verify 0 30s"])
def test_recheck_spares_what_has_just_failed(mode: str) -> None:
    asked = Asked(
        f"cache {{\nserve_stale 1h {mode} 20s\n}}", reply([a(60)]), FAILED, reply([a(60, 2)])
    )
    asked.ask()
    asked.now += 100
    times = []
    for _ in range(4):
        asked.ask()
        asked.run_beside()
        times.append(asked.times_asked)
        asked.now += 10
    assert times == [2, 2, 3, 3]
    assert section(asked.ask().answer)[0].endswith("192.0.2.2")


def test_without_recheck_every_query_asks_again() -> None:
    asked = Asked("cache {\nserve_stale\n}", reply([a(60)]), FAILED)
    asked.ask()
    asked.now += 100
    for times in (2, 3, 4):
        asked.ask()
        asked.run_beside()
        assert asked.times_asked == times


def test_a_stale_denial_gives_way_to_an_answer() -> None:
    for mode in ("immediate", "verify"):
        asked = Asked(f"cache {{\nserve_stale 1h {mode}\n}}", NXDOMAIN, reply([a(60)]))
        asked.ask()
        asked.now += 100
        rcodes = []
        for _ in range(3):
            rcodes.append(asked.ask().rcode)
            asked.run_beside()
        assert rcodes == ([3, 0, 0] if mode == "immediate" else [0, 0, 0])
        assert asked.times_asked == 2


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


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(NXDOMAIN, id="nxdomain"),
        pytest.param(reply([], [SOA]), id="nodata"),
        pytest.param(reply(), id="empty"),
        pytest.param(reply([CNAME]), id="chain"),
        pytest.param(SERVFAIL, id="servfail"),
        pytest.param(REFUSED, id="refused"),
    ],
)
@pytest.mark.parametrize("mode", ["immediate", "verify"])
def test_the_last_good_answer_is_preferred(bad: Reply, mode: str) -> None:
    asked = Asked(PREFER % mode, reply([a(60)]), bad, bad, reply([a(60, 3)]))
    asked.ask()
    asked.now += 100
    for _ in range(2):
        assert section(asked.ask().answer) == [a(0)]
        asked.run_beside()
        asked.now += 100
    found = section(asked.ask().answer)
    assert found == ([a(0)] if mode == "immediate" else [a(60, 3)])
    asked.run_beside()
    assert section(asked.ask().answer) == [a(60, 3)]


def test_an_answer_that_is_too_old_is_not_preferred() -> None:
    asked = Asked(PREFER % "verify", reply([a(60)]), NXDOMAIN)
    asked.ask()
    asked.now += 3659
    assert asked.ask().rcode == Rcode.NOERROR
    asked.now += 1
    assert asked.ask().rcode == Rcode.NXDOMAIN


def test_a_live_denial_stands_before_no_answer_that_may_be_served() -> None:
    asked, other = Asked(PREFER % "immediate", reply([a(60)])), Asked("cache", NXDOMAIN)
    asked.ask()
    other.ask()
    asked.cache.denial.store = other.cache.denial.store
    assert section(asked.ask().answer) == [a(60)]


# --- keepttl, servfail ---


def test_keepttl() -> None:
    asked = Asked("cache 30 {\nkeepttl\n}", reply([a(60)]))
    for age, times in ((0, 1), (10, 1), (29, 1), (30, 2)):
        asked.now = 1000.0 + age
        assert section(asked.ask().answer) == [a(30)]
        assert asked.times_asked == times


@pytest.mark.parametrize(
    ("line", "age", "times"),
    [
        ("", 4, 1),
        ("", 5, 2),
        ("servfail 20s", 19, 1),
        ("servfail 20s", 20, 2),
        ("servfail 0s", 0, 2),
        ("servfail 500ms", 0, 2),
    ],
)
@pytest.mark.parametrize("rcode", [Rcode.SERVFAIL, Rcode.NOTIMP], ids=["servfail", "notimp"])
def test_servfail(rcode: int, line: str, age: float, times: int) -> None:
    asked = Asked(f"cache {{\n{line}\n}}", reply([], rcode=rcode))
    for _ in range(2):
        assert asked.ask().rcode == rcode
        asked.now = 1000.0 + age
    assert asked.times_asked == times


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


def test_views_are_counted_apart() -> None:
    asked = Asked("cache", reply([a(60)]))
    for view in ("a", "b", "b"):
        request = make_request(QNAME, now=asked.now).replace(view=view)
        finish(asked.cache.handle(request, asked.below))
    assert asked.metric("requests_total") == {
        ("dns://:53", ".", "a"): 1,
        ("dns://:53", ".", "b"): 2,
    }


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


def test_a_look_shows_what_would_be_answered_and_changes_nothing() -> None:
    asked = Asked("cache 60 {\nprefetch 1 1m\n}", reply([a(60)]), reply([a(60, last=2)]))
    request = make_request(QNAME, now=asked.now)
    shown, told = finish(asked.cache.look(request, asked.below))
    assert ([rr.ttl for rr in shown.answer], told) == ([60], "")
    assert asked.cache.stored_octets() == 0
    asked.ask()
    asked.now += 20
    before = {name: asked.metric(name) for name in ("requests_total", "hits_total", "misses_total")}
    request = make_request(QNAME, now=asked.now)
    shown, told = finish(asked.cache.look(request, asked.below))
    assert [rr.ttl for rr in shown.answer] == [40]
    assert told == "answered from its half success: stored 20 s ago, 40 s left"
    assert {name: asked.metric(name) for name in before} == before
    assert asked.run_beside() == 0


def test_a_look_at_a_stale_entry() -> None:
    asked = Asked("cache 60 {\nserve_stale\n}", reply([a(5)]))
    asked.ask()
    asked.now += 10
    _, told = finish(asked.cache.look(make_request(QNAME, now=asked.now), asked.below))
    assert told == "answered from its half success: stored 10 s ago, stale"


def test_a_look_at_a_name_of_another_zone() -> None:
    asked = Asked("cache example.com", reply([a(60)]))
    shown, told = finish(asked.cache.look(make_request(QNAME, now=asked.now), asked.below))
    assert ([rr.ttl for rr in shown.answer], told) == ([60], "")
