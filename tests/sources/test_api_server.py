"""The source with an API server in memory: what is watched, when it is synced, and missing permissions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hsdns.apiserver.access import Access
from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.redaction import HIDDEN
from hsdns.apiserver.reflector import Key
from hsdns.apiserver.transport import Refusal, Transport
from hsdns.cluster.objects import Deleted, Event, Synced
from hsdns.cluster.source import (
    Fault,
    Lead,
    PodReading,
    PodUnreadable,
    Reading,
    Report,
    Surroundings,
)
from hsdns.sources import api_server
from hsdns.sources.api_access import WatchOptions
from hsdns.sources.api_server import ApiServer, read_objects, read_pod
from hsdns.sources.client_pod import read_view
from loadtest.apiserver.fake_cluster import FakeCluster
from tests.support.apiserver.fixed_access import FixedAccess
from tests.support.apiserver.memory_api import SERVER, MemoryAnswer, MemoryApi
from tests.support.apiserver.scripted_http import Said, ScriptedServer, said
from tests.support.apiserver.watching_source import around


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
        self.around = around()
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
async def test_what_is_watched(options: WatchOptions, expected: list[str]) -> None:
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


async def test_namespaces_are_watched_one_by_one_where_the_whole_is_forbidden() -> None:
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


async def test_an_event_that_cannot_be_handled_is_dropped_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = small_cluster()
    async with watching(cluster, WatchOptions()) as harness:
        await harness.until(lambda: "synced" in harness.events)
        harness.broken = "bad"
        cluster.apply(service("bad"))
        cluster.apply(service("good"))
        await harness.until(lambda: "+Service shop/good" in harness.events)
    assert "cannot handle shop/bad; it is ignored" in caplog.text


async def test_a_malformed_object_is_reported() -> None:
    cluster = small_cluster()
    async with watching(cluster, WatchOptions()) as harness:
        await harness.until(lambda: "synced" in harness.events)
        cluster.apply({**service("bad"), "spec": 5})
        await harness.until(lambda: bool(harness.log))
        assert harness.log == [
            "Service shop/bad: Expected `object`, got `int` - at `$.object.spec`"
        ]


async def test_silence_and_check() -> None:
    async with watching(small_cluster(), WatchOptions()) as harness:
        assert harness.source.silence(0.0) == float("inf")
        await harness.until(lambda: "synced" in harness.events)
        now = asyncio.get_running_loop().time()
        assert harness.source.silence(now + 7) == pytest.approx(7.0, abs=1.0)
        assert harness.source.check() == ["no token"]


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
async def test_token_that_the_server_echoes_is_not_reported(answer: Said) -> None:
    """Neither by the watches nor by a list beside them."""
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
                return ApiClient(FixedAccess(access), around.metrics, around.clock, pytest.fail)

        source = ApiServer(ToServer(), WatchOptions())
        watching = asyncio.create_task(source.watch(lambda events: None, report, around()))
        async with asyncio.timeout(20):
            await reported.wait()
        outages = source.outages()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        text = "\n".join([*lines, *outages])
        assert "cannot watch" in text
        # Of what is not HTTP nothing is quoted.
        assert (HIDDEN in text) is ("does not speak HTTP" not in text)
        assert TOKEN[:10] not in text


# Reading on demand from an API server in memory: what is requested, what is refused, what comes late.


LEAD = Lead((b"shop",), ((b"shop", b"db"),))


def manifest_of_api_reading(kind: str, path: str, **fields: Any) -> dict[str, Any]:
    namespace, _, name = path.rpartition("/")
    version = "discovery.k8s.io/v1" if kind == "EndpointSlice" else "v1"
    labels = fields.pop("labels", {})
    metadata = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def cluster_of_api_reading() -> FakeCluster:
    found = FakeCluster()
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": False}}
    for each in (
        manifest_of_api_reading("Namespace", "shop"),
        manifest_of_api_reading("Service", "shop/db", spec={"clusterIP": "None", "selector": {"app": "db"}}),
        manifest_of_api_reading("Service", "shop/web", spec={"clusterIP": "10.96.0.1"}),
        manifest_of_api_reading("Service", "shop/lost", spec={"clusterIP": "None", "selector": {"app": "x"}}),
        manifest_of_api_reading("EndpointSlice", "shop/db-1", addressType="IPv4", endpoints=[endpoint],
                 labels={"kubernetes.io/service-name": "db"}),
        manifest_of_api_reading("EndpointSlice", "shop/web-1", addressType="IPv4", endpoints=[],
                 labels={"kubernetes.io/service-name": "web"}),
        manifest_of_api_reading("Pod", "shop/db-0", labels={"app": "db"}, status={"podIP": "10.0.0.1", "phase": "Running"}),
        manifest_of_api_reading("Pod", "shop/web-0", labels={"app": "web"}, status={"podIP": "10.0.0.2", "phase": "Running"}),
    ):  # fmt: skip
        found.apply(each)
    return found


def read(lead: Lead, api: MemoryApi | None = None) -> Reading:
    return asyncio.run(read_objects(api or MemoryApi(cluster_of_api_reading()), lead))


def names(found: Reading) -> list[str]:
    return sorted(f"{type(each).__name__} {each.metadata.name}" for each in found.objects)


@pytest.mark.parametrize(
    ("lead", "found"),
    [
        (LEAD, ["EndpointSlice db-1", "Namespace shop", "Pod db-0", "Service db"]),
        (Lead((b"shop",), ((b"shop", b"lost"),)), ["Namespace shop", "Pod db-0", "Pod web-0", "Service lost"]),
        (Lead((b"none",), ((b"none", b"db"),)), []),
        (Lead((b"sh/op",), ((b"sh/op", b"../db"),)), []),
        (Lead(address="10.0.0.1"), ["EndpointSlice db-1", "Pod db-0"]),
        (Lead(pod="db-0"), ["Pod db-0"]),
        (Lead(), []),
    ],
)  # fmt: skip
def test_a_lead(lead: Lead, found: list[str]) -> None:
    reading = read(lead)
    assert (names(reading), reading.faults) == (found, ())


def test_what_is_forbidden_is_told_and_the_rest_is_read() -> None:
    api = MemoryApi(cluster_of_api_reading())
    api.cluster.revoke("pods")
    found = read(LEAD, api)
    assert names(found) == ["EndpointSlice db-1", "Namespace shop", "Service db"]
    (fault,) = found.faults
    assert fault.kind == "Pod"
    assert fault.sentence.startswith("pods may not be read: pods is forbidden: User ")
    assert fault.sentence.endswith("(403)")
    assert read(Lead((b"shop",), pod="db-0"), api).faults == (), "nothing needs a pod of that name"


def test_a_server_that_is_not_there() -> None:
    api = MemoryApi(cluster_of_api_reading())
    api.up = False
    found = read(LEAD, api)
    assert found.objects == ()
    assert Fault(f"{SERVER}: connection refused", "Service") in found.faults


def test_more_than_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "SLICES_PAGE", 1)
    api = MemoryApi(cluster_of_api_reading())
    api.cluster.apply(
        manifest_of_api_reading("EndpointSlice", "shop/db-2", addressType="IPv4", endpoints=[],
                 labels={"kubernetes.io/service-name": "db"})
    )  # fmt: skip
    assert read(LEAD, api).faults == (
        Fault("only the first 1 of the endpointslices in shop were read", "EndpointSlice"),
    )


def test_what_may_stand_behind_a_service() -> None:
    """Pods that the selector matches, else others, also ended ones; workloads are not known where they may not be read."""
    api = MemoryApi(cluster_of_api_reading())
    api.cluster.apply(
        manifest_of_api_reading(
            "Pod", "shop/db-1", labels={"app": "db"}, status={"phase": "Failed"}
        )
    )
    found = asyncio.run(read_view(api, "shop", {"app": "db"}))
    assert [each.metadata.name for each in found.pods("shop")] == ["db-0", "db-1"]
    assert {each.metadata.name for each in asyncio.run(read_view(api, "shop", {"app": "x"})).pods("shop")} == {"db-0", "db-1", "web-0"}  # fmt: skip
    kinds = {"deployments", "statefulsets", "daemonsets", "replicasets", "jobs"}
    assert found.unknown.keys() == kinds
    assert "404" in found.unknown["jobs"]
    api.cluster.revoke("pods")
    found = asyncio.run(read_view(api, "shop", {"app": "db"}))
    assert found.unknown["pods"].startswith("pods may not be read: pods is forbidden: User ")
    api.cluster.requests.clear()
    assert asyncio.run(read_view(api, "shop", {}, refused={"pods": "no"})).unknown["pods"] == "no"
    assert not any("/pods" in each for each in api.cluster.requests)


class SilentApi(MemoryApi):
    """Answers nothing about paths with a certain end."""

    end = ""

    @asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], accept: str = ""
    ) -> AsyncGenerator[MemoryAnswer | Refusal]:
        if path.endswith(self.end):
            await asyncio.Event().wait()
        async with super().get(path, query, accept) as found:
            yield found


def test_what_comes_late_is_told() -> None:
    slow = SilentApi(cluster_of_api_reading())
    slow.end = "/services"
    found = asyncio.run(read_objects(slow, LEAD, 0.01))
    assert names(found) == ["EndpointSlice db-1", "Namespace shop"]
    sentence = f"services could not be read: {SERVER} did not answer within 0.01 s"
    assert found.faults == (Fault(sentence, "Service"),)


# One pod of an API server in memory: what is requested, what it says, and why it is not there.


def api(**fields: Any) -> MemoryApi:
    """A cluster with shop/db-0 and shop/web-0, of which the first has these fields."""
    found = MemoryApi(cluster_of_api_reading())
    found.cluster.apply(manifest_of_api_reading("Pod", "shop/db-0", **fields))
    return found


def read_of_api_pod(of: MemoryApi, name: str = "db-0", seconds: float = 1.0) -> PodReading:
    return asyncio.run(read_pod(of, "shop", name, seconds))


def test_one_that_has_ended_and_one_that_waits_for_an_address() -> None:
    assert read_of_api_pod(api(status={"phase": "Succeeded"})).addresses == ()
    assert read_of_api_pod(api(status={"phase": "Pending", "podIP": None})).addresses == ()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("db-1", 'the cluster has no pod shop/db-1; did you mean "shop/db-0"?'),
        ("zookeeper", "the cluster has no pod shop/zookeeper"),
        ("../x", '"shop/../x" is not the name of a namespace and of a pod'),
    ],
)
def test_one_that_is_not_there(name: str, sentence: str) -> None:
    with pytest.raises(PodUnreadable) as raised:
        read_of_api_pod(api(), name)
    assert str(raised.value) == sentence


def test_one_that_may_not_be_read() -> None:
    found = api()
    found.cluster.revoke("pods")
    with pytest.raises(PodUnreadable) as raised:
        read_of_api_pod(found)
    assert str(raised.value).startswith("pods may not be read: pods is forbidden: User ")
    assert str(raised.value).endswith("(403)")


def test_one_that_is_malformed() -> None:
    with pytest.raises(
        PodUnreadable, match=r"^the pod shop/db-0 could not be read: Expected `bool"
    ):
        read_of_api_pod(api(spec={"hostNetwork": "yes"}))


def test_a_server_that_does_not_answer() -> None:
    with pytest.raises(PodUnreadable) as raised:
        read_of_api_pod(SilentApi(cluster_of_api_reading()), seconds=0.01)
    assert str(raised.value) == f"pods could not be read: {SERVER} did not answer within 0.01 s"
