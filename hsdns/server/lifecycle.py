"""The life of the process: start, reload, shut down.

Path: cli/ makes a Server and runs it; each configuration is an instance.py.
Rule 1: only one change runs at a time: a reload waits for the start or for the previous reload, and the shutdown waits
        for both; a signal that ends the server cancels a change, if it can still be cancelled.
Rule 2: a failed reload leaves the serving instance unchanged.
Rule 3: after SIGTERM, /ready returns 503 at once, queries get current answers during the lameduck period, then sockets
        close, queries in progress get a few seconds, and the process ends with status 0.
Rule 4: a Corefile that cannot be read or used is tried once, not every 30 seconds; an unchanged one is not parsed
        again, and at a reload it is read in a thread.
Rule 5: process 1 of a container has no default actions, so every relevant signal is handled from the beginning.
Source: CoreDNS's copy of Caddy, sigtrap.go and sigtrap_posix.go.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from asyncio import sleep
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hsdns import memory
from hsdns.assemble import Configuration, ListenAddress
from hsdns.chain import Endpoint
from hsdns.corefile.tree import Corefile, CorefileError
from hsdns.fastpath import Versions
from hsdns.limits import descriptor_limit
from hsdns.metrics import Registry
from hsdns.plugin import Plugin, files_changed
from hsdns.plugins.dashboard import Dashboard
from hsdns.plugins.prometheus import QueryCounts
from hsdns.plugins.reload import Reload, failures, show_running, show_version
from hsdns.query import QueryProcessor
from hsdns.server.answer_tables import AnswerTables, Recomputation
from hsdns.server.control.door import Door
from hsdns.server.host import ServiceManager
from hsdns.server.http.pages import HttpListeners, HttpPages
from hsdns.server.instance import (
    START_FAILURES,
    Instance,
    StartError,
    State,
    StateMachine,
    Transition,
    has_debug,
    make_processors,
    show_enabled,
)
from hsdns.server.query_tap import QueryTap
from hsdns.server.runtime import ServerRuntime, Tasks, take_apart
from hsdns.server.transport.admission import Shares
from hsdns.server.transport.listeners import Listener, Opener
from hsdns.server.watch_loop import Watchdog, WatchLoop
from hsdns.server.watch_thread import WatchThread

if TYPE_CHECKING:
    from hsdns.server.faults import StandingFaults


class Phase(Enum):
    """The phase of the process."""

    NEW = auto()
    STARTING = auto()
    SERVING = auto()
    RELOADING = auto()
    LAMEDUCK = auto()  # a signal that ends the server has arrived; a reload may still continue
    CLOSING = auto()
    QUITTING = auto()  # as CLOSING, without waiting
    CLOSED = auto()


class Event(Enum):
    """What happens to the process."""

    START = auto()
    STARTED = auto()
    RELOAD = auto()
    RELOAD_ENDED = auto()  # whether or not it has failed
    SHUT_DOWN = auto()  # SIGTERM, SIGINT
    CLOSE = auto()  # the lameduck period is over, a plugin has failed, or the start has
    QUIT = auto()  # SIGQUIT, or a second SIGINT
    CLOSED = auto()


def _from_each(
    phases: Iterable[Phase], event: Event, following: Phase | None, action: str
) -> Iterator[Transition[Phase, Event]]:
    """Rows for several phases; without `following` each phase stays."""
    return (Transition(phase, event, following or phase, action) for phase in phases)


_BEFORE: Final = (Phase.NEW, Phase.STARTING)
_RUNNING: Final = (Phase.SERVING, Phase.RELOADING)
_ENDING: Final = (Phase.CLOSING, Phase.QUITTING)
_ENDED: Final = (Phase.CLOSED,)
STOPPING: Final = frozenset((Phase.LAMEDUCK, *_ENDING, *_ENDED))

TRANSITIONS: Final = (
    Transition(Phase.NEW, Event.START, Phase.STARTING, "the first instance starts"),
    Transition(Phase.STARTING, Event.STARTED, Phase.SERVING, "its listeners are read"),
    Transition(Phase.SERVING, Event.RELOAD, Phase.RELOADING, "the Corefile is read, its instance starts"),
    Transition(Phase.RELOADING, Event.RELOAD_ENDED, Phase.SERVING, "the old instance drains, or goes on"),
    Transition(Phase.LAMEDUCK, Event.RELOAD_ENDED, Phase.LAMEDUCK, "as in RELOADING"),
    *_from_each(_ENDING, Event.STARTED, None, "the instance is closed: its start could not be cancelled any more"),
    *_from_each(_ENDING, Event.RELOAD_ENDED, None, "the instance that serves now is closed"),
    *_from_each(_BEFORE, Event.SHUT_DOWN, Phase.CLOSING, "nothing is served: the start is cancelled"),
    *_from_each(_RUNNING, Event.SHUT_DOWN, Phase.LAMEDUCK, "/ready says no, the lameduck period begins"),
    *_from_each((Phase.LAMEDUCK, *_ENDING, *_ENDED), Event.SHUT_DOWN, None, "nothing: it is stopping"),
    *_from_each((*_BEFORE, *_RUNNING, Phase.LAMEDUCK), Event.CLOSE, Phase.CLOSING, "a start is cancelled, all drains"),
    *_from_each((*_ENDING, *_ENDED), Event.CLOSE, None, "nothing: it is closing"),
    *_from_each(set(Phase) - {Phase.CLOSED}, Event.QUIT, Phase.QUITTING, "as CLOSE, and nothing is waited for"),
    *_from_each(_ENDED, Event.QUIT, None, "nothing"),
    *_from_each(_ENDING, Event.CLOSED, Phase.CLOSED, "run() returns the status"),
)  # fmt: skip


log = logging.getLogger("hsdns.server")
fault_log = logging.getLogger("hsdns.faults")


class CorefileReader:
    """Remembers which Corefile was read last; `load` parses it again and raises CorefileError.

    `has_changed` returns whether `load` would read anything else than the last time.
    """

    def __init__(
        self, load: Callable[[], Corefile], has_changed: Callable[[], bool] = lambda: True
    ) -> None:
        self._load = load
        self._has_changed = has_changed
        self._last: str | None = None  # its digest, or the reason why it could not be read

    def read(self, *, only_if_changed: bool = False) -> Corefile | None:
        """Parse it; if only a change is wanted, return None for an unchanged Corefile.  Raise CorefileError."""
        last = self._last
        if only_if_changed and last is not None and not self._has_changed():
            return None
        try:
            corefile = self._load()
        except CorefileError as error:
            self._last = str(error)
            if only_if_changed and self._last == last:
                return None
            if last is not None:
                log.info("Reloading")
            raise
        self._last = corefile.digest
        return None if only_if_changed and self._last == last else corefile

    def read_for(self, plugins: Iterable[Plugin], *, only_if_changed: bool) -> Corefile | None:
        """As read(), but a changed file of a running plugin counts as a change, too."""
        if only_if_changed and files_changed(plugins):
            only_if_changed = False
        return self.read(only_if_changed=only_if_changed)


RELOAD_FAILED: Final = "plugin/reload: Corefile changed but reload failed"
START_INTERVAL: Final = 1.0  # seconds between two attempts to start again


class ServerOptions(NamedTuple):
    """What the command line says.

    `workers` threads answer at each UDP address if the compiled fast path is loaded.  With `watches_apart`, clusters
    are watched in a thread of its own, and a watchdog checks the loops.  `control` are addresses and their tokens as
    for Runtime.serve_control(), in addition to those in the Corefile; with `keeps_queries` the last queries are kept
    before any page requests them, and with `faults` the control API accepts rules of faults.  With
    `reuseport`, other servers of this user may have the same ports.
    """

    workers: int = 1
    watches_apart: bool = False
    control: tuple[tuple[str, str | None], ...] = ()
    keeps_queries: bool = False
    faults: bool = False
    reuseport: bool = False


def _url(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class ServerParts(NamedTuple):
    """What tests replace: `clock` gives monotonic seconds, `in_thread` calls a function in a thread."""

    clock: Callable[[], float] = time.monotonic
    in_thread: Callable[..., Awaitable[Any]] = asyncio.to_thread
    opener: Callable[..., Opener] = Opener
    http: type[HttpListeners] = HttpListeners
    processors: Callable[..., dict[str, QueryProcessor]] = make_processors


class Server:
    """The DNS server of a process.

    `load` parses the Corefile and raises CorefileError; `build` makes a Configuration from its result; `has_changed`
    tells whether `load` would read anything else than the last time.  A reload calls them in a thread.
    `manager` is told of each change.  `metrics` and `watch_thread` are those with which requests were sent ahead
    (sources/ahead.py).
    """

    def __init__(
        self,
        load: Callable[[], Corefile],
        build: Callable[[Corefile], Configuration],
        options: ServerOptions = ServerOptions(),  # noqa: B008 - immutable
        *,
        has_changed: Callable[[], bool] = lambda: True,
        manager: ServiceManager | None = None,
        metrics: Registry | None = None,
        watch_thread: WatchThread | None = None,
        parts: ServerParts = ServerParts(),  # noqa: B008 - immutable
    ) -> None:
        workers, watches_apart, self._control, keeps_queries, faults, reuseport = options
        self.clock, self.in_thread, opener, http, self._processors = parts
        self.metrics = metrics or Registry()
        self.counters = Versions()
        self.workers = workers
        self.instances: list[Instance] = []  # all that have not stopped, oldest first
        self._corefile = CorefileReader(load, has_changed)
        self._build = build
        self._manager = manager or ServiceManager()
        shares = Shares.of(descriptor_limit())
        shares.count_in(self.metrics)
        self.http = http(shares.pages)
        self._tasks, self._drains = Tasks(), Tasks()
        self.opener = opener(self.metrics, self._tasks.spawn, self.clock, workers, shares.clients)
        self.opener.reuseport = reuseport
        self.recomputation = Recomputation(self.counters, self.clock, apart=watches_apart)
        self._watchdog = Watchdog(self.metrics, self.clock) if watches_apart else None
        self.watch_loop: WatchLoop | None = None
        if self._watchdog is not None:
            renew, began = self.counters.renew_lease, partial(self.recomputation.attach, apart=True)
            thread = watch_thread or WatchThread()
            self.watch_loop = WatchLoop(renew, self._watchdog, self.clock, began, thread)
        self._life = StateMachine(TRANSITIONS, Phase.NEW)
        self._changing = asyncio.Lock()  # held by the start, a reload, or the shutdown
        self._status: int | None = None
        self._ended = asyncio.Event()
        self._counts = QueryCounts(self.metrics)
        self.queries = QueryTap(self.clock, ServerRuntime.wall, keeps=keeps_queries)
        self.faults: StandingFaults | None = None
        self._measures_faults = faults
        if faults:
            from hsdns.server.faults import StandingFaults, measure_behind  # noqa: PLC0415 - ten modules, for few servers

            self.faults = StandingFaults(self, self.opener.faults)
            measure_behind(self, self.faults.rules)
        self.door = Door(
            lambda: self.instance,
            self.clock,
            ServerRuntime.wall,
            self.queries,
            self.metrics,
            self.faults,
            page=lambda: next(self._pages(), ""),
        )
        self.tables = AnswerTables(self.metrics, self._listeners, self.recomputation)

    def _pages(self) -> Iterator[str]:
        """The URLs of the web page, that of the command line first, with its token for the browser alone."""
        for address, token in self._control:
            if token is not None and address in self.http.bound:
                yield f"{_url(*self.http.bound[address])}#token={token}"
        for plugin in self.configuration.plugins:
            for address in plugin.addresses if isinstance(plugin, Dashboard) else ():
                yield _url(*self.http.bound[address])

    @property
    def phase(self) -> Phase:
        """The phase of the process."""
        return self._life.state

    @property
    def stopping(self) -> bool:
        """Whether it is shutting down or closed."""
        return self.phase in STOPPING

    @property
    def is_quitting(self) -> bool:
        """Whether it ends without waiting."""
        return self.phase is Phase.QUITTING

    @property
    def instance(self) -> Instance | None:
        """The serving configuration."""
        return next((each for each in self.instances if each.state is State.SERVING), None)

    @property
    def configuration(self) -> Configuration:
        """The serving configuration, as the Corefile describes it."""
        assert self.instance is not None, "serving"
        return self.instance.configuration

    @property
    def addresses(self) -> dict[ListenAddress, Endpoint]:
        """The address of each listener, with the port that the kernel chose for port 0."""
        return self.instance.listeners.addresses if self.instance is not None else {}

    @property
    def is_serving(self) -> bool:
        """Whether the start is over, and no signal ended the server before."""
        return self.instance is not None

    async def start(self) -> None:
        """Read the Corefile and serve it; raise CorefileError or StartError, leaving nothing behind.

        A signal that ends the server cancels this too, with nothing served; run() then returns the status.
        """
        if self.stopping:
            return
        self._life.fire(Event.START)
        if self._watchdog is not None:
            self._watchdog.start()
        try:
            corefile = self._corefile.read()
            assert corefile is not None, "asked for in any case"
            await asyncio.create_task(self._start_first(self._build(corefile)))
        except BaseException as error:
            await self.close()
            if isinstance(error, asyncio.CancelledError) and self._ended.is_set():
                return
            if isinstance(error, START_FAILURES) and not isinstance(error, CorefileError):
                raise StartError(str(error)) from error
            raise
        if self.phase in (Phase.CLOSING, Phase.QUITTING):
            await self.close()
            return
        if self._watchdog is not None:
            self._watchdog.listen("main", self._beaten)
        self._tasks.spawn(self.tables.write_logs(), "query log")

    def _beaten(self, now: float, in_time: bool) -> None:
        memory.collect_due()
        dog, serving = self._watchdog, self.instance
        if dog is None or dog.is_settled or serving is None:
            return
        if not serving.readiness().unready:
            dog.settle()

    def show_running(self) -> None:
        """Log the digest of the Corefile, if a block has `reload`; after the first start the caller does so."""
        if any(isinstance(plugin, Reload) for plugin in self.configuration.plugins):
            show_running(self.configuration.corefile.digest)

    async def run(self) -> int:
        """Serve until a signal or a plugin ends the server; return the exit status."""
        await self._ended.wait()
        await self.close()
        assert self._status is not None, "ended"
        return self._status

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine until the server has closed."""
        return self._tasks.spawn(coro, name)

    def remember(self) -> None:
        """Remember rates and names that fail, for readers that come later; once there are pages that show them."""
        if self.door.past is None:
            from hsdns.server.control.queries import past_of, remember  # noqa: PLC0415 - as the pages

            past_of(self.door)
            self._tasks.spawn(remember(self.door), "memory of top")

    async def reload(self, *, only_if_changed: bool = False) -> bool:
        """Serve the Corefile as it is now; an error is logged and counted, and the previous configuration stays."""
        async with self._changing:
            if self.phase is not Phase.SERVING:  # it shuts down, or the start has failed
                return False
            self._life.fire(Event.RELOAD)
            # A second line with the reason, for log searches and alerts that are written for CoreDNS.
            trigger = RELOAD_FAILED if only_if_changed else "SIGUSR1"
            if not only_if_changed:
                self._manager.reloading()
            try:
                with memory.growing():
                    read, plugins = self._corefile.read_for, self.configuration.plugins
                    corefile = await self.in_thread(read, plugins, only_if_changed=only_if_changed)
                    if corefile is None:
                        return True
                    if only_if_changed:
                        self._manager.reloading()
                    show_version(self.metrics, corefile.digest)
                    log.info("Reloading")
                    configuration = await self.in_thread(self._build, corefile)
                    tree = [*corefile.blocks]
                    del corefile
                    await take_apart(tree, self.clock)
                    if self.stopping:
                        return False
                    await self._change_over(configuration)
                    memory.keep()
            except Exception as error:
                failures(self.metrics).inc()
                trace = None if isinstance(error, START_FAILURES) else error
                log.error("Restart failed: %s (serving goes on as before)", error, exc_info=trace)
                log.error("%s: %s", trigger, error)
                self._manager.ready(f"the last reload failed: {error}")
                return False
            finally:
                self._life.fire(Event.RELOAD_ENDED)
            self._manager.ready()
            log.info("Reloading complete")
            return True

    async def restart(
        self, dead: Callable[[], Awaitable[None]], wanted: Callable[[], bool]
    ) -> bool:
        """Behave like a process that is killed, and that starts again when `dead` has returned.

        Return False, with nothing done, if the server shuts down, or if `wanted`, called once no other change runs,
        returns False.  The control API stays open, and metrics keep their values.
        """
        async with self._changing:
            old = self.instance
            if self.phase is not Phase.SERVING or old is None or not wanted():
                return False
            self._life.fire(Event.RELOAD)
            try:
                self.opener.ports = {listen: each.port for listen, each in self.addresses.items()}
                draining = [each for each in self.instances if each is not old]
                self._drains.spawn(self._finish(old, old.be_killed(draining)), "restart")
                await asyncio.sleep(0)  # the listeners are closed now; the rest continues
                control = old.pages.control
                await self.http.close_others(control)
                await dead()
                await self._drains.wait()
                await self._start_again(control)
            finally:
                self.opener.ports = {}
                self._life.fire(Event.RELOAD_ENDED)
            return True

    async def _start_again(self, control: HttpPages) -> None:
        """Try to start until that succeeds or the process ends; of what an attempt has opened, only `control` stays."""
        while not self.stopping:
            try:
                with memory.growing():
                    corefile = await self.in_thread(self._corefile.read)
                    configuration = await self.in_thread(self._build, corefile)
                    await self._change_over(configuration)
                    memory.keep()
            except Exception as error:
                trace = None if isinstance(error, START_FAILURES) else error
                fault_log.error("does not start again: %s", error, exc_info=trace)
                await self.http.go_back(control)
            else:
                return
            await sleep(START_INTERVAL)

    async def shut_down(self, status: int = 0) -> None:
        """Report that it is not ready, answer queries through the lameduck period, then end run()."""
        if self.stopping:
            return
        phase = self._life.fire(Event.SHUT_DOWN)
        self._manager.stopping()
        lameduck = self.instance.lameduck if self.instance is not None else 0.0
        for each in self.instances:
            each.stopping = True
        if phase is Phase.LAMEDUCK and lameduck:
            log.info("plugin/health: Going into lameduck mode for %gs", lameduck)
            await asyncio.sleep(lameduck)
        self._end(Event.CLOSE, status)

    def quit(self, status: int) -> None:
        """End run() without waiting."""
        self._end(Event.QUIT, status)

    async def close(self) -> None:
        """Close the sockets, give queries in progress a few seconds, stop the plugins."""
        self._life.fire(Event.CLOSE)
        self._cancel_start()
        # A reload that could not be cancelled drains the old instance first.
        async with self._changing:
            if self.phase is Phase.CLOSED:
                return
            serving, draining = self.instance, [*self.instances]
            if serving is not None:
                draining.remove(serving)
                self._drains.spawn(self._finish(serving, serving.shut_down(draining)), "drain")
            await self._drains.wait()
            self.tables.close()
            if self.faults is not None:
                self.faults.close()
            await self.http.close()
            await self._tasks.cancel()
            if self.watch_loop is not None:
                await self.watch_loop.close()
            if self._watchdog is not None:
                self._watchdog.stop()
            self._life.fire(Event.CLOSED)

    def _end(self, event: Event, status: int) -> None:
        if self._status is None or event is Event.QUIT:
            self._status = status
        self._life.fire(event)
        self._manager.stopping()
        self._cancel_start()
        self._ended.set()

    def _cancel_start(self) -> None:
        if self.faults is not None:
            self.faults.end()
        for each in self.instances:
            each.cancel_start()

    def fail(self, reason: str) -> None:
        """End with status 1, because of what a plugin says."""
        log.critical(reason)
        self._end(Event.CLOSE, 1)

    async def _start_first(self, configuration: Configuration) -> None:
        async with self._changing:  # a reload that is requested meanwhile waits for the start
            await self._change_over(configuration)
            if self._life.fire(Event.STARTED) is Phase.SERVING:
                self._manager.ready()

    async def _change_over(self, configuration: Configuration) -> None:
        """Serve a configuration; raise if it does not start, with the serving instance unchanged."""
        old = self.instance
        draining = [each for each in self.instances if each is not old]
        new = Instance(configuration, self)
        for address, token in self._control:
            new.serve_control(address, token)
        self.instances.append(new)
        if not self._measures_faults and any(
            each.name == "fault" for each in configuration.plugins
        ):
            from hsdns.server.faults import measure_behind  # noqa: PLC0415 - as StandingFaults

            self._measures_faults = True
            measure_behind(self, None)
        if self.faults is not None:
            self.faults.hold(configuration)  # before its plugins start to read a cluster
        try:
            await new.start(old, draining)
        except BaseException:
            self.instances.remove(new)
            raise
        # Each piece takes milliseconds with thousands of blocks, so others run in between.
        await asyncio.sleep(0)
        show_enabled(self.metrics, configuration)
        level = logging.DEBUG if has_debug(configuration) else logging.INFO
        logging.getLogger("hsdns").setLevel(level)
        await self.http.close_others(new.pages)
        if old is None:
            return
        await asyncio.sleep(0)
        self.show_running()
        if old.is_idle:
            await self._finish(old, old.drain())
        else:
            self._drains.spawn(self._finish(old, old.drain()), "drain")

    def make_processors(self, instance: Instance) -> dict[str, QueryProcessor]:
        """Make the query processor of each listener of an instance, by the listener's name in metrics."""
        if self.faults is not None:
            self.faults.place(instance)
        return self._processors(instance, self.counters, self._counts, self.queries)

    def configurations(self) -> list[Configuration]:
        """The configurations of all instances."""
        return [each.configuration for each in self.instances]

    def place_faults(self) -> None:
        """Apply a change of the rules to the server blocks."""
        assert self.faults is not None, "they have changed"
        self.faults.place_again(self.instances)

    async def _finish(self, instance: Instance, end: Coroutine[Any, Any, None]) -> None:
        try:
            await end
        finally:
            self.instances.remove(instance)

    def _listeners(self) -> Iterator[Listener]:
        """The listeners of all instances, those of the serving one last."""
        for each in sorted(self.instances, key=lambda each: each.state is State.SERVING):
            yield from each.listeners


def handle_signals(server: Server) -> None:
    """Install handlers for the signals that end or reload the server; called before start(), in the running loop."""

    def terminate() -> None:
        log.info("SIGTERM: Shutting down servers then terminating")
        server.spawn(server.shut_down(), "shut down")

    def interrupt() -> None:
        if server.stopping:
            log.info("SIGINT: Force quit")
            server.quit(2)
            return
        log.info("SIGINT: Shutting down")
        server.spawn(server.shut_down(), "shut down")

    def quit_now() -> None:
        log.info("SIGQUIT: Quitting process immediately")
        server.quit(0)

    def reload() -> None:
        log.info("SIGUSR1: Reloading")
        server.spawn(server.reload(), "reload")

    def ignore_upgrade() -> None:
        log.warning("SIGUSR2: hsdns does not exchange its binary while it runs; ignored")

    handlers = {
        signal.SIGTERM: terminate,
        signal.SIGINT: interrupt,
        signal.SIGQUIT: quit_now,
        signal.SIGUSR1: reload,
        signal.SIGHUP: lambda: None,
        signal.SIGUSR2: ignore_upgrade,
    }
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
