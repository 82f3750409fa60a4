"""hsdns as the subject of a scenario: in memory with a scripted clock, or on real sockets.

Path: tests/test_scenarios.py -> Memory (query.py and the plugins) or Sockets (all of the server).
Rule 1: the cluster comes from FedSource, which delivers what the scenario lists and, at an event, what has changed.
Rule 2: Memory's time moves only when the scenario says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from hsdns.assemble import Configuration
from hsdns.chain import Endpoint, HttpHandler, Readiness, Request, fold
from hsdns.cluster.freshness import Counters, NoCounters
from hsdns.metrics import Registry
from hsdns.query import QueryProcessor
from hsdns.server.interfaces import own_addresses
from hsdns.wire.message import Reply
from hsdns.zones import Zones


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
