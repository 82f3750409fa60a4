"""The services that the running server gives to plugins: tasks, clocks, random numbers, and its own replies.

Path: lifecycle.py makes one for each instance; plugins know it as chain.Runtime.

Checks files for changes, for the plugins of a configuration:
Rule: one call of a thread runs all checks with the same interval.  If thousands of blocks each used a thread at the
      same moment, they would block the loop, and their threads would hold the interpreter lock, for half a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from asyncio import sleep
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hsdns import eager
from hsdns.assemble import AssembledBlock, Configuration
from hsdns.chain import Endpoint, Handler, Next, Request, link
from hsdns.cluster.freshness import Counters
from hsdns.eager import Spawn, Wait
from hsdns.http_page import HttpPage
from hsdns.metrics import Registry
from hsdns.plugin import Readiness, Running
from hsdns.query import QueryProcessor
from hsdns.server.host import own_addresses
from hsdns.server.http.pages import HttpPages
from hsdns.wire.message import Reply

log = logging.getLogger("hsdns.server")

After = Callable[[], None]
Use = Callable[[], After | None]
Look = Callable[[], Use | None]
SpawnLook = Callable[[Coroutine[Any, Any, Any], str], object]


class FileLooks:
    """The file checks of one configuration."""

    def __init__(self) -> None:
        self._looks: dict[float, list[Look]] = {}

    def add(self, seconds: float, look: Look, spawn: SpawnLook) -> None:
        """Call `look` in a thread every `seconds`.

        The function that it returns is called on the loop, and then each function that any of these calls returned,
        once.
        `spawn` runs a coroutine until the configuration stops.
        """
        if seconds in self._looks:
            self._looks[seconds].append(look)
        else:
            self._looks[seconds] = [look]
            spawn(self._run(self._looks[seconds], seconds), f"files every {seconds:g}s")

    async def _run(self, looks: list[Look], seconds: float) -> None:
        while True:
            await sleep(seconds)
            found = await asyncio.to_thread(_look_at_all, looks)
            # In one iteration of the loop: no query sees a new file before the answer tables know of it.
            for after in dict.fromkeys(use() for use in found):
                if after is not None:
                    after()


def _look_at_all(looks: list[Look]) -> list[Use]:
    found = []
    for look in tuple(looks):
        try:
            use = look()
        except Exception:
            log.exception("a file cannot be looked at")
        else:
            if use is not None:
                found.append(use)
    return found


MAX_TURN = 0.002  # seconds
TASKS_A_TURN = 200  # tasks that are cancelled at a time
T = TypeVar("T")
POLL_INTERVAL = 0.02  # seconds between two checks of a condition that plugins wait for at the start


class Tasks:
    """Keeps references to tasks until they end, and can cancel all of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str | None = None) -> asyncio.Task[Any]:
        """Start a task; its exception is logged."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    async def wait(self) -> None:
        """Wait until all of them have ended by themselves."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self) -> None:
        """Cancel all of them, some in each iteration of the loop, and wait until they have ended."""
        tasks = tuple(self._tasks)
        for count, task in enumerate(tasks, 1):
            if not task.cancelling():  # a second cancellation would interrupt their cleanup
                task.cancel()
            if count % TASKS_A_TURN == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with an error", task.get_name(), exc_info=error)


