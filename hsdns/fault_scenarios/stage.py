"""The servers of a scenario, in memory: the cluster's server with its faults, a node cache, and the truth.

Path: play.py -> here -> memory_server.py.
Rule: the truth is a second server with the same objects and without rules, which gives play.py the correct answers.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hsdns.chain import Endpoint
from hsdns.fault_scenarios.ahead import OtherServer
from hsdns.fault_scenarios.cluster import Objects
from hsdns.fault_scenarios.memory_server import MemoryServer
from hsdns.fault_scenarios.scenario import Scenario, ScenarioError, Step

SERVERS: Final = ("127.0.0.1", "127.0.0.2", "127.0.0.3")  # the addresses of the cluster's server
CLIENT: Final = "127.0.0.1"
FRONT: Final = Endpoint("169.254.20.10", 53)  # of the node cache
ZONES: Final = "cluster.local in-addr.arpa ip6.arpa"
# As in a cluster whose upstream answers NXDOMAIN to all names.
COREFILE: Final = f"""\
{ZONES} {{
    kubernetes {ZONES} {{
        pods insecure
        ttl 30
        source manifests /
    }}
}}
. {{
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


class Stage:
    """The servers of a scenario; `cache` is Seen.cache, `behind` a server to be used instead of a simulated cluster.

    A context manager for a task of the event loop; on entry, its timeline starts.
    """

    def __init__(self, scenario: Scenario, cache: str, behind: OtherServer | None) -> None:
        self._scenario = scenario
        self._objects = Objects()
        ahead = behind.exchange if behind else None
        text = ". {\n}\n" if behind else scenario.corefile or COREFILE
        self.cluster = MemoryServer(text, ahead)
        self.truth = MemoryServer(text, ahead)
        self._servers = [self.cluster, self.truth]
        self.front: MemoryServer | None = None
        if cache:
            self.front = MemoryServer(f". {{\n    {cache}\n}}\n", self._ask_cluster)
            self._servers.append(self.front)
        self._has_objects = behind is None
        self._truths: dict[bytes, bytes | None] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self.problems: list[ScenarioError] = []

    async def __aenter__(self) -> Stage:
        """Start the servers, and run the steps of second 0."""
        for server in self._servers:
            await server.start()
        self._change(Step(apply=self._scenario.manifests))
        loop = asyncio.get_running_loop()
        for step in self._scenario.steps:
            if step.at:
                self._timers.append(loop.call_at(step.at, self._do, step))
            else:
                self._do(step)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop them."""
        for timer in self._timers:
            timer.cancel()
        for server in self._servers:
            await server.stop()

    async def ask(self, message: bytes, transport: str, port: int, server: int) -> bytes | None:
        """Return the reply to a client that sends from a port to one of its nameservers."""
        client = Endpoint(CLIENT, port)
        if self.front is not None:
            return await self.front.answer(message, transport, client, FRONT)
        return await self.cluster.answer(message, transport, client, Endpoint(SERVERS[server], 53))

    async def ask_truth(self, message: bytes) -> bytes | None:
        """Return the complete reply without faults; it is cached until an object changes."""
        if message not in self._truths:
            here = Endpoint(CLIENT, 53)
            self._truths[message] = await self.truth.answer(message, "tcp", here, here)
        return self._truths[message]

    async def _ask_cluster(self, message: bytes, transport: str) -> bytes | None:
        return await self.cluster.answer(message, transport, FRONT, Endpoint(SERVERS[0], 53))

    def _do(self, step: Step) -> None:
        try:
            self._change(step)
            for name in step.remove:
                self.cluster.remove(name)
            for rule in step.add:
                self.cluster.add(rule)
        except ScenarioError as error:
            self.problems.append(error)

    def _change(self, step: Step) -> None:
        if self._has_objects and (step.apply or step.delete):
            events = self._objects.change(step.apply, step.delete)
            self._truths.clear()
            self.cluster.hand(events)
            self.truth.hand(events)
