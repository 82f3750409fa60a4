"""/v1/top: pictures of a whole server, and the parts of a picture."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hsdns.cluster.objects import CHANGE_TIME, EndpointSlice, Object
from hsdns.explanation.explain import Explainer
from hsdns.fastpath.hit_records import LAST_QUERIES, SAMPLE
from hsdns.metrics import TIME_BUCKETS
from hsdns.plugins.forward import Forward
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control import explain
from hsdns.server.control import queries as module
from hsdns.server.control.cluster import MOST_CHANGES, ServedChanges
from hsdns.server.control.explain import RESOLVES, Causes, FailingName, Why
from hsdns.server.control.queries import (
    DURATIONS,
    MOST_FAILING,
    MOST_SLOW,
    MOST_WASTED,
    Past,
    QueryFilter,
    Rates,
    Upstreams,
    failing,
    search_waste,
    slowest,
    wasted,
)
from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name
from tests.server.control.served import BLOCK, KUBERNETES, MORE, MemoryDoor, Served, served
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, service, upserts
from tests.support.coroutines.eager import finish

ZONES = (Name.from_text("cluster.local."),)
NOW = 5000.0
TURN = Turn(lambda: 0.0)  # one without an end


def seen(
    words: str,
    *,
    client: str = "10.0.0.1",
    time: float = NOW,
    seconds: float = 0.001,
    weight: float = 1.0,
    is_hit: bool = False,
) -> SeenQuery:
    """A query from its name, rcode and type: `web.shop NXDOMAIN AAAA`; A by default, "-" for no reply."""
    name, rcode, *rrtype = words.split()
    return SeenQuery(
        time,
        "dns://:53",
        client,
        "udp",
        Name.from_text(name),
        rrtype[0] if rrtype else "A",
        None if rcode == "-" else rcode,
        seconds,
        is_hit,
        False,
        100,
        weight,
    )


pytestmark = pytest.mark.sockets
WEB, GONE = "web.shop.svc.cluster.local", "gone.shop.svc.cluster.local"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.02)


TEXT = BLOCK.replace("cluster.local in-addr.arpa {", "cluster.local:PORT in-addr.arpa:PORT {")


async def pictures(
    server: Served, page: str, *names: str, until: tuple[str, ...]
) -> dict[str, Any]:
    """Ask for names while a reader looks, until lists of the picture have something."""
    async with server.client.get(f"http://localhost{page}") as response:
        assert (response.status, response.content_type) == (200, "application/jsonl")
        await response.content.readline()  # the reader is there
        for name in names:
            await server.reloadable.ask(name)
            await server.reloadable.ask_tcp(name)
        server.apply(*upserts(service("shop/db", "10.96.7.8")))
        while True:
            line = await asyncio.wait_for(response.content.readline(), 20)
            found: dict[str, Any] = json.loads(line)
            if all(found[each] for each in until):
                return found


async def test_a_stream_of_pictures() -> None:
    async with served(TEXT) as server:
        found = await pictures(server, "/v1/top", WEB, GONE, until=("failing", "changes"))
        (failing,) = found["failing"]
        assert failing["per_second"] > 0
        assert failing["last"] <= found["time"]
        kept = ("name", "type", "rcode", "cause")
        assert [failing[each] for each in kept] == [
            f"{GONE}.", "A", "NXDOMAIN", "there is no Service shop/gone",
        ]  # fmt: skip
        names = {each["name"] for each in found["slowest"]}
        assert names == {f"{WEB}.", f"{GONE}."}
        assert found["changes"][0]["record"] == "10.96.7.8"
        assert (found["search_waste"], found["upstreams"]) == ([], [])


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("/v1/top?namespace=shop", [f"{GONE}."]),
        ("/v1/top?namespace=SHOP", [f"{GONE}."]),
        ("/v1/top?name=x.test.svc.cluster.local", ["x.test.svc.cluster.local."]),
        ("/v1/top?name=test.svc.cluster.local.&namespace=test", ["x.test.svc.cluster.local."]),
    ],
)
async def test_filters(page: str, names: list[str]) -> None:
    async with served(TEXT) as server:
        found = await pictures(server, page, GONE, "x.test.svc.cluster.local", until=("failing",))
        assert [each["name"] for each in found["failing"]] == names


async def test_readers_of_a_selection_share_its_pictures() -> None:
    """`time` and `uptime_seconds` are those of the making: equal lines are one picture."""
    async with served(TEXT) as server, AsyncExitStack() as stack:
        read = []
        for page in ("/v1/top", "/v1/top", "/v1/top?namespace=other"):
            asked = server.client.get(f"http://localhost{page}")
            read.append((await stack.enter_async_context(asked)).content.readline)
        first, second, other = read
        await server.reloadable.ask(GONE)
        while b'"failing":[]' in (shared := await second()):
            pass
        while (own := await other()) < shared:
            pass
        seen = [await first()]
        while seen[-1] < max(shared, own):
            seen.append(await first())
        assert shared in seen
        assert own not in seen


COUNTED = KUBERNETES.replace("kubernetes", "prometheus\nkubernetes")
REQUEST = ("dns://:53", "cluster.local.", "", "udp", "1")
RESPONSE = ("dns://:53", "cluster.local.", "")


def counted(looked: MemoryDoor, name: str, labels: tuple[str, ...], count: int) -> None:
    metric: Any = next(each for each in looked.metrics if each.name == name)
    metric.inc(labels, count)


def test_from_the_metrics() -> None:
    looked = MemoryDoor(COUNTED)
    rates = Rates(looked.door)
    lookups = looked.metrics.counter("hsdns_table_lookups_total", ("server", "result"))
    for count in (1000, 30):
        counted(looked, "coredns_dns_requests_total", (*REQUEST, "A"), count)
        counted(
            looked, "coredns_dns_requests_total", ("dns://:53", "dropped", "", "tcp", "2", "A"), 10
        )
        counted(looked, "coredns_dns_responses_total", (*RESPONSE, "NXDOMAIN", ""), 20)
        counted(looked, "coredns_dns_responses_total", (*RESPONSE, "NOERROR", ""), 20)
        for result in ("hit", "region", "miss"):
            lookups.inc(("dns://:53", result), 10)
        if count == 1000:
            rates.take()
            looked.now += 2
    assert rates.take() == {
        "queries_per_second": 20.0,
        "table_share": 0.5,
        "by_type": {"A": 20.0},
        "by_rcode": {"NOERROR": 10.0, "NXDOMAIN": 10.0},
        "exact": True,
    }  # fmt: skip
    looked.now += 1
    assert rates.take() == {
        "queries_per_second": 0.0, "table_share": None, "by_type": {}, "by_rcode": {}, "exact": True,
    }  # fmt: skip


@pytest.mark.parametrize("times", [1, 3])
def test_from_the_tap(times: int) -> None:
    """The number of queries is exact, also where only a share of them is taken."""
    looked = MemoryDoor()
    with looked.queries.looking():
        rates = Rates(looked.door)
        looked.asked("web.shop.svc.cluster.local.", count=times * SAMPLE)
        looked.now += 1
        found = rates.take()
    assert found == {
        "queries_per_second": times * SAMPLE, "table_share": 0.0, "by_type": {"A": times * SAMPLE},
        "by_rcode": {"NOERROR": times * SAMPLE}, "exact": times == 1,
    }  # fmt: skip


CAUSES = ".:PORT {\nbind 127.0.0.1\ncontrol c.sock\nkubernetes cluster.local {\nsource manifests shop.yaml more.yaml\n}\n}\n"
FORWARD = CAUSES.replace("}\n}\n", "}\nforward . 192.0.2.1 192.0.2.2\n}\n")
NARROW = CAUSES.replace(".:PORT", "cluster.local:PORT")
SHOP = "shop.svc.cluster.local."
UPSTREAMS = "forwarded to 192.0.2.1:53, 192.0.2.2:53"


def a_failing(name: str, rcode: str = "NXDOMAIN", rrtype: str = "A") -> FailingName:
    return FailingName(Name.from_text(name), rrtype, rcode)


@pytest.fixture
def _more() -> None:
    Path("more.yaml").write_text(MORE)


def causes(server: Served) -> Causes:
    return Causes(server.reloadable.server.door)


@pytest.mark.parametrize(
    ("corefile", "asked", "sentence"),
    [
        (CAUSES, a_failing(f"db.{SHOP}"), "0 of 1 endpoints of Service shop/db are ready: pod db-0 is not ready: ContainersNotReady; publishNotReadyAddresses is false"),
        (CAUSES, a_failing(f"gone.{SHOP}", rrtype="TYPE65400"), "there is no Service shop/gone"),
        (CAUSES, a_failing(f"web.{SHOP}", "SERVFAIL"), "queried from the server's own host, it has an answer now"),
        (NARROW, a_failing("www.example.org.", "REFUSED"), "no server block has a zone for the name"),
        (FORWARD, a_failing("www.example.org."), f"{UPSTREAMS}, which answered NXDOMAIN"),
        (FORWARD, a_failing("www.example.org.", "SERVFAIL"), f"{UPSTREAMS}, which answered SERVFAIL"),
        (FORWARD, a_failing(f"gone.{SHOP}"), "there is no Service shop/gone"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_more")
async def test_causes(corefile: str, asked: FailingName, sentence: str) -> None:
    async with served(corefile) as server:
        assert [each.cause for each in await causes(server).of([asked])] == [sentence]


@pytest.mark.usefixtures("_more")
async def test_a_cause_is_found_again_when_the_cluster_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not at each change."""
    async with served(CAUSES) as server:
        found = causes(server)
        gone = a_failing(f"gone.{SHOP}")
        before = await found.of([gone])
        server.apply(*upserts(service("shop/gone", "10.96.0.9")))
        assert await found.of([gone]) == before
        monkeypatch.setattr(explain, "REFRESH", 0.0)
        assert await found.of([gone]) == [Why(RESOLVES)]