class Queries(Tasks):
    """The waiting queries of a configuration: in tasks, and in waits without a task (eager.Waiting)."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: set[Wait[Any]] = set()

    def __len__(self) -> int:
        return super().__len__() + len(self.waits)

    async def cancel(self) -> None:
        """Cancel all of them and wait until they have ended."""
        for wait in tuple(self.waits):
            with contextlib.suppress(
                asyncio.CancelledError
            ):  # fail() raises it again, as awaiting a task does
                wait.fail(asyncio.CancelledError())
        await super().cancel()


def begin(answering: Coroutine[Any, Any, T], spawn: Spawn) -> asyncio.Future[T | None]:
    """Run a chain as for a query, and return a future of the reply: handlers that wait only work in such a run.

    The result is None if the coroutine has failed.
    """
    done: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def deliver(reply: T | None) -> None:
        if not done.done():
            done.set_result(reply)

    eager.start(answering, deliver, spawn)
    return done


class Turn:
    """Divides long work on the event loop into pieces of at most `longest` seconds (MAX_TURN); others run in between.

    With `rest`, the loop sleeps this many seconds in between, so that other threads get the CPU.
    """

    def __init__(
        self, clock: Callable[[], float], longest: float | None = None, rest: float = 0.0
    ) -> None:
        self._clock, self._rest = clock, rest
        self._longest = MAX_TURN if longest is None else longest
        self._began = clock()

    async def end_if_long(self) -> None:
        """Let other tasks run if the piece has become long."""
        if self._clock() - self._began > self._longest:
            await asyncio.sleep(self._rest)
            self._began = self._clock()


async def take_apart(parts: list[Any], clock: Callable[[], float]) -> None:
    """Free the items of a list a few at a time: to free all of them at once would block the loop."""
    turn = Turn(clock)
    while parts:
        del parts[-1]
        await turn.end_if_long()


@dataclass(eq=False)
class ServerRuntime:
    """The chain.Runtime of one configuration; that of a server is an Instance (instance.py)."""

    configuration: Configuration
    metrics: Registry
    counters: Counters
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.random = random.Random()
        self.stopping = self.is_reload = False
        self.tasks = Tasks()
        self.queries = Queries()  # the waiting queries of this configuration
        self.processors: dict[str, QueryProcessor] = {}
        self.pages = HttpPages()
        self.bound: dict[str, Endpoint] = {}
        self.fail: Callable[[str], None] = log.critical
        # Each chain with the handlers that it was linked from, by id() of the block.
        self._chains: dict[int, tuple[Sequence[Handler], Next | None]] = {}
        self._files = FileLooks()

    # Without a server there is no watch thread (watch_loop.py), and nothing is served.

    def spawn_watch(self, coro: Coroutine[Any, Any, Any], name: str) -> Running:
        """Run a coroutine until the configuration stops."""
        return self.tasks.spawn(coro, name)

    def late_watch(self, now: float) -> Awaitable[None] | None:
        """Wait for nothing."""
        return None

    async def reload_if_changed(self) -> None:
        """Do nothing: what is not served is not reloaded."""

    def names_answered_first_changed(self) -> None:
        """Do nothing: there is no answer table."""

    def serve_control(self, address: str, token: str | None) -> None:
        """Do nothing: there is no control API."""

    def serve_dashboard(self, address: str) -> None:
        """Do nothing: there is no web page."""

    @staticmethod
    def wall() -> float:
        """Seconds since the epoch; static like clock(), so that objects that outlive a configuration can keep it."""
        return time.time()

    async def load(self, read: Callable[[], None]) -> None:
        """Call a function that takes long: at a reload, in a thread."""
        if self.is_reload:
            await asyncio.to_thread(read)
        else:
            read()

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine until the configuration stops."""
        return self.tasks.spawn(coro, name)

    async def in_watch(self, coro: Coroutine[Any, Any, T], seconds: float) -> T:
        """The result of a coroutine that runs in the watch thread; raise TimeoutError after this many seconds."""
        running: Any = self.spawn_watch(coro, "looking into a cluster")
        found: T = await asyncio.wait_for(asyncio.wrap_future(running), seconds)
        return found

    def look_every(self, seconds: float, look: Look) -> None:
        """Check a file every `seconds` until the configuration stops."""
        self._files.add(seconds, look, self.spawn)

    async def resolve(self, request: Request) -> Reply:
        """Resolve a query through the listener that received the request, beginning with the choice of its zone."""
        return await (request.resolver or self.processors[request.server]).resolve(request)

    def chain_of(self, block: AssembledBlock) -> Next | None:
        """Link the handlers of a block once, and again if they change; None if it has none."""
        handlers = block.handlers
        found = self._chains.get(id(block))
        if found is None or found[0] is not handlers:
            chain = link(handlers, self.queries.spawn) if handlers else None
            found = self._chains[id(block)] = (handlers, chain)
        return found[1]

    async def take_apart(self) -> None:
        """Free the stopped configuration, one block at a time (hsdns/memory.py, rule 3)."""
        found = self.configuration
        self.configuration = Configuration(found.corefile, (), ())
        self.processors = {}
        self.pages = HttpPages()
        self._files = FileLooks()
        await asyncio.sleep(0)
        turn = Turn(self.clock)
        await found.take_apart(turn.end_if_long)
        while self._chains:
            self._chains.popitem()
            await turn.end_if_long()

    def serve_http(self, address: str, paths: dict[str, HttpPage]) -> None:
        """Add pages, which instance.py opens."""
        self.pages.serve(address, paths)

    def readiness(self) -> Readiness:
        """The readiness of the configuration's plugins."""
        return Readiness.of(self.configuration.plugins)

    def local_addresses(self, servers: Sequence[str]) -> list[str]:
        """The bound addresses, or this host's if any server is bound to all."""
        listens = [
            listener.listen
            for listener in self.configuration.listeners
            if listener.listen.server in servers
        ]
        if any(listen.is_wildcard for listen in listens):
            return own_addresses()
        return list(dict.fromkeys(listen.host for listen in listens))

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Check a condition until it holds or the time is over."""
        deadline = self.clock() + seconds
        while not condition():
            if self.clock() >= deadline:
                return False
            await asyncio.sleep(POLL_INTERVAL)
        return True
