"""The servers of a scenario, in memory: the one of the cluster with its faults, a node cache before it, and the truth.

Path: play.py -> here -> assemble.py, query.py, server/faults.py.
Rule 1: no socket is opened; time is that of the event loop.
Rule 2: the truth is a second server with the same objects and without rules, which only play.py asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from hsdns.assemble import assemble
from hsdns.chain import Endpoint
from hsdns.cluster.freshness import NoCounters
from hsdns.cluster.objects import Event
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError
from hsdns.fault_scenarios.ahead import Ahead, Exchange, OtherServer
from hsdns.fault_scenarios.cluster import EventSource, Objects
from hsdns.fault_scenarios.scenario import Scenario, ScenarioError, Step
from hsdns.faults.rule import RuleError
from hsdns.metrics import Registry
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.query import QueryProcessor
from hsdns.server.faults import StandingFaults
from hsdns.server.runtime import ServerRuntime, begin

SERVERS: Final = ("127.0.0.1", "127.0.0.2", "127.0.0.3")  # the addresses of the cluster's server
CLIENT: Final = "127.0.0.1"
FRONT: Final = Endpoint("169.254.20.10", 53)  # of the node cache
SEED: Final = 1  # of rules that have none
ZONES: Final = "cluster.local in-addr.arpa ip6.arpa"
# As in a cluster whose upstream knows no other name.
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


class MemoryServer:
    """A server with a Corefile, whose queries are handed to it."""

    def __init__(self, text: str, ahead: Exchange | None = None) -> None:
        loop = asyncio.get_running_loop()
        try:
            corefile = parse(
                "Corefile of the scenario", text=text, environ={}, known_directives=ORDER
            )
            self._configuration = assemble(
                corefile, default_port=53, interfaces=dict, warn=lambda sentence: None
            )
        except CorefileError as error:
            raise ScenarioError(str(error)) from None
        if ahead is not None:
            for block in self._configuration.blocks:
                block.plugins.append(Ahead(ahead))
                vars(block).pop("handlers", None)  # looked up anew
        self.source = EventSource()
        for plugin in self._configuration.plugins:
            if isinstance(plugin, Kubernetes):
                plugin.watch.source = self.source
                plugin.watch.reads_only = True
        self._runtime = ServerRuntime(
            Registry(),
            NoCounters(),
            reload_if_changed=lambda: asyncio.sleep(0),
            fail=_fail,
            clock=loop.time,
        )
        self._runtime.random = Random(SEED)
        self._runtime.configuration = self._configuration
        self.faults = StandingFaults(
            self._runtime.metrics, loop.time, self._rebuild, Random(SEED), loop.call_later
        )

    async def start(self) -> None:
        """Start the plugins."""
        for plugin in self._configuration.plugins:
            await plugin.start(self._runtime)
        self._rebuild()

    async def stop(self) -> None:
        """Stop them."""
        self.faults.close()
        for plugin in self._configuration.plugins:
            await plugin.stop()
        await self._runtime.tasks.cancel()
        await self._runtime.queries.cancel()

    async def answer(
        self, message: bytes, transport: str, client: Endpoint, local: Endpoint
    ) -> bytes | None:
        """The reply to a message that comes to an address, None if there is none."""
        processors = self._runtime.processors
        bound = f"dns://{local.address}:{local.port}"
        processor = processors.get(bound) or next(iter(processors.values()))
        now = self._runtime.clock()
        answering = processor.answer(message, client, local, transport, now)
        return await begin(answering, self._runtime.queries.spawn)

    def hand(self, events: Sequence[Event]) -> None:
        """Change the cluster."""
        self.source.hand(events)

    def add(self, rule: str) -> None:
        """Have a rule stand; raise ScenarioError."""
        try:
            self.faults.add(rule.split(), self._configuration)
        except RuleError as error:
            raise ScenarioError(f'the rule "{rule}": {error}') from None

    def remove(self, name: str) -> None:
        """End a rule, unless it has ended by itself."""
        if name in self.faults.rules.standing:
            self.faults.remove(name, self._configuration)

    @property
    def hits(self) -> dict[str, int]:
        """How often each rule has bitten."""
        return {rule.name: rule.hits for rule in self.faults.rules.all}

    def _rebuild(self) -> None:
        configuration, runtime = self._configuration, self._runtime
        self.faults.place(configuration, runtime)
        chains = {id(block): runtime.chain_of(block) for block in configuration.blocks}
        runtime.processors = {
            each.listen.server: QueryProcessor(
                each.listen.server, each.block_choice(chains), any_class=each.any_class
            )
            for each in configuration.listeners
        }


class Stage:
    """The servers of a scenario; `cache` is that of Seen, `behind` a server to be asked in place of a cluster.

    A context manager, in a task of the event loop; its steps are done from then on.
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
        """Start the servers, and do the steps of second 0."""
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
        """The reply that a client gets which sends from a port to one of its nameservers."""
        client = Endpoint(CLIENT, port)
        if self.front is not None:
            return await self.front.answer(message, transport, client, FRONT)
        return await self.cluster.answer(message, transport, client, Endpoint(SERVERS[server], 53))

    async def ask_truth(self, message: bytes) -> bytes | None:
        """The reply without faults, whole; asked once as long as no object changes."""
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


def _fail(reason: str) -> None:
    raise ScenarioError(reason)
