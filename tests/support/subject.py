"""hsdns as the subject of a scenario: in memory with a scripted clock, or on real sockets.

Path: tests/test_scenarios.py -> Memory (query.py and the plugins) or Sockets (all of the server).
Rule 1: the cluster comes from FedSource, which delivers what the scenario lists and, at an event, what has changed.
Rule 2: Memory's time moves only when the scenario says so.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Self

import msgspec

from hsdns.assemble import Configuration, assemble
from hsdns.chain import Endpoint, HttpHandler, Readiness, Request, fold
from hsdns.cluster import objects
from hsdns.cluster.freshness import Counters, NoCounters
from hsdns.cluster.objects import Deleted, Synced, Upserted
from hsdns.cluster.source import Deliver, Report, Surroundings
from hsdns.corefile.parser import parse as parse_corefile
from hsdns.corefile.tree import Token
from hsdns.metrics import Registry
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.query import QueryProcessor
from hsdns.server.interfaces import own_addresses
from hsdns.server.lifecycle import Server
from hsdns.wire.message import Reply
from hsdns.zones import Zones
from loadtest.ports import free_port
from tests.support.peer import prepare_corefile
from tests.support.scenario import Event, Manifest, Scenario

CLIENT = Endpoint("127.0.0.1", 40000)
KINDS: dict[str, Any] = {
    "Service": objects.Service,
    "EndpointSlice": objects.EndpointSlice,
    "Namespace": objects.Namespace,
    "Pod": objects.Pod,
    "ServiceImport": objects.ServiceImport,
}


class FedSource:
    """A cluster.source.Source that is told what happens; a copy of the cluster for each kubernetes block."""

    def __init__(self, manifests: Sequence[Manifest], *, synced: bool) -> None:
        self._events: list[objects.Event] = [Upserted(_object(manifest)) for manifest in manifests]
        self._synced = synced
        self._deliver: Deliver | None = None

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Never called: scenarios do not name their source."""
        raise NotImplementedError

    def check(self) -> list[str]:
        """Miss nothing."""
        return []

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver the cluster, unless the scenario begins before that."""
        self._deliver = deliver
        if self._synced:
            deliver([*self._events, Synced()])

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Wait for nothing: feed() delivers."""

    def silence(self, now: float) -> float:
        """Never unsure: the scenario is the cluster."""
        return 0.0

    def feed(self, event: Event) -> None:
        """Deliver what has changed, in one batch."""
        assert self._deliver is not None, "loaded"
        if event.synced:
            self._deliver([*self._events, Synced()])
            return
        self._deliver(
            [
                (Deleted if verb == "delete" else Upserted)(_object(manifest))
                for verb, manifest in event.changes
            ]
        )


class Memory:
    """The message path without sockets; an asynchronous context."""

    settles = False  # feed() returns when the store has taken the change

    def __init__(self, scenario: Scenario) -> None:
        self._configuration, self._sources = _assemble(scenario, scenario.corefile)
        self._runtime = ScriptedRuntime(self._configuration)
        listeners = self._configuration.listeners
        self._processor = self._runtime.processors[listeners[0].listen.server]

    async def __aenter__(self) -> Memory:
        for plugin in self._configuration.plugins:
            await plugin.start(self._runtime)
        return self

    async def __aexit__(self, *error: object) -> None:
        for plugin in self._configuration.plugins:
            await plugin.stop()
        await self._runtime.cancel()

    async def ask(self, wire: bytes, protocol: str) -> bytes:
        """Ask; raise AssertionError on silence."""
        reply = await self._answer(wire, protocol)
        assert reply is not None, "the reply is silence"
        return reply

    async def is_silent(self, wire: bytes) -> bool:
        """Tell whether a datagram gets no reply."""
        return await self._answer(wire, "udp") is None

    async def apply(self, event: Event) -> None:
        """Let the cluster change."""
        for source in self._sources:
            source.feed(event)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._runtime.now += seconds

    async def _answer(self, wire: bytes, protocol: str) -> bytes | None:
        local = Endpoint("127.0.0.1", 53)
        return await self._processor.answer(wire, CLIENT, local, protocol, self._runtime.now)


