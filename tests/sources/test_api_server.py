"""The source over an API server in memory: what is watched, when it is synced, what happens where rights are few."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from hsdns.apiserver.reflector import Key
from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.cluster.objects import Deleted, Event, Synced
from hsdns.cluster.source import Report, Surroundings
from hsdns.metrics import Registry
from hsdns.sources.api_server import ApiServer, Wanted
from loadtest.apiserver.fake_cluster import FakeCluster
from tests.support.apiserver.memory_api import MemoryApi


class Around:
    """What a source is given."""

    def __init__(self) -> None:
        self.random = Random(1)
        self.metrics = Registry()

    def clock(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return 1_700_000_000.0


class Connect:
    """The way to a cluster in memory."""

    is_in_cluster = False

    def __init__(self, api: MemoryApi) -> None:
        self.api = api

    def __call__(self, around: Surroundings, report: Report) -> Transport:
        return self.api

    def check(self) -> list[str]:
        return ["no token"]


class RunningSource:
    """A source that is watching."""

    def __init__(self, cluster: FakeCluster, wanted: Wanted) -> None:
        self.api = MemoryApi(cluster)
        self.around = Around()
        self.events: list[str] = []
        self.log: list[str] = []
        self.settled = 0
        self.broken: str = ""
        self.source = ApiServer(Connect(self.api), wanted, self.settle)
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
async def watching(cluster: FakeCluster, wanted: Wanted) -> AsyncIterator[RunningSource]:
    running = RunningSource(cluster, wanted)
    task = asyncio.create_task(
        running.source.watch(running.deliver, running.report, running.around)
    )
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert running.api.closed


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
    ("wanted", "expected"),
    [
        pytest.param(Wanted(), ALL, id="usual"),
        pytest.param(Wanted(pods=True), ["+Pod other/web-0", "+Pod shop/web-0", *ALL], id="with pods"),
        pytest.param(Wanted(endpoints=False), ALL[2:], id="without slices"),
        pytest.param(Wanted(imports=True), [*ALL, "+ServiceImport shop/all"], id="with imports"),
        pytest.param(
            Wanted(imports=True, endpoints=False),
            [*ALL[2:], "+EndpointSlice shop/all-x", "+ServiceImport shop/all"],
            id="with imports and without slices of Services",
        ),
        pytest.param(Wanted(imports=True, namespace_labels="dns=yes"), [*ALL[:2], *ALL[4:]], id="imports by label"),
        pytest.param(Wanted(labels="app=web"), ALL[2:4], id="by label"),
        pytest.param(Wanted(namespace_labels="dns=yes"), [*ALL[:2], *ALL[4:]], id="namespaces by label"),
        pytest.param(Wanted(namespaces=("shop",)), ALL, id="allowed namespaces are watched like others"),
    ],
)  # fmt: skip
def test_what_is_watched(wanted: Wanted, expected: list[str]) -> None:
    async def run() -> None:
        cluster = small_cluster()
        if wanted.imports:
            cluster.apply({**service("all"), "kind": "ServiceImport"})
        if not wanted.endpoints and wanted.imports:
            labels = {"multicluster.kubernetes.io/service-name": "all"}
            meta = {"name": "all-x", "namespace": "shop", "labels": labels}
            cluster.apply({"kind": "EndpointSlice", "metadata": meta, "addressType": "IPv4"})
        async with watching(cluster, wanted) as running:
            await running.until(lambda: "synced" in running.events)
            assert running.events[-1] == "synced"
            assert sorted(running.events[:-1]) == sorted(expected)
            assert running.settled == 1

    asyncio.run(run())


def test_synced_comes_once_and_after_everything() -> None:
    async def run() -> None:
        cluster = small_cluster()
        cluster.hold_sync()
        async with watching(cluster, Wanted()) as running:
            await running.until(lambda: len(running.events) == len(ALL))
            assert "synced" not in running.events
            cluster.release_sync()
            await running.until(lambda: "synced" in running.events)
            cluster.expire_watches()
            cluster.apply(service("late"))
            await running.until(lambda: "+Service shop/late" in running.events)
            assert running.events.count("synced") == 1

    asyncio.run(run())


def test_an_empty_cluster_is_synced() -> None:
    async def run() -> None:
        async with watching(FakeCluster(), Wanted(pods=True)) as running:
            await running.until(lambda: running.events == ["synced"])

    asyncio.run(run())


def test_namespaces_are_watched_one_by_one_where_the_whole_is_forbidden() -> None:
    async def run() -> None:
        cluster = small_cluster()
        for plural in ("services", "endpointslices"):
            cluster.grant(plural, "shop", "empty")
        cluster.revoke("namespaces")
        async with watching(cluster, Wanted(namespaces=("shop", "empty"))) as running:
            await running.until(lambda: "synced" in running.events)
            assert sorted(running.events) == [
                "+EndpointSlice shop/web-x",
                "+Namespace empty",
                "+Namespace shop",
                "+Service shop/web",
                "synced",
            ]
            cluster.apply(service("late"))
            await running.until(lambda: "+Service shop/late" in running.events)
            assert sorted(line for line in running.log if line.startswith("services")) == [
                "services of the whole cluster are forbidden to this account; "
                "watching those of shop empty alone"
            ]
            assert [line for line in running.log if "taken to exist" in line]

    asyncio.run(run())


def test_rights_over_namespaces_by_name_are_used() -> None:
    async def run() -> None:
        cluster = small_cluster()
        cluster.grant("namespaces", "shop")
        async with watching(cluster, Wanted(namespaces=("shop",))) as running:
            await running.until(lambda: "synced" in running.events)
            assert "+Namespace shop" in running.events
            cluster.delete({"kind": "Namespace", "metadata": {"name": "shop"}})
            await running.until(lambda: "-Namespace shop" in running.events)

    asyncio.run(run())


def test_without_namespaces_what_is_forbidden_is_waited_for() -> None:
    async def run() -> None:
        cluster = small_cluster()
        cluster.revoke("services")
        async with watching(cluster, Wanted()) as running:
            await running.until(lambda: bool(running.log))
            assert "the server forbids it (403)" in running.log[0]
            assert "grant list and watch on it" in running.log[0]
            assert "synced" not in running.events
            cluster.grant("services")
            await running.until(lambda: "synced" in running.events)

    asyncio.run(run())


def test_an_event_that_cannot_be_handled_costs_itself_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        cluster = small_cluster()
        async with watching(cluster, Wanted()) as running:
            await running.until(lambda: "synced" in running.events)
            running.broken = "bad"
            cluster.apply(service("bad"))
            cluster.apply(service("good"))
            await running.until(lambda: "+Service shop/good" in running.events)
        assert "shop/bad could not be handled and is left out" in caplog.text

    asyncio.run(run())


def test_an_object_of_a_wrong_form_is_reported() -> None:
    async def run() -> None:
        cluster = small_cluster()
        async with watching(cluster, Wanted()) as running:
            await running.until(lambda: "synced" in running.events)
            cluster.apply({**service("bad"), "spec": 5})
            await running.until(lambda: bool(running.log))
            assert running.log == [
                "Service shop/bad: Expected `object`, got `int` - at `$.object.spec`"
            ]

    asyncio.run(run())


def test_silence_and_check() -> None:
    async def run() -> None:
        async with watching(small_cluster(), Wanted()) as running:
            assert running.source.silence(0.0) == float("inf")
            await running.until(lambda: "synced" in running.events)
            now = asyncio.get_running_loop().time()
            assert running.source.silence(now + 7) == pytest.approx(7.0, abs=1.0)
            assert running.source.check() == ["no token"]

    asyncio.run(run())


def test_objects_lists_beside_the_watches() -> None:
    async def run() -> None:
        cluster = small_cluster()
        for number in range(1200):
            cluster.apply(service(f"s-{number}"))
        async with watching(cluster, Wanted()) as running:
            await running.until(lambda: "synced" in running.events)
            found = await running.source.objects()
            assert len(found) == 1206
            cluster.revoke("services")
            with pytest.raises(Unreachable, match="services cannot be listed: 403"):
                await running.source.objects()

    asyncio.run(run())


def test_nothing_is_delivered_before_the_server_was_asked() -> None:
    def deliver(events: Sequence[Event]) -> None:
        raise AssertionError(events)

    source = ApiServer(Connect(MemoryApi(FakeCluster())), Wanted())
    source.load(deliver, lambda level, message: None)
