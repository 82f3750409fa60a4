"""Reading on demand from an API server in memory: what is requested, what is refused, what comes late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hsdns.apiserver.transport import Refusal
from hsdns.cluster.reading import Fault, Lead, Reading
from hsdns.sources import api_server
from hsdns.sources.api_server import read_objects
from loadtest.apiserver.fake_cluster import FakeCluster
from tests.support.apiserver.memory_api import SERVER, MemoryAnswer, MemoryApi

LEAD = Lead((b"shop",), ((b"shop", b"db"),))


def manifest(kind: str, path: str, **fields: Any) -> dict[str, Any]:
    namespace, _, name = path.rpartition("/")
    version = "discovery.k8s.io/v1" if kind == "EndpointSlice" else "v1"
    labels = fields.pop("labels", {})
    metadata = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def cluster() -> FakeCluster:
    found = FakeCluster()
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": False}}
    for each in (
        manifest("Namespace", "shop"),
        manifest("Service", "shop/db", spec={"clusterIP": "None", "selector": {"app": "db"}}),
        manifest("Service", "shop/web", spec={"clusterIP": "10.96.0.1"}),
        manifest("Service", "shop/lost", spec={"clusterIP": "None", "selector": {"app": "x"}}),
        manifest("EndpointSlice", "shop/db-1", addressType="IPv4", endpoints=[endpoint],
                 labels={"kubernetes.io/service-name": "db"}),
        manifest("EndpointSlice", "shop/web-1", addressType="IPv4", endpoints=[],
                 labels={"kubernetes.io/service-name": "web"}),
        manifest("Pod", "shop/db-0", labels={"app": "db"}, status={"podIP": "10.0.0.1", "phase": "Running"}),
        manifest("Pod", "shop/web-0", labels={"app": "web"}, status={"podIP": "10.0.0.2", "phase": "Running"}),
    ):  # fmt: skip
        found.apply(each)
    return found


def read(lead: Lead, api: MemoryApi | None = None) -> Reading:
    return asyncio.run(read_objects(api or MemoryApi(cluster()), lead))


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
        (Lead(), []),
    ],
)  # fmt: skip
def test_a_lead(lead: Lead, found: list[str]) -> None:
    reading = read(lead)
    assert (names(reading), reading.faults) == (found, ())


def test_only_lists_of_one_name_are_requested() -> None:
    api = MemoryApi(cluster())
    read(LEAD, api)
    phases = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown"
    assert sorted(api.cluster.requests) == [
        f"/api/v1/namespaces/shop/pods?labelSelector=app=db&fieldSelector={phases}&limit=500",
        "/api/v1/namespaces/shop/services?limit=1&fieldSelector=metadata.name=db",
        "/api/v1/namespaces?fieldSelector=metadata.name=shop&limit=1",
        "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?"
        "labelSelector=kubernetes.io/service-name=db&limit=100",
    ]


def test_what_is_forbidden_is_told_and_the_rest_is_read() -> None:
    api = MemoryApi(cluster())
    api.cluster.revoke("pods")
    found = read(LEAD, api)
    assert names(found) == ["EndpointSlice db-1", "Namespace shop", "Service db"]
    (fault,) = found.faults
    assert fault.kind == "Pod"
    assert fault.sentence.startswith("pods may not be read: pods is forbidden: User ")
    assert fault.sentence.endswith("(403)")


def test_a_server_that_is_not_there() -> None:
    api = MemoryApi(cluster())
    api.up = False
    found = read(LEAD, api)
    assert found.objects == ()
    assert Fault(f"{SERVER}: connection refused", "Service") in found.faults


def test_more_than_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "SLICES_PAGE", 1)
    api = MemoryApi(cluster())
    api.cluster.apply(
        manifest("EndpointSlice", "shop/db-2", addressType="IPv4", endpoints=[],
                 labels={"kubernetes.io/service-name": "db"})
    )  # fmt: skip
    assert read(LEAD, api).faults == (
        Fault("only the first 1 of the endpointslices in shop were read", "EndpointSlice"),
    )


class SlowApi(MemoryApi):
    """Answers nothing about Services."""

    @asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], accept: str = ""
    ) -> AsyncGenerator[MemoryAnswer | Refusal]:
        if path.endswith("/services"):
            await asyncio.Event().wait()
        async with super().get(path, query, accept) as found:
            yield found


def test_what_comes_late_is_told() -> None:
    found = asyncio.run(read_objects(SlowApi(cluster()), LEAD, 0.01))
    assert names(found) == ["EndpointSlice db-1", "Namespace shop"]
    sentence = f"services could not be read: {SERVER} did not answer within 0.01 s"
    assert found.faults == (Fault(sentence, "Service"),)
