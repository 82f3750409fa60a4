"""hsdns as a scenario asks it: in memory with a scripted clock, or on real sockets.

Path: tests/test_scenarios.py -> MemoryDriver (query.py and the plugins) or SocketDriver (all of the server).
Rule 1: the cluster comes from a ScriptedSource, which delivers what the scenario lists and, at an event, what changes.
Rule 2: the time of MemoryDriver moves only when the scenario says so.
"""

from __future__ import annotations

from hsdns.assemble import Configuration
from hsdns.chain import Endpoint
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.lifecycle import Server
from loadtest.ports import free_port
from tests.support.plugins.corefiles import assembled
from tests.support.scenarios.peer import prepare_corefile
from tests.support.scenarios.scenario import Event, Scenario
from tests.support.servers.scripted_runtime import ScriptedRuntime
from tests.support.servers.scripted_source import ScriptedSource

CLIENT = Endpoint("127.0.0.1", 40000)


class MemoryDriver:
    """The message path without sockets; an asynchronous context manager."""

    settles = False  # feed() returns when the store has taken the change

    def __init__(self, scenario: Scenario) -> None:
        self._configuration, self._sources = _assemble(scenario, scenario.corefile)
        self._runtime = ScriptedRuntime(self._configuration)
        listeners = self._configuration.listeners
        self._processor = self._runtime.processors[listeners[0].listen.server]

    async def __aenter__(self) -> MemoryDriver:
        for plugin in self._configuration.plugins:
            await plugin.start(self._runtime)
        return self

    async def __aexit__(self, *error: object) -> None:
        for plugin in self._configuration.plugins:
            await plugin.stop()
        await self._runtime.cancel()

    async def ask(self, wire: bytes, protocol: str) -> bytes:
        """Send a query; raise AssertionError without a reply."""
        reply = await self._answer(wire, protocol)
        assert reply is not None, "the reply is silence"
        return reply

    async def is_silent(self, wire: bytes) -> bool:
        """Tell whether a datagram gets no reply."""
        return await self._answer(wire, "udp") is None

    async def apply(self, event: Event) -> None:
        """Change the cluster."""
        for source in self._sources:
            source.feed(event)

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._runtime.now += seconds

    async def _answer(self, wire: bytes, protocol: str) -> bytes | None:
        local = Endpoint("127.0.0.1", 53)
        return await self._processor.answer(wire, CLIENT, local, protocol, self._runtime.now)


class SocketDriver:
    """The whole server on loopback; an asynchronous context manager."""

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

    async def __aenter__(self) -> SocketDriver:
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.close()

    async def apply(self, event: Event) -> None:
        """Change the cluster."""
        for source in self._sources:
            source.feed(event)


def _assemble(
    scenario: Scenario, text: str, port: int = 53
) -> tuple[Configuration, list[ScriptedSource]]:
    """Set up a scenario's Corefile with a FedSource in each kubernetes block."""
    configuration = assembled(text, str(scenario.path), default_port=port)
    sources = []
    for plugin in configuration.plugins:
        if isinstance(plugin, Kubernetes):
            plugin.watch.source = source = ScriptedSource(
                scenario.objects, synced="unsynced" not in scenario.needs
            )
            sources.append(source)
    return configuration, sources
