"""The API of a simulated cluster, watched by hsdns's own client: what it serves is what the cluster has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from hsdns.cli.offline import configure, kubernetes_blocks, make_runtime, wait_for_clusters
from hsdns.cluster.objects import EndpointSlice, Namespace, ObjectMeta, Service, ServiceSpec
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import DEFAULT
from hsdns.load.cluster.churn import Churn
from hsdns.load.cluster.history import PATHS, ApiHistory
from hsdns.load.errors import LoadError
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.synthetic import Shape
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.load.clusters import with_block

SHAPE = Shape(3, 2, dual_stack=0.5)
CHANGES = 20
COREFILE = """cluster.local {{
    bind 127.0.0.1
    kubernetes cluster.local {{
        endpoint {}
        ttl 30
    }}
}}
"""

pytestmark = pytest.mark.sockets


def test_hsdns_watches_it(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "Corefile"
    file.write_text(COREFILE.format(f"http://127.0.0.1:{port}"))

    async def test() -> list[str]:
        churn = Churn(SHAPE, DEFAULT, 1, lambda events: None, lambda: 0.0)
        api = ClusterApi(churn.history, "127.0.0.1", port)
        await api.start()
        configuration, _ = configure(str(file), None)
        (block,) = kubernetes_blocks(configuration)
        runtime = make_runtime(configuration)
        await block.start(runtime)
        try:
            await wait_for_clusters(runtime, [block])
            before = block.store.changes
            for _ in range(CHANGES):
                churn.apply(churn.changes.next())
            api.changed()
            await runtime.wait_until(lambda: block.store.changes >= before + CHANGES, 10.0)
            return names(block)
        finally:
            await block.stop()
            await runtime.tasks.cancel()
            await api.stop()

    async def expected(block: Kubernetes) -> list[str]:
        churn = Churn(SHAPE, DEFAULT, 1, block.watch.deliver, lambda: 0.0)
        for _ in range(CHANGES):
            churn.apply(churn.changes.next())
        return names(block)

    words = ("synthetic", "services=3", "endpoints=2", "dual_stack=0.5")
    assert asyncio.run(test()) == with_block(expected, *words)


def names(block: Kubernetes) -> list[str]:
    """All records of the forward zone but the SOA record, which has a time in it."""
    rrsets = block.answer_set().of_zone(Name.from_text("cluster.local."))
    return sorted(f"{record.owner} {record.rrtype} {record.rdata!r}" for rrset in rrsets for record in rrset if record.rrtype in (RRType.A, RRType.AAAA, RRType.SRV))  # fmt: skip


def test_a_bookmark_is_due_after_its_time_alone() -> None:
    async def test() -> list[bytes]:
        history = ApiHistory(1)
        api = ClusterApi(history, "127.0.0.1", 0, bookmark_every=1e6)
        await api.start()
        path = f"{api.url}/api/v1/services?watch=1&allowWatchBookmarks=true&resourceVersion=1"
        told = []
        async with aiohttp.ClientSession() as session, session.get(path) as watch:
            for name in "abc":
                history.put(Service(ObjectMeta(name=name, namespace="shop")))
                api.changed()
                told.append(await watch.content.readline())
        await api.stop()
        return told

    assert [each[:16] for each in asyncio.run(test())] == [b'{"type":"ADDED",'] * 3


def test_what_a_watch_is_told() -> None:
    """Bookmarks tell a quiet watch the version, if it takes them; a version that is too old is to be listed again."""

    async def test() -> list[bytes]:
        history = ApiHistory(1)
        api = ClusterApi(history, "127.0.0.1", 0, bookmark_every=0.001)
        await api.start()
        second = ClusterApi(history, "127.0.0.1", int(api.url.rpartition(":")[2]))
        with pytest.raises(LoadError, match=r"^-api: 127.0.0.1:[0-9]+ cannot be listened on: "):
            await second.start()
        await second.stop()
        history.put(Namespace(ObjectMeta(name="shop")))
        path = f"{api.url}/api/v1/services?watch=1&allowWatchBookmarks="
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{path}true&resourceVersion=1") as watch:
                told = [await watch.content.readline()]
                assert await watch.content.readline() == told[0], "again and again"
            async with (
                session.get(f"{path}false&resourceVersion=1") as watch,
                session.get(f"{path}true&resourceVersion=1") as other,
            ):
                await other.content.readline()  # the first watch was due a bookmark, too
                history.put(Service(ObjectMeta(name="web", namespace="shop")))
                api.changed()
                told.append(await watch.content.readline())
            everything = f"{api.url}/api/v1/namespaces?watch=1"
            async with session.get(everything) as watch:
                told.append(await watch.content.readline())
                history.put(Namespace(ObjectMeta(name="shop")))
                api.changed()
                told.append(await watch.content.readline())
            async with session.get(f"{path}true&resourceVersion=1") as answer:
                assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")
        await api.stop()
        return told

    told, quiet, *others = asyncio.run(test())
    assert told == (
        b'{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1",'
        b'"metadata":{"resourceVersion":"1","annotations":{}}}}\n'
    )
    assert [each[:16] for each in (quiet, *others)] == [b'{"type":"ADDED",'] * 2 + [
        b'{"type":"MODIFIE'
    ]


def service(name: str, address: str = "10.96.0.1") -> Service:
    return Service(ObjectMeta(name=name, namespace="shop"), ServiceSpec(cluster_ip=address))


def facts(line: bytes) -> str:
    """What happened to which object, and the version."""
    event = json.loads(line)
    meta = event["object"]["metadata"]
    words = (event["type"], meta.get("name", ""), meta["resourceVersion"])
    return " ".join(filter(None, (*words, *(meta.get("annotations") or ()))))


def test_history() -> None:
    """Lists, what has changed since each version, and what is no longer remembered: of seven changes the first."""
    history, web = ApiHistory(6), service("web")
    for each in (Namespace(ObjectMeta(name="shop")), web, service("a"), service("a", "10.96.0.2")):
        history.put(each)
    history.remove(web)
    history.put(web)
    found = json.loads(history.listed(Service))
    items = [(each["kind"], each["apiVersion"], each["metadata"]["name"], each["metadata"]["resourceVersion"], each["spec"]["clusterIP"]) for each in found.pop("items")]  # fmt: skip
    assert items == [("Service", "v1", "a", "4", "10.96.0.2"), ("Service", "v1", "web", "6", "10.96.0.1")]  # fmt: skip
    assert found == {"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "6"}}  # fmt: skip
    every = ["ADDED web 2", "ADDED a 3", "MODIFIED a 4", "DELETED web 5", "ADDED web 6"]
    for version, more in enumerate((0, 0, 1, 2, 3, 4)):
        assert [facts(each) for each in history.since(Service, version) or ()] == every[more:]
    initial = [facts(each) for each in history.initial(Service)]
    assert initial == ["ADDED a 4", "ADDED web 6", "BOOKMARK 6 k8s.io/initial-events-end"]
    history.put(service("b"))
    assert history.since(Service, 0) is None
    assert len(history.since(Service, 1) or ()) == 6
    assert json.loads(history.listed(EndpointSlice))["apiVersion"] == "discovery.k8s.io/v1"
    assert set(PATHS) == {
        "/api/v1/namespaces", "/api/v1/services", "/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices",
    }  # fmt: skip
