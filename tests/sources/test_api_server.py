"""The source with an API server in memory: what is watched, when it is synced, and missing permissions."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from hsdns.apiserver.access import Access
from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.redaction import HIDDEN
from hsdns.apiserver.reflector import Key
from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.cluster.objects import Deleted, Event, Synced
from hsdns.cluster.source import Report, Surroundings
from hsdns.metrics import Registry
from hsdns.sources.api_access import WatchOptions
from hsdns.sources.api_server import ApiServer
from loadtest.apiserver.fake_cluster import FakeCluster
from tests.support.apiserver.memory_api import MemoryApi
from tests.support.apiserver.scripted_http import Said, ScriptedServer, said


class Around:
    """The surroundings of a source."""

    def __init__(self) -> None:
        self.random = Random(1)
        self.metrics = Registry()

    def clock(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return 1_700_000_000.0


class Connect:
    """The connection to a cluster in memory."""

    is_in_cluster = False

    def __init__(self, api: MemoryApi) -> None:
        self.api = api

    def __call__(self, around: Surroundings, report: Report) -> Transport:
        return self.api

    def check(self) -> list[str]:
        return ["no token"]


class Harness:
    """A running source."""

    def __init__(self, cluster: FakeCluster, options: WatchOptions) -> None:
        self.api = MemoryApi(cluster)
        self.around = Around()
        self.events: list[str] = []
        self.log: list[str] = []
        self.settled = 0
        self.broken: str = ""
        self.source = ApiServer(Connect(self.api), options, self.settle)
        self.source.reject = self.reject
        self._changed = asyncio.Event()

    def reject(self, kind: str, key: Key, reason: str) -> None:
        self.report(0, f"{kind} {'/'.join(key)}: {reason}")

    def settle(self) -> None:
        self.settled += 1

    def deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            if not isinstance(event, Synced) and event.object.metadata.name == self.broken:
                raise ZeroDivisionError
        for event in events:
            if isinstance(event, Synced):
                self.events.append("synced")
                continue
            meta = event.object.metadata
            sign = "-" if isinstance(event, Deleted) else "+"
            self.events.append(
                f"{sign}{type(event.object).__name__} {'/'.join(filter(None, (meta.namespace, meta.name)))}"
            )
        self._changed.set()

    def report(self, level: int, message: str) -> None:
        self.log.append(message)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def watching(cluster: FakeCluster, options: WatchOptions) -> AsyncIterator[Harness]:
    harness = Harness(cluster, options)
    task = asyncio.create_task(
        harness.source.watch(harness.deliver, harness.report, harness.around)
    )
    try:
        yield harness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert harness.api.closed


def service(name: str, namespace: str = "shop") -> dict[str, Any]:
    return {"kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": {}}


def small_cluster() -> FakeCluster:
    cluster = FakeCluster()
    for namespace in ("shop", "other"):
        cluster.apply({"kind": "Namespace", "metadata": {"name": namespace}})
        cluster.apply(service("web", namespace))
        cluster.apply({"kind": "Pod", "metadata": {"name": "web-0", "namespace": namespace}})
        cluster.apply(
            {
                "kind": "EndpointSlice",
                "metadata": {"name": "web-x", "namespace": namespace},
                "addressType": "IPv4",
                "endpoints": None,
            }
        )
    return cluster


ALL = ["+EndpointSlice other/web-x", "+EndpointSlice shop/web-x", "+Namespace other", "+Namespace shop",
       "+Service other/web", "+Service shop/web"]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(WatchOptions(), ALL, id="usual"),
        pytest.param(WatchOptions(pods=True), ["+Pod other/web-0", "+Pod shop/web-0", *ALL], id="with pods"),
        pytest.param(WatchOptions(endpoints=False), ALL[2:], id="without slices"),
        pytest.param(WatchOptions(imports=True), [*ALL, "+ServiceImport shop/all"], id="with imports"),
        pytest.param(
            WatchOptions(imports=True, endpoints=False),
            [*ALL[2:], "+EndpointSlice shop/all-x", "+ServiceImport shop/all"],
            id="with imports and without slices of Services",
        ),
        pytest.param(WatchOptions(imports=True, namespace_labels="dns=yes"), [*ALL[:2], *ALL[4:]], id="imports by label"),
        pytest.param(WatchOptions(labels="app=web"), ALL[2:4], id="by label"),
        pytest.param(WatchOptions(namespace_labels="dns=yes"), [*ALL[:2], *ALL[4:]], id="namespaces by label"),
        pytest.param(WatchOptions(namespaces=("shop",)), ALL, id="allowed namespaces are watched like others"),
    ],
)  # fmt: skip
def test_what_is_watched(options: WatchOptions, expected: list[str]) -> None:
    async def run() -> None:
        cluster = small_cluster()
        if options.imports:
            cluster.apply({**service("all"), "kind": "ServiceImport"})
        if not options.endpoints and options.imports:
            labels = {"multicluster.kubernetes.io/service-name": "all"}
            meta = {"name": "all-x", "namespace": "shop", "labels": labels}
            cluster.apply({"kind": "EndpointSlice", "metadata": meta, "addressType": "IPv4"})
        async with watching(cluster, options) as harness:
            await harness.until(lambda: "synced" in harness.events)
            assert harness.events[-1] == "synced"
            assert sorted(harness.events[:-1]) == sorted(expected)
            assert harness.settled == 1

    asyncio.run(run())


def test_synced_comes_once_and_after_everything() -> None:
    async def run() -> None:
        cluster = small_cluster()
        cluster.hold_sync()
        async with watching(cluster, WatchOptions()) as harness:
            await harness.until(lambda: len(harness.events) == len(ALL))
            assert "synced" not in harness.events
            cluster.release_sync()
            await harness.until(lambda: "synced" in harness.events)
            cluster.expire_watches()
            cluster.apply(service("late"))
            await harness.until(lambda: "+Service shop/late" in harness.events)
            assert harness.events.count("synced") == 1

    asyncio.run(run())


def test_namespaces_are_watched_one_by_one_where_the_whole_is_forbidden() -> None:
    async def run() -> None:
        cluster = small_cluster()
        for plural in ("services", "endpointslices"):
            cluster.grant(plural, "shop", "empty")
        cluster.revoke("namespaces")
        async with watching(cluster, WatchOptions(namespaces=("shop", "empty"))) as harness:
            await harness.until(lambda: "synced" in harness.events)
            assert sorted(harness.events) == [
                "+EndpointSlice shop/web-x",
                "+Namespace empty",
                "+Namespace shop",
                "+Service shop/web",
                "synced",
            ]
            cluster.apply(service("late"))
            await harness.until(lambda: "+Service shop/late" in harness.events)
            assert sorted(line for line in harness.log if "watch services" in line) == [
                "this account may not watch services in the whole cluster; "
                "watching namespaces shop empty instead"
            ]
            assert [line for line in harness.log if "assuming that it exists" in line]

    asyncio.run(run())


def test_rights_over_namespaces_by_name_are_used() -> None:
    async def run() -> None:
        cluster = small_cluster()
        cluster.grant("namespaces", "shop")
        async with watching(cluster, WatchOptions(namespaces=("shop",))) as harness:
            await harness.until(lambda: "synced" in harness.events)
            assert "+Namespace shop" in harness.events
            cluster.delete({"kind": "Namespace", "metadata": {"name": "shop"}})
            await harness.until(lambda: "-Namespace shop" in harness.events)

    asyncio.run(run())


def test_without_namespaces_a_forbidden_scope_is_retried() -> None:
    async def run() -> None:
        cluster = small_cluster()
        cluster.revoke("services")
        async with watching(cluster, WatchOptions()) as harness:
            await harness.until(lambda: bool(harness.log))
            assert "the server denies access (403)" in harness.log[0]
            assert "grant this account list and watch on it" in harness.log[0]
            assert "synced" not in harness.events
            cluster.grant("services")
            await harness.until(lambda: "synced" in harness.events)

    asyncio.run(run())


def test_an_event_that_cannot_be_handled_is_dropped_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        cluster = small_cluster()
        async with watching(cluster, WatchOptions()) as harness:
            await harness.until(lambda: "synced" in harness.events)
            harness.broken = "bad"
            cluster.apply(service("bad"))
            cluster.apply(service("good"))
            await harness.until(lambda: "+Service shop/good" in harness.events)
        assert "cannot handle shop/bad; it is ignored" in caplog.text

    asyncio.run(run())


def test_a_malformed_object_is_reported() -> None:
    async def run() -> None:
        cluster = small_cluster()
        async with watching(cluster, WatchOptions()) as harness:
            await harness.until(lambda: "synced" in harness.events)
            cluster.apply({**service("bad"), "spec": 5})
            await harness.until(lambda: bool(harness.log))
            assert harness.log == [
                "Service shop/bad: Expected `object`, got `int` - at `$.object.spec`"
            ]

    asyncio.run(run())


def test_silence_and_check() -> None:
    async def run() -> None:
        async with watching(small_cluster(), WatchOptions()) as harness:
            assert harness.source.silence(0.0) == float("inf")
            await harness.until(lambda: "synced" in harness.events)
            now = asyncio.get_running_loop().time()
            assert harness.source.silence(now + 7) == pytest.approx(7.0, abs=1.0)
            assert harness.source.check() == ["no token"]

    asyncio.run(run())


def test_objects_lists_beside_the_watches() -> None:
    async def run() -> None:
        cluster = small_cluster()
        for number in range(1200):
            cluster.apply(service(f"s-{number}"))
        async with watching(cluster, WatchOptions()) as harness:
            await harness.until(lambda: "synced" in harness.events)
            found = await harness.source.objects()
            assert len(found) == 1206
            cluster.revoke("services")
            with pytest.raises(Unreachable, match=r"services may not be read: .* \(403\)"):
                await harness.source.objects()

    asyncio.run(run())


def test_nothing_is_delivered_before_the_first_response() -> None:
    def deliver(events: Sequence[Event]) -> None:
        raise AssertionError(events)

    source = ApiServer(Connect(MemoryApi(FakeCluster())), WatchOptions())
    source.load(deliver, lambda level, message: None)


TOKEN = "s3cret-Token/of+this-account"
ECHO = f"you are Authorization: Bearer {TOKEN}"
STATUS = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": ECHO}


@pytest.mark.sockets
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(said("401 Unauthorized", ECHO.encode()), id="401-text"),
        pytest.param(said("403 Forbidden", json.dumps(STATUS).encode()), id="403-status"),
        pytest.param(said("403 Forbidden", f"<html><p>{ECHO}</p></html>".encode()), id="403-html"),
        pytest.param(said("403 Forbidden", f"{'x' * 90}{TOKEN}".encode()), id="cut-in-the-middle"),
        pytest.param(said("502 Bad Gateway", TOKEN.encode()), id="502-token-alone"),
        pytest.param(said("200 OK", f"<html>{TOKEN}\n</html>".encode()), id="200-html"),
        pytest.param(
            said("200 OK", json.dumps({"type": "ERROR", "object": STATUS}).encode() + b"\n"),
            id="error-event",
        ),
        pytest.param(said("200 OK", b"{}", "keep", f"Content-Encoding: {TOKEN}"), id="header"),
        pytest.param(Said(f"Bearer {TOKEN}\r\n\r\n".encode(), "close"), id="no-http"),
    ],
)
def test_token_that_the_server_echoes_is_not_reported(answer: Said) -> None:
    """Neither by the watches nor by a list beside them."""

    async def test() -> None:
        async with ScriptedServer(lambda head: answer) as server:
            reported = asyncio.Event()
            lines: list[str] = []

            def report(level: int, message: str) -> None:
                lines.append(message)
                reported.set()

            class ToServer(Connect):
                def __init__(self) -> None:
                    pass

                def __call__(self, around: Surroundings, report: Report) -> Transport:
                    access = Access(server.url, authorization=f"Bearer {TOKEN}")
                    return ApiClient(Fixed(access), around.metrics, around.clock, pytest.fail)

            source = ApiServer(ToServer(), WatchOptions())
            watching = asyncio.create_task(source.watch(lambda events: None, report, Around()))
            async with asyncio.timeout(20):
                await reported.wait()
            with pytest.raises(Unreachable) as caught:
                await source.objects()
            outages = source.outages()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            text = "\n".join([*lines, *outages, str(caught.value)])
            assert "cannot watch" in text
            # Of what is not HTTP nothing is quoted.
            assert (HIDDEN in text) is ("does not speak HTTP" not in text)
            assert TOKEN[:10] not in text

    asyncio.run(test())


class Fixed:
    """An AccessSource whose access never changes."""

    def __init__(self, access: Access) -> None:
        self.server = access.server
        self._access = access

    def check(self) -> list[str]:
        return []

    async def current(self) -> Access:
        return self._access

    def invalidate(self, access: Access) -> None:
        pass


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({}, {}, {}),
        ({"labels": "a=b"}, {"labels": "a=b"}, {"labels": "a=b"}),
        ({"labels": "a=b"}, {"labels": "c"}, {}),
        ({"namespace_labels": "a"}, {}, {}),
        ({"namespaces": ("b",)}, {"namespaces": ("a", "b")}, {"namespaces": ("a", "b")}),
        ({"namespaces": ("b",)}, {}, {}),
        ({"endpoints": False}, {"endpoints": False}, {"endpoints": False}),
        ({"endpoints": False}, {}, {}),
        ({"pods": True}, {"imports": True}, {"pods": True, "imports": True}),
    ],
)
def test_the_union_watches_what_either_needs(
    one: dict[str, Any], other: dict[str, Any], both: dict[str, Any]
) -> None:
    options = WatchOptions(**one), WatchOptions(**other)
    assert options[0].union(options[1]) == options[1].union(options[0]) == WatchOptions(**both)
