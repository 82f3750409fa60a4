"""A whole server with a control socket and a client of it; and a control API to a configuration in memory.

Path: tests only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import aiohttp

from hsdns.chain import Endpoint
from hsdns.cluster.objects import Event, Object
from hsdns.fastpath import AnswerTable
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.prometheus import QueryCounts
from hsdns.server.control.door import Door, kubernetes_blocks
from hsdns.server.query_tap import QueryTap
from tests.fastpath.twins import ask
from tests.server.loopback import ReloadableServer, running, serving
from tests.support.servers.memory_server import MemoryServer

SOCKET = "c.sock"  # in the folder of the test, so that the path is short
SHOP = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{name: http, protocol: TCP, port: 80}]}
"""
MORE = Path(__file__).with_name("served.yaml").read_text()
BLOCK = """cluster.local in-addr.arpa {
    bind 127.0.0.1
    control c.sock
    kubernetes {
        source manifests shop.yaml
    }
}
"""
UNREAD = BLOCK.replace(
    "source manifests shop.yaml", "endpoint http://127.0.0.1:1\nstartup_timeout 0s"
)
KUBERNETES = ".:53 {\nkubernetes cluster.local in-addr.arpa\n}\n"


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


class Served(NamedTuple):
    reloadable: ReloadableServer
    client: aiohttp.ClientSession

    @property
    def block(self) -> Kubernetes:
        return kubernetes_blocks(serving(self.reloadable.server))[0]

    @property
    def table(self) -> AnswerTable:
        """Of its first listener."""
        (found, *_) = serving(self.reloadable.server).processors.values()
        assert found.table is not None
        return found.table

    def apply(self, *events: Event) -> None:
        self.block.store.apply(events)

    async def get(self, page: str, method: str = "GET", body: bytes | None = None) -> Answer:
        async with self.client.request(method, f"http://localhost{page}", data=body) as response:
            return Answer(response.status, response.content_type, await response.read())


def write_manifest() -> None:
    Path("shop.yaml").write_text(SHOP)


@asynccontextmanager
async def served(
    corefile: str = BLOCK, path: str = SOCKET, *, faults: bool = False
) -> AsyncIterator[Served]:
    """A server in the working folder."""
    write_manifest()
    async with (
        running(ReloadableServer(Path(), corefile, faults=faults)) as reloadable,
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(path)) as client,
    ):
        yield Served(reloadable, client)


class Beside:
    """Another task, which counts how often it runs."""

    def __init__(self) -> None:
        self.turns = 0

    def __enter__(self) -> Self:
        self._task = asyncio.create_task(self._count())
        return self

    def __exit__(self, *of: object) -> None:
        self._task.cancel()

    async def _count(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


class MemoryDoor:
    """A door to a configuration in memory, whose clock a test moves; with its server and its tap."""

    def __init__(self, corefile: str = KUBERNETES, objects: Sequence[Object] = ()) -> None:
        self.now = 1000.0
        self.server = MemoryServer(corefile, None, objects)
        self.queries = QueryTap(lambda: self.now, lambda: self.now + 4000)
        self.metrics = self.server.runtime.metrics
        QueryCounts(self.metrics)
        instance: Any = SimpleNamespace(configuration=self.server.configuration)
        self.door = Door(
            lambda: instance, lambda: self.now, lambda: self.now + 4000, self.queries, self.metrics
        )

    def asked(self, name: str, rcode: int = 0, count: int = 1) -> None:
        """Note queries as answered by the chain."""
        reply = bytes((0, 7, 0x81, 0x80 | rcode)) + bytes(8)
        for _ in range(count):
            self.queries.add(
                "dns://:53", ask(name), Endpoint("192.0.2.1", 40000), "udp", self.now, reply
            )