class Sockets:
    """The whole server on loopback; an asynchronous context."""

    def __init__(self, scenario: Scenario) -> None:
        self.address = ("127.0.0.1", free_port())
        http = {name: f"127.0.0.1:{free_port()}" for name in ("health", "prometheus", "ready")}
        text = prepare_corefile(
            scenario.corefile,
            kubernetes="",
            http=http,
            bind=None if "every address" in scenario.needs else "127.0.0.1",
            upstream_port=free_port(),
        )
        configuration, self._sources = _assemble(scenario, text, port=self.address[1])
        self._server = Server(lambda: configuration.corefile, lambda _: configuration)

    async def __aenter__(self) -> Sockets:
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.close()

    async def apply(self, event: Event) -> None:
        """Let the cluster change."""
        for source in self._sources:
            source.feed(event)


class ScriptedRuntime:
    """chain.Runtime with a clock that stands still, seeded chance, and no way to the outside."""

    def __init__(self, configuration: Configuration) -> None:
        self.random = Random(1)
        self.metrics = Registry()
        self.counters: Counters = NoCounters()
        self.stopping = False
        self.now = 1000.0
        self._configuration = configuration
        self._tasks: set[asyncio.Task[Any]] = set()
        chains = {
            id(block): fold(block.handlers, self._task) if block.handlers else None
            for block in configuration.blocks
        }
        self.processors = {
            listener.listen.server: QueryProcessor(
                listener.listen.server,
                Zones({zone: chains[id(block)] for zone, block in listener.zones.items()}),
                any_class=listener.any_class,
                entrances=listener.entrances(chains),
            )
            for listener in configuration.listeners
        }

    def clock(self) -> float:
        """Monotonic seconds, as scripted."""
        return self.now

    def wall(self) -> float:
        """Seconds since the epoch, as scripted."""
        return 1_700_000_000.0 + self.now

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a task that ends with the scenario."""
        return self._task(coro)

    def spawn_lasting(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a task that ends with the scenario."""
        return self._task(coro)

    async def resolve(self, request: Request) -> Reply:
        """Ask the same listener."""
        return await self.processors[request.server].resolve(request)

    def serve_http(self, address: str, paths: dict[str, HttpHandler]) -> None:
        """Serve no pages."""

    def readiness(self) -> Readiness:
        """Ask the plugins."""
        return Readiness.of(self._configuration.plugins)

    def local_addresses(self, servers: Sequence[str]) -> list[str]:
        """The bound addresses, or this host's."""
        hosts = [
            listener.listen.host
            for listener in self._configuration.listeners
            if listener.listen.server in servers
        ]
        return list(dict.fromkeys(hosts)) if all(hosts) else own_addresses()

    def local_address(self, server: str) -> Endpoint:
        """Refuse: there is no socket to ask."""
        raise AssertionError(f"{server} has no socket in memory")

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Give up at once: time does not pass while something waits."""
        return condition()

    def names_answered_first_changed(self) -> None:
        """Nothing is kept here that would have to change."""

    def fail(self, reason: str) -> None:
        """Refuse."""
        raise AssertionError(reason)

    async def reload_if_changed(self) -> None:
        """Do nothing: a scenario's Corefile does not change."""

    async def cancel(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _task(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _assemble(
    scenario: Scenario, text: str, port: int = 53
) -> tuple[Configuration, list[FedSource]]:
    """Set up a scenario's Corefile with a FedSource in each kubernetes block."""
    warnings: list[str] = []
    corefile = parse_corefile(
        str(scenario.path), text=text, environ={}, known_directives=frozenset(ORDER)
    )
    configuration = assemble(corefile, default_port=port, warn=warnings.append)
    assert not warnings, warnings
    sources = []
    for plugin in configuration.plugins:
        if isinstance(plugin, Kubernetes):
            plugin.watch.source = source = FedSource(
                scenario.objects, synced="unsynced" not in scenario.needs
            )
            sources.append(source)
    return configuration, sources


_versions = itertools.count(1)


def _object(manifest: Manifest) -> objects.Object:
    """Decode an object as a source would; each state has a resourceVersion of its own."""
    stamped = copy.deepcopy(manifest)
    stamped["metadata"]["resourceVersion"] = str(next(_versions))
    kind = KINDS[manifest["kind"]]
    found: objects.Object = msgspec.convert(stamped, kind)
    return found
