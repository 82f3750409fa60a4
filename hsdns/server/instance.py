"""One running configuration, from start to stop: its plugins, pages, listeners, answer tables and tasks.

Path: lifecycle.py makes one at the start and one for each reload; for its plugins it is the runtime of runtime.py.
Rule 1: a failed start stops each plugin that was started, and closes each socket that was opened.
Rule 2: sockets outlive an instance: its successor takes them over between two packets, after all of its new parts have
        started; until then the old instance continues unchanged.
Rule 3: a draining instance answers the queries in progress, at listeners that its successor did not take over, and in
        handlers in which queries still wait.  Then it stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from enum import Enum, auto
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from hsdns.assemble import AssembledBlock, Configuration, ServedAddress
from hsdns.chain import Request
from hsdns.corefile.tree import CorefileError
from hsdns.fastpath import Versions
from hsdns.metrics import Registry
from hsdns.plugin import Plugin, Running, inherit_plugins
from hsdns.plugins.health import Health
from hsdns.plugins.prometheus import Prometheus, QueryCounts, enable, panics
from hsdns.query import QueryProcessor
from hsdns.server.answer_tables import SHED_REASONS, make_writer, shed_drops
from hsdns.server.http.pages import HttpError
from hsdns.server.query_tap import QueryTap
from hsdns.server.runtime import ServerRuntime, Turn
from hsdns.server.transport.listeners import DRAIN_TIMEOUT, Listeners
from hsdns.server.transport.sockets import ListenError
from hsdns.turns import unless_cancelled
from hsdns.wire.message import Reply
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.server.lifecycle import Server

log = logging.getLogger("hsdns.server")

# Their message is a sentence for the operator; any other exception is a fault of the server, logged with its stack.
START_FAILURES: Final = (CorefileError, ListenError, HttpError, OSError)


class StartError(Exception):
    """A sentence for the operator: why the server did not start."""


S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Transition(NamedTuple, Generic[S, E]):
    """In `state`, `event` leads to `following`; `action` is a sentence that says what is done."""

    state: S
    event: E
    following: S
    action: str


class ImpossibleEventError(RuntimeError):
    """The table has no such event in the present state: a fault of the server."""


class StateMachine(Generic[S, E]):
    """The present state of an object whose states are defined by a table."""

    def __init__(self, table: Iterable[Transition[S, E]], initial: S) -> None:
        self.state = initial
        self._following = {(row.state, row.event): row.following for row in table}

    def fire(self, event: E) -> S:
        """Process an event; return the state after it, or raise ImpossibleEventError."""
        following = self._following.get((self.state, event))
        if following is None:
            raise ImpossibleEventError(
                f"{type(self.state).__name__} {self.state.name} has no {event.name}"
            )
        self.state = following
        return following


class State(Enum):
    """The state of an instance."""

    PREPARING = auto()  # plugins start; it can be cancelled
    COMMITTED = auto()  # its new listeners start; it cannot be cancelled any more, but it can fail
    SERVING = auto()
    DRAINING = auto()
    STOPPING = auto()
    STOPPED = auto()


class Event(Enum):
    """What happens to an instance."""

    PREPARED = auto()
    FAILED = auto()
    STARTED = auto()
    SUCCEEDED = auto()
    SHUT_DOWN = auto()
    DRAINED = auto()
    STOPPED = auto()


TRANSITIONS: Final = (
    Transition(State.PREPARING, Event.PREPARED, State.COMMITTED, "its new listeners begin to read"),
    Transition(State.PREPARING, Event.FAILED, State.STOPPING, "bound sockets close, started plugins stop"),
    Transition(State.COMMITTED, Event.FAILED, State.STOPPING, "new listeners drain, started plugins stop"),
    Transition(State.COMMITTED, Event.STARTED, State.SERVING, "it takes over its predecessor's listeners"),
    Transition(State.SERVING, Event.SUCCEEDED, State.DRAINING, "listeners that were not taken over drain"),
    Transition(State.SERVING, Event.SHUT_DOWN, State.DRAINING, "all its listeners drain, together"),
    Transition(State.DRAINING, Event.DRAINED, State.STOPPING, "its plugins stop, its tasks are cancelled"),
    Transition(State.STOPPING, Event.STOPPED, State.STOPPED, "its processors and tables are forgotten"),
)  # fmt: skip


class Instance(ServerRuntime):
    """One configuration of a server; its plugins know it as their runtime."""

    def __init__(self, configuration: Configuration, server: Server) -> None:
        super().__init__(configuration, server.metrics, server.recomputation, server.clock)
        self.listeners = Listeners(server.opener, configuration.listeners)
        self.fail, self.stopping = server.fail, server.stopping
        self._server = server
        self._life = StateMachine(TRANSITIONS, State.PREPARING)
        self._task: asyncio.Task[object] | None = None  # the task that starts it
        self._started: list[Plugin] = []
        self._have_names_changed = self._is_killed = False

    @property
    def state(self) -> State:
        """Its state."""
        return self._life.state

    @property
    def lameduck(self) -> float:
        """Its lameduck period, in seconds."""
        plugins = self.configuration.plugins
        return max((each.lameduck for each in plugins if isinstance(each, Health)), default=0.0)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to drain."""
        return not len(self.listeners) and not len(self.queries)

    async def start(self, predecessor: Instance | None, draining: Sequence[Instance]) -> None:
        """Start all parts, then serve; raise the error of a failed start, which leaves the predecessor unchanged.

        The predecessor drains from then on.  Instances that drain already close their listeners before any is bound.
        """
        self._task = asyncio.current_task()
        try:
            await self._prepare(predecessor, draining)
            self._life.fire(Event.PREPARED)
            await self._warm_tables(predecessor)
            await self.listeners.start(self.processors)
        except BaseException:
            self._life.fire(Event.FAILED)
            await self._release(predecessor)
            raise
        self._life.fire(Event.STARTED)
        if predecessor is not None:
            predecessor._life.fire(Event.SUCCEEDED)
        before = None if predecessor is None else predecessor.listeners
        self.listeners.take_over(before, self.processors)
        self._server.tables.fold()
        if self._have_names_changed:
            try:
                self.names_answered_first_changed()
            except Exception:  # it serves already, so this is not a failed start
                log.exception("cannot rebuild the answer tables for changed names")

    def cancel_start(self) -> None:
        """Cancel a start that still prepares; a start that is further on continues."""
        if self.state is State.PREPARING and self._task is not None:
            self._task.cancel()
            self._task = None  # a second cancellation would interrupt the stop of the plugin that was starting

    def names_answered_first_changed(self) -> None:
        """Read again which names the handlers answer first, and make the tables accordingly."""
        # What is being made is made again once it serves; what drains has tables that go with its listeners.
        self._have_names_changed = self.state in (State.PREPARING, State.COMMITTED)
        if self.state is State.SERVING:
            self.processors = self._server.make_processors(self)
            self.listeners.exchange(self.processors)
            self._server.tables.fold()

    async def be_killed(self, draining: Sequence[Instance]) -> None:
        """Close all listeners at once, as the kernel does for a process that has ended, without waiting for queries.

        Instances that drain already do the same.
        """
        for each in (*draining, self):
            each._is_killed = True
            for listener in each.listeners:
                listener.kill()
        await self.shut_down(draining)

    def _is_forced(self) -> bool:
        """Whether nothing is waited for."""
        return self._is_killed or self._server.is_quitting

    def spawn_watch(self, coro: Coroutine[Any, Any, Any], name: str) -> Running:
        """Run a coroutine in the watch thread (watch_loop.py), if there is one, until it is cancelled."""
        return (self._server.watch_loop or self._server).spawn(coro, name)

    def late_watch(self, now: float) -> Awaitable[None] | None:
        """What to wait for before the store is read, if the watch thread is blocked."""
        watch = self._server.watch_loop
        return None if watch is None else watch.late(now)

    async def reload_if_changed(self) -> None:
        """Read the Corefile again, in a task of its own, because the reload stops the plugin that requests it."""
        reload = self._server.reload(only_if_changed=True)
        await asyncio.shield(self._server.spawn(reload, "reload"))

    # What makes the pages takes a tenth of all imports, and few servers have any.

    def serve_control(self, address: str, token: str | None) -> None:
        """Add the pages of the control API."""
        from hsdns.server.control.routes import pages  # noqa: PLC0415 - see above

        self.pages.serve(address, pages(self._server.door, token))
        self._server.remember()

    def serve_dashboard(self, address: str) -> None:
        """Add the web page."""
        from hsdns.server.control.routes import dashboard  # noqa: PLC0415 - see above

        self.pages.serve(address, dashboard(self._server.door))
        self._server.remember()

    async def drain(self) -> None:
        """Close the listeners that the successor has not taken over, after their queries are answered; then stop."""
        try:
            await self.listeners.drain(self._is_forced)
        finally:
            self._server.tables.fold()
            await self.wait_until(  # queries at listeners that the successor has taken over
                lambda: not len(self.queries) or self._is_forced(), DRAIN_TIMEOUT
            )
            self._life.fire(Event.DRAINED)
            await self._stop(self.configuration.plugins)

    async def shut_down(self, draining: Sequence[Instance]) -> None:
        """Close all listeners together after their queries are answered, then stop; there is no successor.

        It waits for instances that drain already, because their listeners may pass queries to this one.
        """
        self._life.fire(Event.SHUT_DOWN)
        try:
            await self.listeners.shut_down(self._is_forced, [each.listeners for each in draining])
        finally:
            self._server.tables.fold()
            for each in draining:
                await each.listeners.closed.wait()
            self._life.fire(Event.DRAINED)
            await self._stop(self.configuration.plugins)

    async def _prepare(self, predecessor: Instance | None, draining: Sequence[Instance]) -> None:
        if predecessor is not None:
            self.is_reload = True
            inherit_plugins(predecessor.configuration.plugins, self.configuration.plugins)
            for each in draining:
                await each.listeners.closed.wait()
            self.bound = self.listeners.bind(predecessor.listeners)
        turn = Turn(self.clock)
        for _, plugins in groupby(self.configuration.plugins, lambda plugin: plugin.name):
            for plugin in plugins:
                self._started.append(plugin)
                await plugin.start(self)
                await turn.end_if_long()
            if predecessor is None:  # probes are answered while kubernetes waits for the cluster
                await self._server.http.open(self.pages)
        if predecessor is None:
            self.bound = self.listeners.bind(None)
        await self._server.http.open(self.pages)
        # The handlers now know which names they answer first.  In a thread, as there may be thousands of blocks.
        self._have_names_changed = False
        self.processors = await self._server.in_thread(self._server.make_processors, self)

    async def _warm_tables(self, predecessor: Instance | None) -> None:
        """Fill the tables with the replies that clients lately queried in the predecessor's."""
        before = {} if predecessor is None else predecessor.processors
        for server, processor in self.processors.items():
            old = before.get(server)
            if old is not None and old.writer is not None and processor.writer is not None:
                await self._server.recomputation.warm(old.writer, processor.writer)

    async def _release(self, predecessor: Instance | None) -> None:
        """Undo a failed start."""
        try:
            self._server.tables.fold()  # new listeners may have answered from their tables
            try:
                await self.listeners.release(self._is_forced)
            except Exception:  # this is not the reason why it does not start
                log.exception("listeners of a start that failed did not close cleanly")
            self._server.tables.fold()
            if predecessor is not None:  # its pages may have been replaced already
                await self._server.http.go_back(predecessor.pages)
        finally:
            await self._stop(self._started)

    async def _stop(self, plugins: Sequence[Plugin]) -> None:
        """Stop plugins, even if others fail to stop, and end the tasks."""
        turn = Turn(self.clock)
        for plugin in plugins:
            try:
                with unless_cancelled():
                    await plugin.stop()
                    await turn.end_if_long()
            except Exception:
                log.exception("plugin/%s did not stop cleanly", plugin.name)
        await self.tasks.cancel()
        await self.queries.cancel()
        await asyncio.sleep(0)
        self._started.clear()
        await self.take_apart()
        self._life.fire(Event.STOPPED)


