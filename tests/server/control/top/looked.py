"""A door to a configuration in memory, whose clock a test moves.

Path: tests only.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hsdns.chain import Endpoint
from hsdns.cluster.objects import Object
from hsdns.plugins.prometheus import QueryCounts
from hsdns.server.control.door import Door
from hsdns.server.query_tap import QueryTap
from tests.fastpath.twins import ask
from tests.support.servers.memory_server import MemoryServer

CLIENT = Endpoint("192.0.2.1", 40000)
KUBERNETES = ".:53 {\nkubernetes cluster.local in-addr.arpa\n}\n"


class Looked:
    """The door, its server and its tap."""

    def __init__(self, corefile: str = KUBERNETES, objects: Sequence[Object] = ()) -> None:
        self.now = 1000.0
        self.server = MemoryServer(corefile, None, objects)
        self.queries = QueryTap(lambda: self.now, lambda: self.now + 4000)
        self.metrics = self.server.runtime.metrics
        QueryCounts(self.metrics)
        instance: Any = SimpleNamespace(configuration=self.server.configuration)
        self.door = Door(
            lambda: instance,
            lambda: self.now,
            lambda: self.now + 4000,
            self.queries,
            self.metrics,
        )

    def asked(self, name: str, rcode: int = 0, count: int = 1) -> None:
        """Note queries as answered by the chain."""
        reply = bytes((0, 7, 0x81, 0x80 | rcode)) + bytes(8)
        for _ in range(count):
            self.queries.add("dns://:53", ask(name), CLIENT, "udp", self.now, reply)
