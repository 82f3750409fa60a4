"""The API of a simulated cluster, watched by hsdns's own client: what it serves is what the cluster has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hsdns.cli.offline import configure, kubernetes_blocks, make_runtime, wait_for_clusters
from hsdns.cluster.objects import Namespace, ObjectMeta, Service, ServiceSpec
from hsdns.load.cluster import history as api_history
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import DEFAULT
from hsdns.load.cluster.churn import Churn
from hsdns.load.cluster.history import ApiHistory
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
                churn.change()
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
            churn.change()
        return names(block)

    words = ("synthetic", "services=3", "endpoints=2", "dual_stack=0.5")
    assert asyncio.run(test()) == with_block(expected, *words)


def names(block: Kubernetes) -> list[str]:
    """All records of the forward zone but the SOA record, which has a time in it."""
    rrsets = block.answer_set().of_zone(Name.from_text("cluster.local."))
    return sorted(f"{record.owner} {record.rrtype} {record.rdata!r}" for rrset in rrsets for record in rrset if record.rrtype in (RRType.A, RRType.AAAA, RRType.SRV))  # fmt: skip


def test_what_is_too_old_is_listed_again() -> None:
    async def test() -> None:
        history = ApiHistory(1)
        for _ in range(3):
            history.put(Namespace(ObjectMeta(name="shop")))
        api = ClusterApi(history, "127.0.0.1", 0)
        await api.start()
        path = f"{api.url}/api/v1/namespaces?watch=1&resourceVersion=1"
        async with aiohttp.ClientSession() as session, session.get(path) as answer:
            assert answer.status == 410
            assert (await answer.json())["reason"] == "Expired"
        await api.stop()

    asyncio.run(test())


def test_bookmarks_tell_a_quiet_watch_the_version() -> None:
    async def test() -> list[bytes]:
        history = ApiHistory()
        api = ClusterApi(history, "127.0.0.1", 0, bookmark_every=0.001)
        await api.start()
        history.put(Namespace(ObjectMeta(name="shop")))
        path = f"{api.url}/api/v1/services?watch=1&resourceVersion=1&allowWatchBookmarks="
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{path}true") as watch:
                told = await watch.content.readline()
            async with session.get(f"{path}false") as watch, session.get(f"{path}true") as other:
                await other.content.readline()  # the first watch was due a bookmark, too
                history.put(Service(ObjectMeta(name="web", namespace="shop")))
                api.changed()
                quiet = await watch.content.readline()
        await api.stop()
        return [told, quiet]

    told, quiet = asyncio.run(test())
    assert told == (
        b'{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1",'
        b'"metadata":{"resourceVersion":"1","annotations":{}}}}\n'
    )
    assert quiet.startswith(b'{"type":"ADDED",')


def test_an_address_that_is_taken() -> None:
    async def test() -> None:
        first = ClusterApi(ApiHistory(), "127.0.0.1", 0)
        await first.start()
        port = int(first.url.rpartition(":")[2])
        second = ClusterApi(ApiHistory(), "127.0.0.1", port)
        with pytest.raises(LoadError, match=f"^-api: 127.0.0.1:{port} cannot be listened on: "):
            await second.start()
        await second.stop()
        await first.stop()

    asyncio.run(test())


def service(name: str, address: str = "10.96.0.1") -> Service:
    return Service(ObjectMeta(name=name, namespace="shop"), ServiceSpec(cluster_ip=address))


def facts(event: dict[str, Any]) -> tuple[str, str, str]:
    meta = event["object"]["metadata"]
    return event["type"], meta.get("name", ""), meta["resourceVersion"]


def test_lists() -> None:
    history = ApiHistory()
    history.put(Namespace(ObjectMeta(name="shop")))
    history.put(service("web"))
    history.put(service("web", "10.96.0.2"))
    found = json.loads(history.listed(Service))
    assert (found["kind"], found["apiVersion"]) == ("ServiceList", "v1")
    assert found["metadata"] == {"resourceVersion": "3"}
    (web,) = found["items"]
    assert (web["kind"], web["apiVersion"], web["spec"]["clusterIP"]) == (
        "Service",
        "v1",
        "10.96.0.2",
    )
    assert (web["metadata"]["name"], web["metadata"]["namespace"], web["metadata"]["resourceVersion"]) == ("web", "shop", "3")  # fmt: skip


def test_what_is_removed() -> None:
    history = ApiHistory()
    history.put(service("a"))
    history.put(service("b"))
    history.remove(service("a"))
    assert [each["metadata"]["name"] for each in json.loads(history.listed(Service))["items"]] == ["b"]  # fmt: skip
    lines = history.since(Service, 2)
    assert lines is not None
    assert [facts(json.loads(line)) for line in lines] == [("DELETED", "a", "3")]
    history.put(service("a"))
    lines = history.since(Service, 3)
    assert lines is not None
    assert [facts(json.loads(line)) for line in lines] == [("ADDED", "a", "4")]


def test_changes_since_a_version() -> None:
    history = ApiHistory()
    history.put(service("a"))
    history.put(Namespace(ObjectMeta(name="shop")))
    history.put(service("a"))
    history.put(service("b"))
    lines = history.since(Service, 1)
    assert lines is not None
    assert [facts(json.loads(line)) for line in lines] == [
        ("MODIFIED", "a", "3"),
        ("ADDED", "b", "4"),
    ]
    assert history.since(Service, 4) == []


def test_what_is_not_remembered() -> None:
    history = ApiHistory(2)
    for _ in range(4):
        history.put(service("a"))
    assert history.since(Service, 1) is None
    assert len(history.since(Service, 2) or []) == 2


def test_a_streaming_list() -> None:
    history = ApiHistory()
    history.put(service("a"))
    lines = [json.loads(line) for line in history.initial(Service)]
    assert [facts(line) for line in lines] == [("ADDED", "a", "1"), ("BOOKMARK", "", "1")]
    assert lines[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_what_is_put_in_stays_as_it_is() -> None:
    web = service("web")
    ApiHistory().put(web)
    assert web.metadata.resource_version == ""
    assert set(api_history.PATHS) == {
        "/api/v1/namespaces", "/api/v1/services", "/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices",
    }  # fmt: skip