def show_enabled(metrics: Registry, configuration: Configuration) -> None:
    """Export the handlers of each block that has `prometheus`, by server, zone and view."""
    enable(
        metrics,
        {
            (listener.listen.server, zone.to_text(), block.view): [
                handler.name for handler in block.handlers
            ]
            for listener in configuration.listeners
            for zone, blocks in listener.served.items()
            for block in blocks
            if _is_first(block, listener, zone)
            if any(isinstance(plugin, Prometheus) for plugin in block.plugins)
        },
    )


def _is_first(block: AssembledBlock, listener: ServedAddress, zone: Name) -> bool:
    """Return whether a zone is that of a block's first key: as in CoreDNS, only that one is shown as enabled."""
    key = block.keys[0]
    return (key.zone, key.port, key.scheme) == (zone, listener.listen.port, listener.listen.scheme)


def make_processors(
    runtime: ServerRuntime, counters: Versions, counts: QueryCounts, tap: QueryTap | None = None
) -> dict[str, QueryProcessor]:
    """Make the processor of each listener, by the listener's name in metrics.

    `runtime.queries` has the tasks of handlers that wait; `tap` records the answered queries.
    """
    configuration = runtime.configuration
    chains = {id(block): runtime.chain_of(block) for block in configuration.blocks}

    def on_refused(request: Request, reply: Reply) -> None:
        counts.count_dropped(request, reply, runtime.clock() - request.now)

    panicked = panics(runtime.metrics)
    debugs = has_debug(configuration)

    _begin_counting_drops(configuration, runtime)
    return {
        listener.listen.server: QueryProcessor(
            listener.listen.server,
            listener.block_choice(chains),
            any_class=listener.any_class,
            on_refused=on_refused,
            on_panic=panicked.inc,
            writer=make_writer(
                listener.listen.server,
                {zone: block.policy for zone, block in listener.zones.items()},
                counters,
                tap,
            ),
            tap=(lambda: None) if tap is None else tap.taker,
            late_watch=runtime.late_watch
            if any(each.is_read_by_filters for each in listener.plugins)
            else None,
            stacktrace=debugs
            or any(block.logs_stacks for blocks in listener.served.values() for block in blocks),
        )
        for listener in configuration.listeners
    }


def has_debug(configuration: Configuration) -> bool:
    """Whether any block has `debug`, which applies to the whole process."""
    return any(plugin.debug_mode for plugin in configuration.plugins)


def _begin_counting_drops(configuration: Configuration, runtime: ServerRuntime) -> None:
    """Create a value in the counter of `shed` for each address with a block that has it."""
    drops = shed_drops(runtime.metrics)
    for listener in configuration.listeners:
        if any(plugin.counts_drops for plugin in listener.plugins):
            for reason in SHED_REASONS:
                drops.inc((listener.listen.server, reason), 0)
