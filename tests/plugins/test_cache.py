from __future__ import annotations

from collections.abc import Sequence

import pytest

from hsdns.plugins.cache import Cache
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode
from hsdns.wire.message import AD, CD, RD, Reply, unwritten
from hsdns.wire.name import ROOT, Name
from tests.support.drive import finish
from tests.support.requests import Answers, FakeRuntime, make_request, next_with, reply, section
from tests.support.setup import set_up, setup_error

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

    def ask(
        self,
        qname: str = QNAME,
        qtype: str = "A",
        *,
        flags: int = RD,
        edns: Edns | None = None,
        qclass: str = "IN",
        server: str = "dns://:53",
    ) -> Reply:
        request = make_request(
            qname, qtype, flags=flags, edns=edns, now=self.now, qclass=qclass, server=server
        )
        return finish(self.cache.handle(request, self.below))

    @property
    def times_asked(self) -> int:
        return len(self.below.requests)

    def metric(self, name: str) -> dict[tuple[str, ...], float]:
        for metric in self.runtime.metrics:
            if metric.name == f"coredns_cache_{name}":
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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cache 0", "Corefile:2:7: 0 is out of range, allowed is 1 to 2147483647"),
        ("cache -5", "Corefile:2:7: -5 is out of range, allowed is 1 to 2147483647"),
        (
            "cache {\nsuccess\n}",
            'Corefile:3:1: property "success" takes 1 to 3 arguments (capacity, ttl, least ttl), found 0',
        ),
        (
            "cache {\ndenial 1 2 3 4\n}",
            'Corefile:3:1: property "denial" takes 1 to 3 arguments (capacity, ttl, least ttl), found 4',
        ),
        ("cache {\ndenial many\n}", 'Corefile:3:8: "many" is not a whole number'),
        ("cache {\ndenial 1 0\n}", "Corefile:3:10: 0 is out of range, allowed is 1 to 2147483647"),
        (
            "cache {\ndenial 1 1 -1\n}",
            "Corefile:3:12: -1 is out of range, allowed is 0 to 2147483647",
        ),
        (
            "cache {\ndisable\n}",
            'Corefile:3:1: property "disable" takes "success" or "denial" and then zones, found nothing',
        ),
        (
            "cache {\ndisable sucess\n}",
            'Corefile:3:9: "sucess" is not one of: success, denial; did you mean "success"?',
        ),
        (
            "cache {\nprefetch 10\n}",
            'Corefile:3:1: property "prefetch" of cache exists in CoreDNS but not in hsdns yet; remove the line',
        ),
        (
            "cache {\nsucces 10\n}",
            'Corefile:3:1: unknown property "succes" of cache; did you mean "success"?',
        ),
        (
            "cache\ncache",
            'Corefile:3:1: "cache" may stand only once in a server block; merge it with the first',
        ),
    ],
    ids=lambda text: text.replace("\n", " ").partition(":")[0],
)
def test_setup_errors(text: str, sentence: str) -> None:
    assert setup_error(Cache, text) == sentence


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


def test_evictions() -> None:
    asked = Asked("cache {\nsuccess 0\n}", reply((), (), [a()]))
    for number in range(1026):
        asked.ask(f"n{number}.example.org.")
    assert asked.metric("evictions_total") == {("dns://:53", "success", ".", ""): 2}
    assert asked.metric("entries")["dns://:53", "success", ".", ""] == 1024


def test_root_is_every_zone() -> None:
    assert set_up(Cache, "cache").zones == (ROOT,)


def test_a_copy_is_used_only_while_the_cluster_does_not_know_the_name() -> None:
    known: list[bool] = []
    passed_on = reply([a(300)]).replace(still_holds=lambda: not known)
    asked = Asked("cache", passed_on, reply([a(5, last=2)], fresh=True))
    asked.ask()
    assert section(asked.ask().answer) == [a(300)]
    known.append(True)
    assert section(asked.ask().answer) == [a(5, last=2)]
    assert asked.times_asked == 2


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
    ("text", "kind", "zone", "is_disabled"),
    [
        ("cache", "denial", "org.", False),
        ("cache {\ndisable denial\n}", "denial", "org.", True),
        ("cache {\ndisable denial\n}", "success", "org.", False),
        ("cache {\ndisable denial org\n}", "denial", "org.", True),
        ("cache {\ndisable denial org\n}", "denial", "example.org.", True),
        ("cache {\ndisable denial example.org\n}", "denial", "org.", False),
    ],
)
def test_is_disabled(text: str, kind: str, zone: str, is_disabled: bool) -> None:
    assert set_up(Cache, text).is_disabled(kind, Name.from_text(zone)) is is_disabled


def test_fold_counts_as_the_handler_would() -> None:
    one, other = Asked("cache", FRESH), Asked("cache", FRESH)
    for _ in range(4):
        one.ask()
    other.cache.fold("dns://:53", "success", 3, 1)
    for name in ("requests_total", "hits_total", "misses_total"):
        assert other.metric(name) == one.metric(name)
    other.cache.fold("dns://:53", "denial", 0, 0)
    assert other.metric("hits_total") == one.metric("hits_total")
