"""A chain.Runtime for tests of handlers: scripted time, seeded chance, a record of every call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any

from hsdns.chain import Request
from hsdns.cluster.freshness import Counters, NoCounters
from hsdns.eager import Wait, Waiting
from hsdns.http_page import HttpPage
from hsdns.metrics import Registry
from hsdns.plugin import Readiness, Running, Runtime
from hsdns.server.runtime import Look
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply


class Spawned:
    """A coroutine for the test to run, with the interface of a task that can be cancelled."""

    def __init__(self, coro: Coroutine[Any, Any, Any]) -> None:
        self.coro = coro

    def cancel(self) -> None:
        """Close it."""
        self.coro.close()


class FakeQueries:
    """eager.Waiting: waits, and tasks that the loop of the test runs."""

    def __init__(self) -> None:
        self.waits: set[Wait[Any]] = set()

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        """Make a task."""
        return asyncio.ensure_future(coro)


class FakeRuntime:
    """chain.Runtime with a scripted clock, seeded chance and a record of what was asked of it.

    `time` is what clock() answers and `wall_time` what wall() does; `http` maps addresses to their paths; `failures`
    are the reasons passed to fail(); `resolver` answers resolve(), `late` late_watch().  spawn() makes a task where a loop runs (listed in
    `tasks`), else it puts the coroutine into `spawned` for the test to step or close.
    """

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)
        self.metrics = Registry()
        self.counters: Counters = NoCounters()
        self.queries: Waiting = FakeQueries()
        self.stopping = self.is_reload = False
        self.time = 0.0
        self.wall_time = 1_700_000_000.0
        self.http: dict[str, dict[str, HttpPage]] = {}
        self.control: dict[str, str | None] = {}
        self.dashboards: list[str] = []
        self.failures: list[str] = []
        self.reloads = 0
        self.names_answered_first_changes = 0
        self.unready: list[str] = []
        self.relapsed: list[str] = []
        self.remarks: list[str] = []
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.spawned: dict[str, Coroutine[Any, Any, Any]] = {}
        self.looks: list[tuple[float, Look]] = []
        self.addresses: list[str] = ["192.0.2.53"]
        self.late: Callable[[float], Awaitable[None] | None] = lambda now: None
        self.resolver: Callable[[Request], Reply] = lambda _: Reply(rcode=Rcode.REFUSED)

    def clock(self) -> float:
        """Monotonic seconds, as scripted."""
        return self.time

    def wall(self) -> float:
        """Seconds since the epoch, as scripted."""
        return self.wall_time

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Awaitable[Any]:
        """Make a task, or keep the coroutine where no loop runs."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.spawned[name] = coro
            return coro
        task = self.tasks[name] = asyncio.create_task(coro, name=name)
        return task

    def look_every(self, seconds: float, look: Look) -> None:
        """Record it, for look()."""
        self.looks.append((seconds, look))

    def look(self) -> None:
        """Look at all files once, and do what follows."""
        for _, look in self.looks:
            if (use := look()) is not None and (last := use()) is not None:
                last()

    def late_watch(self, now: float) -> Awaitable[None] | None:
        """What `late` says."""
        return self.late(now)

    def spawn_watch(self, coro: Coroutine[Any, Any, Any], name: str) -> Running:
        """Make a task, or keep the coroutine where no loop runs; its cancel() closes it."""
        made = self.spawn(coro, name)
        return made if isinstance(made, asyncio.Task) else Spawned(coro)

    async def load(self, read: Callable[[], None]) -> None:
        """Call it, with `is_reload` in a thread."""
        if self.is_reload:
            await asyncio.to_thread(read)
        else:
            read()

    def names_answered_first_changed(self) -> None:
        """Count the call."""
        self.names_answered_first_changes += 1

    async def resolve(self, request: Request) -> Reply:
        """Answer by the scripted resolver."""
        return self.resolver(request)

    def serve_http(self, address: str, paths: dict[str, HttpPage]) -> None:
        """Record the pages."""
        self.http.setdefault(address, {}).update(paths)

    def serve_control(self, address: str, token: str | None) -> None:
        """Record the address, with the token."""
        self.control[address] = token

    def serve_dashboard(self, address: str) -> None:
        """Record the address."""
        self.dashboards.append(address)

    def local_addresses(self, servers: Sequence[str]) -> list[str]:
        """Addresses of this host, as scripted in `addresses`."""
        return self.addresses

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Return whether the condition holds; if not, advance the scripted time by `seconds`."""
        if not condition():
            self.time += seconds
        return condition()

    def readiness(self) -> Readiness:
        """The scripted readiness of plugins."""
        return Readiness(self.unready, self.relapsed, self.remarks)

    def fail(self, reason: str) -> None:
        """Record the reason."""
        self.failures.append(reason)

    async def reload_if_changed(self) -> None:
        """Count the call."""
        self.reloads += 1

    async def stop_tasks(self) -> None:
        """Cancel what was spawned, as the server does when a configuration ends."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for coro in self.spawned.values():
            coro.close()


def as_runtime(fake: FakeRuntime) -> Runtime:
    """Return the fake as a Runtime; here mypy checks that it has every method."""
    return fake
