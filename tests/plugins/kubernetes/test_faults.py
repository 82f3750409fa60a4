"""Rules about the state of a cluster, over a kubernetes block: what is answered while they stand, and after it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.apiserver.transport import Obstacle
from hsdns.chain import Request
from hsdns.cluster.objects import Event
from hsdns.faults.handler import FaultHandler
from hsdns.faults.rules import Rule, Rules, hits_metric
from hsdns.faults.selector import Zone
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugins.fault import behind, cluster_zones, hold, release, why_never
from hsdns.plugins.k8s_external import K8sExternal
from hsdns.sources.api_access import WatchOptions
from hsdns.sources.api_server import ApiServer
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from loadtest.apiserver.fake_cluster import FakeCluster
from tests.plugins.test_k8s_external import external
from tests.sources.test_api_server import Connect
from tests.support.apiserver.memory_api import MemoryApi
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import deletes, pod, service, upserts
from tests.support.coroutines.eager import finish
from tests.support.effort import tries
from tests.support.plugins.requests import make_request, section
from tests.support.plugins.setup import set_up
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

WEB, DB = "web.testns.svc.cluster.local.", "db.testns.svc.cluster.local."
QUESTIONS = (
    f"{WEB} A",
    f"{WEB} SRV",
    f"{DB} A",
    "1.0.0.10.in-addr.arpa. PTR",
    "cluster.local. SOA",
)


def at(last: int) -> list[Event]:
    """The Service with an address that ends so, 0 for none."""
    version = str(last + 1)
    if not last:
        return deletes(service("testns/web"))
    return upserts(service("testns/web", f"10.0.0.{last}", version=version))


class Faulty:
    """A kubernetes block behind rules, on a scripted clock."""

    def __init__(self, *events: Event) -> None:
        self.cluster = Cluster()
        self.plugin = self.cluster.plugin
        self.rules = Rules(Random(1), hits_metric(Registry()))
        self.cluster.apply(*events)

    @property
    def now(self) -> float:
        return self.cluster.runtime.time

    def wait(self, seconds: float) -> None:
        self.cluster.runtime.time += seconds
        self.cluster.runtime.wall_time += seconds

    def add(self, text: str) -> Rule:
        rule = self.rules.make(read_rule(text.split(), ["dns://:53", "dns://:54"]), self.now, 600.0)
        self.rules.add(rule)
        self.hold()
        return rule

    def hold(self) -> None:
        hold(self, self.rules, [self.plugin], self.cluster.runtime.clock)

    def ask(self, question: str, **fields: Any) -> list[str]:
        """The rcode and the records of a reply."""
        qname, _, qtype = question.partition(" ")
        handler = FaultHandler(self.rules, _no_sleep, _no_lookup)

        async def following(request: Request) -> Reply:
            return await self.plugin.handle(request, _no_lookup)

        request = make_request(qname, qtype or "A", now=self.now, **fields)
        reply = finish(handler.handle(request, following))
        parts = (reply.answer, reply.authority, reply.additional)
        return [str(reply.rcode), *(line for part in parts for line in section(part))]

    def address(self, **fields: Any) -> str:
        """The last octet of the address of the Service, or the rcode."""
        found = self.ask(f"{WEB} A", **fields)
        return found[1].rpartition(".")[2] if found[0] == "0" else found[0]


async def _no_sleep(seconds: float) -> None:
    raise AssertionError("nothing is late")


async def _no_lookup(request: Request) -> Reply:
    raise AssertionError("nothing is passed on")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("web"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 2.5])),
        st.tuples(st.just("ask"), st.sampled_from(QUESTIONS[:4])),
    ),
    max_size=12,
)


@settings(max_examples=tries(30))
@given(STEPS, STEPS, st.sampled_from(["freeze", "lag 2s", "flap 1s"]), STEPS)
def test_as_a_server_with_other_events(before: Any, during: Any, text: str, after: Any) -> None:
    """One whose events ended, or come later; without a rule, and after its end, the server itself."""
    faulty, twin, hits, number = Faulty(), Faulty(), 0, 1
    late: list[tuple[float, list[Event]]] = []
    rule: Rule | None = None

    def run(steps: Any, seconds: float | None) -> None:
        nonlocal number, hits
        for what, value in steps:
            if what == "wait":
                faulty.wait(value)
                twin.wait(value)
            elif what == "web":
                number += 1
                events = (
                    upserts(service("testns/web", f"10.0.0.{value}", version=str(number)))
                    if value
                    else at(0)
                )
                faulty.cluster.apply(*events)
                late.append((faulty.now + (seconds or 0.0), events))
            while late and seconds is not None and late[0][0] <= faulty.now:
                twin.cluster.apply(*late.pop(0)[1])
            if what == "ask":
                newest = _shown(faulty.plugin, value)
                asked = faulty.ask(value)
                is_flapped = text == "flap 1s" and rule is not None and _is_odd(faulty.now, rule)
                if is_flapped:
                    assert _plain(asked) == newest
                else:
                    assert _plain(asked) == _plain(twin.ask(value))
                hits += rule is not None and _plain(asked) != newest
                assert rule is None or rule.hits == hits

    run(before, 0.0)
    rule = faulty.add(text)
    run(during, 2.0 if text == "lag 2s" else None)
    faulty.rules.remove(rule.name)
    faulty.hold()
    rule = None
    for _, events in late:
        twin.cluster.apply(*events)
    late.clear()
    for question in QUESTIONS:
        assert _plain(faulty.ask(question)) == _plain(twin.ask(question))
    run(after, 0.0)
    assert len(faulty.plugin.state.replaced) == 0


def _is_odd(now: float, rule: Rule) -> bool:
    return (now - rule.begun) // 1.0 % 2 == 1


def _shown(plugin: Any, question: str) -> list[str]:
    """The reply of the newest state."""
    qname, _, qtype = question.partition(" ")
    reply = finish(plugin.handle(make_request(qname, qtype), _no_lookup))
    parts = (reply.answer, reply.authority, reply.additional)
    return _plain([str(reply.rcode), *(line for part in parts for line in section(part))])


def _plain(lines: list[str]) -> list[str]:
    """Without serials, which are of the clocks of the two servers."""
    return [line for line in lines if " SOA " not in line]


def test_selectors_see_two_states_at_once() -> None:
    faulty = Faulty(*at(1))
    lagging = faulty.add("lag 5s listener dns://:54")
    frozen = faulty.add("freeze client 10.0.0.7")
    faulty.wait(1.0)
    faulty.cluster.apply(*at(2))
    seen = []
    for seconds in (0.0, 4.9, 0.1):
        faulty.wait(seconds)
        seen.append(
            [
                faulty.address(),
                faulty.address(server="dns://:54"),
                faulty.address(client="10.0.0.7"),
                faulty.address(client="10.0.0.7", server="dns://:54"),
            ]
        )
    assert seen == [["2", "1", "1", "1"], ["2", "1", "1", "1"], ["2", "2", "1", "1"]]
    # Where both are about a query, the rule with the oldest state has the hit; both, where it is the same.
    assert (lagging.hits, lagging.seen, frozen.hits, frozen.seen) == (3, 12, 6, 12)


def test_hits_are_logged_in_order() -> None:
    logs = []
    for _ in range(2):
        faulty = Faulty(*at(1))
        rule = faulty.add("freeze share 0.5 seed 1")
        faulty.cluster.apply(*at(2))
        for _ in range(10):
            faulty.address()
        logs.append((rule.digest, [line for _, line in faulty.rules.lines]))
    assert logs[0] == logs[1]
    assert [(line["hit"], line["query"]) for line in logs[0][1]] == [(1, 1), (2, 4), (3, 5), (4, 6), (5, 9), (6, 10)]  # fmt: skip


def test_what_is_the_same_in_both_states_is_no_hit() -> None:
    faulty = Faulty(*at(1), *upserts(service("testns/db", "10.0.0.9")))
    rule = faulty.add("freeze")
    faulty.ask(f"{WEB} A")
    faulty.cluster.apply(*at(2))
    for question in (f"{DB} A", "nothing.testns.svc.cluster.local. A", f"{WEB} MX"):
        faulty.ask(question)
    assert (rule.hits, rule.seen) == (0, 4)
    faulty.ask(f"{WEB} A")
    assert (rule.hits, rule.seen) == (1, 5)


def test_a_query_that_is_lost_is_no_hit_of_the_state() -> None:
    faulty = Faulty(*at(1))
    frozen, lost = faulty.add("freeze"), faulty.add("drop type A")
    faulty.cluster.apply(*at(2))
    faulty.ask(f"{WEB} A")
    assert (frozen.hits, lost.hits) == (0, 1)


def test_behind() -> None:
    faulty = Faulty(*at(1))
    frozen, lag, flap, other = (faulty.add(each) for each in ("freeze", "lag 3s type A", "flap 2s type TXT", "ttl 1"))  # fmt: skip
    found = []
    for seconds in (0.0, 1.0, 2.0, 2.0):
        faulty.wait(seconds)
        found.append(
            [behind(each, [faulty.plugin], faulty.now) for each in (frozen, lag, flap, other)]
        )
        if seconds < 2.0:
            faulty.cluster.apply(*at(2 + int(seconds)))
    assert found == [
        [0.0, 0.0, 0.0, None], [1.0, 1.0, 1.0, None], [3.0, 2.0, 0.0, None], [5.0, 0.0, 5.0, None],
    ]  # fmt: skip


def test_external_names() -> None:
    faulty = Faulty()
    outside = set_up(K8sExternal, "k8s_external example.org")
    outside.find_handlers([outside, faulty.plugin])
    handler = FaultHandler(faulty.rules, _no_sleep, _no_lookup)

    async def following(request: Request) -> Reply:
        return await outside.handle(request, _no_lookup)

    def ask(qtype: str = "A") -> tuple[int, list[str]]:
        request = make_request("web.testns.example.org.", qtype, now=faulty.now)
        reply = finish(handler.handle(request, following))
        return reply.rcode, [each.rpartition(" ")[2] for each in section(reply.answer)]

    faulty.cluster.apply(*upserts(external("testns/web", "192.0.2.1")))
    rule = faulty.add("freeze")
    faulty.cluster.apply(*deletes(external("testns/web")))
    assert (ask(), rule.hits) == ((0, ["192.0.2.1"]), 1)
    faulty.rules.clear()
    faulty.hold()
    assert ask() == (3, [])


def test_search_list_of_a_pod() -> None:
    faulty = Faulty()
    faulty.cluster = Cluster(pods="verified")
    faulty.plugin = faulty.cluster.plugin
    faulty.cluster.apply(*upserts(pod("testns/a", "10.0.0.7")))
    faulty.add("freeze")
    faulty.cluster.apply(*deletes(pod("testns/a", "10.0.0.7")))
    request = make_request(WEB, client="10.0.0.7", now=faulty.now)
    assert faulty.plugin.search_path(request) is None
    handler = FaultHandler(faulty.rules, _no_sleep, _no_lookup)

    async def following(request: Request) -> Reply:
        assert faulty.plugin.search_path(request) is not None
        return Reply()

    finish(handler.handle(request, following))


ZONES = [
    ("cluster.local", "cluster.local", ["cluster.local."]),
    (".", "cluster.local in-addr.arpa", ["cluster.local.", "in-addr.arpa."]),
    ("shop.svc.cluster.local", "cluster.local", ["shop.svc.cluster.local."]),
    ("example.org", "cluster.local", []),
]


@pytest.mark.parametrize(("block", "zones", "expected"), ZONES)
def test_zones_of_a_cluster(block: str, zones: str, expected: list[str]) -> None:
    zone = Zone("dns://:53", Name.from_text(block), ())
    found = cluster_zones(zone, [Cluster(zones=zones).plugin, object()])
    assert [each.apex.to_text() for each in found] == expected


class Api:
    """A kubernetes block over an API server in memory, and a rule about its watch."""

    def __init__(self) -> None:
        self.source = ApiServer(Connect(MemoryApi(FakeCluster())), WatchOptions())
        self.plugin = Cluster().plugin
        self.plugin.watch.source = self.source
        self.rules = Rules(Random(1), hits_metric(Registry()))
        self.now = 0.0

    def add(self, text: str) -> tuple[Rule, Obstacle]:
        rule = self.rules.make(read_rule(text.split()), self.now, 600.0)
        self.rules.add(rule)
        hold(self, self.rules, [self.plugin], lambda: self.now)
        return rule, self.source.obstacles.all[-1]


@pytest.mark.parametrize(("text", "sentence"), values(TABLES, "what is watched"))
def test_what_is_watched(text: str, sentence: str) -> None:
    assert why_never(read_rule(text.split()), [Api().plugin]) == sentence


@pytest.mark.parametrize(("text", "sentence"), values(TABLES, "no block"))
def test_no_block(text: str, sentence: str) -> None:
    assert why_never(read_rule(text.split()), [object()]) == sentence


def test_no_api_server() -> None:
    block = Faulty().plugin
    assert why_never(read_rule(["freeze"]), [block]) == ""
    assert why_never(read_rule(["watch", "away"]), [block]) == (
        f"no kubernetes block watches an API server; what they read is {block.source}"
    )


def test_obstacle() -> None:
    api = Api()
    rule, found = api.add("watch forbidden services after 5s before 9s times 2 named x")
    assert (found.status, found.by) == (403, 'by the rule "x" of fault')
    seen = []
    for now in (0.0, 5.0, 6.0, 9.0):
        api.now = now
        seen.append((found.cuts("services"), found.next_change(), found.stops("services", "list")))
    assert seen == [
        (False, 5.0, False), (True, 4.0, True), (False, 3.0, False), (False, None, False),
    ]  # fmt: skip
    assert not found.cuts("pods")
    assert not found.stops("pods", "list")
    assert (rule.hits, rule.seen, api.rules.lines[0][1]) == (
        2, 3,
        {"rule": "x", "hit": 1, "query": 2, "resource": "services", "request": "watch", "action": "watch forbidden services"},
    )  # fmt: skip


def test_chance_cuts_nothing() -> None:
    rule, found = Api().add("watch away share 0.5 seed 1")
    assert not found.cuts("services")
    stopped = [found.stops("services", "list") for _ in range(20)]
    assert (stopped.count(True), rule.seen) == (rule.hits, 20)
    assert {True, False} == set(stopped)


def test_release() -> None:
    api = Api()
    api.add("watch away")
    api.add("freeze")
    assert (len(api.source.obstacles.all), api.plugin.state.replaced.is_kept) == (1, True)
    release(api, [api.plugin])
    assert (api.source.obstacles.all, api.plugin.state.replaced.is_kept) == ((), False)