@pytest.mark.usefixtures("_more")
async def test_an_explanation_that_fails_costs_its_own_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    explain = Explainer.explain

    async def fail(self: Explainer, qname: Name, *of: object) -> object:
        await asyncio.sleep(0)
        if qname.labels[0] == b"bad":
            raise ZeroDivisionError
        return await explain(self, qname, *of)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(Explainer, "explain", fail)

    with caplog.at_level(logging.ERROR):
        async with served(CAUSES) as server:
            found = await causes(server).of([a_failing(f"bad.{SHOP}"), a_failing(f"gone.{SHOP}")])
            assert [each.cause for each in found] == [
                "this could not be explained; the server's log says why",
                "there is no Service shop/gone",
            ]
    assert f"bad.{SHOP} A could not be explained" in caplog.messages


def test_failing() -> None:
    found = [
        seen("ok.example NOERROR", time=1.0),
        seen("a.example NXDOMAIN", time=2.0),
        seen("A.example NXDOMAIN", time=4.0, weight=2.0),
        seen("a.example NXDOMAIN AAAA", time=3.0),
        seen("a.example SERVFAIL", time=5.0),
        seen("b.example -", time=6.0, weight=9.0),
        seen("vain.example NXDOMAIN", time=7.0),
    ]
    shown = finish(failing(found, {id(found[-1])}, TURN))
    assert [(each.name.to_text(), each.type, each.rcode, each.queries, each.last) for each in shown] == [
        ("b.example.", "A", "no reply", 9.0, 6.0),
        ("a.example.", "A", "NXDOMAIN", 3.0, 4.0),
        ("a.example.", "AAAA", "NXDOMAIN", 1.0, 3.0),
        ("a.example.", "A", "SERVFAIL", 1.0, 5.0),
    ]  # fmt: skip
    many = [seen(f"n{number}.example NXDOMAIN") for number in range(MOST_FAILING + 1)]
    assert len(finish(failing(many, set(), TURN))) == MOST_FAILING


