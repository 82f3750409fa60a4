"""A whole server on loopback, a cluster whose events a test applies, and a blocking client."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from hsdns.assemble import Configuration, assemble
from hsdns.cluster.objects import Event, Object, Upserted
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import Corefile
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.host import ServiceManager
from hsdns.server.lifecycle import Server, ServerOptions
from loadtest.ports import free_port
from tests.support.coroutines.event_loops import DEADLINE
from tests.support.servers.memory_server import ask
from tests.support.servers.scripted_source import ScriptedSource

WAYS = (
    "udp",
    "tcp",
    "udp-chain",
)  # the last one is a query that is not plain and so bypasses the answer table


class ClusterServer:
    """The server of a Corefile; an asynchronous context manager.

    In the Corefile PORT stands for the port, HTTP for a free one.  `objects` are in the cluster at every start, if
    not None, in place of the Corefile's source.
    """

    def __init__(
        self,
        folder: Path,
        text: str,
        objects: Sequence[Object] | None = None,
        workers: int = 1,
        manager: ServiceManager | None = None,
        **options: Any,
    ) -> None:
        self.path = folder / "Corefile"
        self.port = free_port()
        self.http = free_port()
        self.objects = list(objects or ())
        self._has_source = objects is not None
        self.write(text)
        self.server = Server(
            lambda: parse(str(self.path), environ={}, known_directives=ORDER),
            self._build,
            ServerOptions(workers, **options),
            manager=manager,
        )
        self._sources: list[ScriptedSource] = []

    async def __aenter__(self) -> Self:
        await self.server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.server.close()

    @property
    def address(self) -> tuple[str, int]:
        """Its address for queries."""
        return "127.0.0.1", self.port

    def write(self, text: str) -> None:
        """Replace the Corefile."""
        self.path.write_text(text.replace("PORT", str(self.port)).replace("HTTP", str(self.http)))

    def apply(self, *events: Event) -> None:
        """Apply events to the cluster, in one batch."""
        for source in self._sources:
            assert source._deliver is not None, "loaded"
            source._deliver(events)

    def value(self, name: str, kind: str = "counter") -> dict[tuple[str, ...], float]:
        """The values of a metric by its labels."""
        self.server.metrics.fold()
        found: dict[tuple[str, ...], float] = getattr(self.server.metrics, kind)(name, ("",)).values
        return dict(found)

    def total(self, name: str) -> float:
        """The sum of a counter over all labels."""
        return sum(self.value(name).values())

    def hits(self) -> float:
        """The number of queries answered from tables."""
        found = self.value("hsdns_table_lookups_total")
        return sum(count for labels, count in found.items() if labels[1] in ("hit", "region"))

    def _build(self, corefile: Corefile) -> Configuration:
        found = assemble(
            corefile,
            default_port=self.port,
            interfaces=lambda: {"lo": ["127.0.0.1", "::1"]},
            warn=lambda sentence: None,
        )
        self._sources = []
        for plugin in found.plugins:
            if self._has_source and isinstance(plugin, Kubernetes):
                plugin.watch.source = source = ScriptedSource([], synced=True)
                source._events = [Upserted(each) for each in self.objects]
                self._sources.append(source)
        return found


class BlockingClient:
    """Sends queries in one of WAYS and blocks; for use in a thread, so that it does not block the server."""

    def __init__(self, address: tuple[str, int], way: str) -> None:
        self._way = way
        kind = socket.SOCK_STREAM if way == "tcp" else socket.SOCK_DGRAM
        self._sock = socket.socket(socket.AF_INET, kind)
        self._sock.settimeout(DEADLINE)
        self._sock.connect(address)
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._sock.close()

    def ask(self, question: str, **options: Any) -> bytes:
        """The reply to `QNAME [QTYPE]`; raise TimeoutError."""
        self._number = (self._number + 1) % 65536
        wire = ask(question, query_id=self._number, **options)
        if self._way == "udp-chain":
            wire = wire[:2] + bytes((wire[2] | 0x04,)) + wire[3:]  # AA has no meaning in a query
        if self._way != "tcp":
            self._sock.send(wire)
            reply = self._sock.recv(65535)
        else:
            self._sock.sendall(len(wire).to_bytes(2, "big") + wire)
            size = int.from_bytes(self._read(2), "big")
            reply = self._read(size)
        assert reply[:2] == wire[:2]
        return reply

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self._sock.recv(count - len(found))
            assert part, "the server has closed"
            found += part
        return found
