"""A namespace of its own, at an API server that is made up; tests/load/cli/test_cluster.py has a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from hsdns.load.cluster.changes import DEFAULT, KINDS
from hsdns.load.cluster.churn import OwnNamespace, Size
from hsdns.load.errors import LoadError

SIZE = Size(2, 2)
NAME = "hsdns-load-1"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAME}/endpointslices"
SERVICES = f"/api/v1/namespaces/{NAME}/services"
NEEDS = "; this account needs the rights to create and delete namespaces, and to write services and endpointslices in them"  # fmt: skip


class Server:
    """Takes everything but what `refuses` has, by method and path, with a resourceVersion for each write."""

    def __init__(self, *refuses: tuple[str, str]) -> None:
        self.refuses = refuses
        self.sent: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.enough = asyncio.Event()
        self.limit = 0

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, str]:
        await asyncio.sleep(0)
        self.sent.append((method, path))
        self.bodies.append(json.loads(json.dumps(body)) if body else {})
        if (method, path) in self.refuses:
            return 403, json.dumps({"kind": "Status", "message": "no rights"})
        if len(self.sent) == self.limit:
            self.enough.set()
        answer = {"metadata": {"resourceVersion": str(len(self.sent))}}
        return {"POST": 201, "PUT": 200, "DELETE": 200}[method], json.dumps(answer)


def namespace(server: Server, kinds: Mapping[str, int] = DEFAULT, **more: Any) -> OwnNamespace:
    return OwnNamespace(server, NAME, SIZE, kinds, 1, **({"clock": lambda: 0.0} | more))


MADE = [
    ("POST", "/api/v1/namespaces"),
    *[("POST", SERVICES)] * 2,
    *[("POST", SLICES)] * 2,
]
REMOVED = [
    ("DELETE", SLICES),
    ("DELETE", SERVICES),
    ("DELETE", f"/api/v1/namespaces/{NAME}"),
]


def test_it_is_made_and_removed() -> None:
    async def test() -> None:
        server = Server()
        own = namespace(server)
        await own.make()
        await own.remove()
        await own.remove()
        assert server.sent == [*MADE, *REMOVED]
        assert server.bodies[:5] == [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(NAME)},
            {"apiVersion": "v1", "kind": "Service", "metadata": meta("svc-0"), "spec": {"ports": PORTS}},
            {"apiVersion": "v1", "kind": "Service", "metadata": meta("svc-1"), "spec": {"ports": PORTS, "clusterIP": "None"}},
            slice_of(0, [("198.18.0.0", None), ("198.18.0.1", None)]),
            slice_of(1, [("198.18.0.2", "svc-1-0"), ("198.18.0.3", "svc-1-1")]),
        ]  # fmt: skip

    asyncio.run(test())


PORTS = [{"name": "http", "port": 80, "targetPort": 8080}]
READY = {"ready": True, "serving": True, "terminating": False}


def meta(name: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app.kubernetes.io/managed-by": "hsdns-load"}}


def slice_of(number: int, endpoints: list[tuple[str, str | None]]) -> dict[str, Any]:
    labels = {
        "kubernetes.io/service-name": f"svc-{number}",
        "endpointslice.kubernetes.io/managed-by": "hsdns-load",
        "app.kubernetes.io/managed-by": "hsdns-load",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"svc-{number}-load", "namespace": NAME, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [address], "conditions": READY}
            | ({"hostname": hostname} if hostname else {})
            for address, hostname in endpoints
        ],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }


@pytest.mark.parametrize(
    ("refused", "sentence", "sent"),
    [
        (("POST", "/api/v1/namespaces"), f"-churn-api: Namespace {NAME} cannot be made: 403 no rights{NEEDS}", MADE[:1]),
        (("POST", SLICES), f"-churn-api: EndpointSlice svc-0-load cannot be made: 403 no rights{NEEDS}", [*MADE[:4], *REMOVED]),
    ],
)  # fmt: skip
def test_without_the_rights_nothing_stays(
    refused: tuple[str, str], sentence: str, sent: list[tuple[str, str]]
) -> None:
    async def test() -> None:
        server = Server(refused)
        with pytest.raises(LoadError) as error:
            await namespace(server).make()
        assert str(error.value) == sentence
        assert server.sent == sent

    asyncio.run(test())


def test_what_cannot_be_removed_is_told() -> None:
    async def test() -> None:
        server = Server(REMOVED[-1])
        own = namespace(server)
        await own.make()
        with pytest.raises(LoadError) as error:
            await own.remove()
        assert str(error.value).endswith(f"remove it with kubectl delete namespace {NAME}")

    asyncio.run(test())


def test_changes_are_written_in_order_and_told() -> None:
    """On a clock that runs a millisecond for each look at it."""

    async def test() -> None:
        now = 0.0

        def clock() -> float:
            nonlocal now
            now += 0.001
            return now

        server = Server()
        server.limit = 30
        written: list[tuple[str, float]] = []
        own = namespace(
            server,
            dict.fromkeys(KINDS, 1),
            clock=clock,
            written=lambda *each: written.append(each),
        )
        running = asyncio.create_task(own.run(400.0))
        await server.enough.wait()
        running.cancel()
        assert {method for method, _ in server.sent} == {"PUT"}
        assert {path for _, path in server.sent} <= {f"{SLICES}/svc-{each}-load" for each in (0, 1)}
        versions = [int(version) for version, _ in written]
        assert versions == sorted(versions)
        assert all(0 < time <= now for _, time in written)

    asyncio.run(test())


def test_a_change_that_is_refused_ends_the_changes() -> None:
    async def test() -> None:
        paths = [f"{SLICES}/svc-{each}-load" for each in (0, 1)]
        own = namespace(
            Server(*(("PUT", path) for path in paths)), clock=asyncio.get_running_loop().time
        )
        with pytest.raises(ExceptionGroup) as error:
            await own.run(400.0)
        (found, *_) = error.value.exceptions
        assert isinstance(found, LoadError)
        assert str(found).startswith(f"-churn-api: {SLICES}/svc-")
        assert str(found).endswith("-load cannot be written: 403 no rights")

    asyncio.run(test())