SEARCH = "shop.svc.cluster.local", "svc.cluster.local", "cluster.local"


@pytest.mark.parametrize(
    ("queries", "vain"),
    [
        pytest.param([*(f"www.example.org.{each} NXDOMAIN" for each in SEARCH), "www.example.org NOERROR"], [0, 1, 2], id="outside"),
        pytest.param(["db.prod.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [0], id="other namespace"),
        pytest.param(["db.prod.svc.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [0, 1], id="with svc"),
        pytest.param(["db.prod.svc.cluster.local.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [0], id="in full"),
        pytest.param(["WWW.example.org.shop.svc.cluster.local NXDOMAIN", "www.EXAMPLE.org NOERROR"], [0], id="case"),
        pytest.param(["www.example.org NOERROR", "www.example.org.shop.svc.cluster.local NXDOMAIN"], [1], id="in any order"),
        pytest.param(["www.example.org.shop.svc.cluster.local NXDOMAIN AAAA", "www.example.org NOERROR A"], [0], id="another type"),
        pytest.param([*(f"gone.example.org.{each} NXDOMAIN" for each in SEARCH), "gone.example.org NXDOMAIN"], [], id="fails in every form"),
        pytest.param(["db.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [], id="same Service elsewhere"),
        pytest.param(["www.example.org.shop.svc.cluster.local SERVFAIL", "www.example.org NOERROR"], [], id="another rcode"),
        pytest.param(["www.example.org.corp.example NXDOMAIN", "www.example.org NOERROR"], [], id="not of the cluster"),
        pytest.param(["cluster.local NXDOMAIN", "a.svc.cluster.local NXDOMAIN", "svc.cluster.local NOERROR"], [], id="short names"),
    ],
)  # fmt: skip
def test_wasted(queries: list[str], vain: list[int]) -> None:
    found = [seen(each) for each in queries]
    assert finish(wasted(found, ZONES, TURN)) == {id(found[at]) for at in vain}


def test_the_worst_askers_come_first() -> None:
    found = [
        seen("a.shop.svc.cluster.local NXDOMAIN", client="10.0.0.1"),
        seen("a NOERROR", client="10.0.0.1"),
        seen("a.svc.cluster.local NXDOMAIN", client="10.0.0.2", weight=2.5),
        seen("b.svc.cluster.local NXDOMAIN", client="10.0.0.2", weight=2.5),
        seen("c NOERROR", client="10.0.0.3"),
    ]
    vain = {id(found[at]) for at in (0, 2, 3)}
    assert finish(search_waste(found, vain, TURN)) == [
        {"client": "10.0.0.2", "queries": 5, "wasted": 5, "example": "b.svc.cluster.local."},
        {"client": "10.0.0.1", "queries": 2, "wasted": 1, "example": "a.shop.svc.cluster.local."},
    ]
    many = [seen("a NXDOMAIN", client=f"10.0.0.{number}") for number in range(MOST_WASTED + 1)]
    assert len(finish(search_waste(many, {id(each) for each in many}, TURN))) == MOST_WASTED


def test_slowest() -> None:
    found = [
        seen("a.example NOERROR", seconds=0.002),
        seen("A.example NOERROR", seconds=0.0315),
        seen("a.example NOERROR AAAA", seconds=0.5),
        seen("a.example NOERROR", seconds=0.001),
    ]
    assert finish(slowest(found, TURN)) == [
        {"name": "a.example.", "type": "AAAA", "duration_ms": 500.0, "server": "dns://:53"},
        {"name": "A.example.", "type": "A", "duration_ms": 31.5, "server": "dns://:53"},
    ]
    many = [seen(f"n{number}.example NOERROR") for number in range(MOST_SLOW + 1)]
    assert len(finish(slowest(many, TURN))) == MOST_SLOW


FORWARDS = ".:53 {\nforward example.org 192.0.2.1 192.0.2.2\nforward . 192.0.2.1:53\n}\n"


def test_upstreams() -> None:
    looked = MemoryDoor(FORWARDS)
    (forward,) = [each for each in looked.server.configuration.plugins if isinstance(each, Forward)]
    asyncio.run(forward.start(looked.server.runtime))
    durations = looked.metrics.histogram(DURATIONS, TIME_BUCKETS, ("proxy_name", "to", "rcode"))
    durations.observe(0.5, ("forward", "192.0.2.1:53", "NOERROR"))
    forward.routes[0].upstreams[0].failed = 7
    upstreams = Upstreams(looked.door)
    for rcode in ("NOERROR", "NXDOMAIN"):
        durations.observe(0.0003, ("forward", "192.0.2.1:53", rcode))
    durations.observe(0.5, ("forward", "192.0.2.9:53", "NOERROR"))
    forward.routes[0].upstreams[0].failed += 1
    forward.routes[1].upstreams[0].failed += 2
    looked.now += 2
    assert upstreams.take() == [
        {"address": "192.0.2.1:53", "per_second": 1.0, "failures": 3, "p50_ms": 0.375},
        {"address": "192.0.2.2:53", "per_second": 0.0, "failures": 0, "p50_ms": None},
    ]
    forward.routes[0].upstreams[0].failed = forward.routes[1].upstreams[0].failed = 1
    looked.now += 1
    assert [each["failures"] for each in upstreams.take()] == [2, 0], (
        "counted from 0 after a reload"
    )


OBJECTS: list[Object] = [namespace("shop"), service("shop/db"), service("shop/web", "10.96.0.1")]
WALL = 1_700_001_000.0  # of the memory server's clock


def written(at: str, *endpoints: str, version: str = "1") -> EndpointSlice:
    """A slice whose controller has noted a time."""
    found = endpoint_slice("shop/db-1", "db", *endpoints, version=version)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, annotations={CHANGE_TIME: at})
    )


class Following:
    def __init__(self, wanted: QueryFilter = QueryFilter()) -> None:  # noqa: B008 - a tuple
        self.looked = MemoryDoor(objects=OBJECTS)
        self.looked.door.wall = lambda: WALL
        (self.block,) = [each for each in self.looked.server.configuration.plugins if isinstance(each, Kubernetes)]  # fmt: skip
        self.changes = ServedChanges(self.looked.door, wanted.has)

    def take(self, *objects: Any) -> list[tuple[str, str, str | None, float | None]]:
        self.block.store.apply(upserts(*objects))
        rows = finish(self.changes.take(Turn(lambda: 0.0)))
        return [(each["change"], f"{each['record']} {each['name']}", each["written"], each["served_ms"]) for each in rows]  # fmt: skip


def test_what_failed_before_anyone_looked() -> None:
    """A name is remembered for 15 minutes, without the queries of a search list; a cluster IP without endpoints fails."""
    objects = [*OBJECTS, endpoint_slice("shop/db-1", "db", "10.0.0.1")]
    looked = MemoryDoor(objects=objects)
    looked.queries.keeps, looked.queries.tap.mode = True, LAST_QUERIES
    past = Past()
    for name, rcode in (("web", 0), ("db", 0), ("gone", 3), ("www.example.org", 3)):
        looked.asked(f"{name}.{SHOP}", rcode)
    looked.asked("www.example.org.")
    for seconds, found in ((1, []), (6, ["gone", "web"]), (600, ["gone", "web"]), (901, [])):
        looked.now = 1000.0 + seconds
        looked.queries.collect()
        finish(past.note(looked.door, TURN))
        failed = sorted(each.name.to_text() for each in past.failed(QueryFilter(), []))
        assert failed == [f"{name}.{SHOP}" for name in found], seconds


DB = "db.shop.svc.cluster.local."


def test_what_is_written_is_served() -> None:
    following = Following()
    assert following.take() == []
    slice_ = written("2023-11-14T22:29:59.5Z", "10.0.0.1")
    (address, port) = following.take(slice_)
    time = "2023-11-14T22:29:59.500+00:00"
    assert address == ("added", f"10.0.0.1 {DB}", time, 500.0)
    assert port[2:] == (time, 500.0)


def test_what_changed_before_the_reader_came() -> None:
    following = Following()
    for objects in (
        [endpoint_slice("shop/web-1", "web", "10.0.0.9")],
        [service("shop/web", "10.96.0.2", version="2")],
    ):
        following.block.store.apply(upserts(*objects))
    following.block.store.apply(deletes(endpoint_slice("shop/web-1", "web")))
    web = "web.shop.svc.cluster.local."
    assert [row[:2] for row in following.take()] == [
        ("added", f"endpoint 10.0.0.9 {web}"),
        ("removed", f"10.96.0.1 {web}"),
        ("added", f"10.96.0.2 {web}"),
        ("removed", f"endpoint 10.0.0.9 {web}"),
    ]  # fmt: skip
    assert len(following.take()) == 4


def test_filter_and_bound() -> None:
    following = Following(QueryFilter(name=Name.from_text(DB)))
    assert following.take(service("shop/web", "10.96.0.2", version="2")) == []
    many = [f"10.0.1.{number}" for number in range(MOST_CHANGES + 5)]
    found = following.take(endpoint_slice("shop/db-1", "db", *many))
    assert len(found) == MOST_CHANGES
