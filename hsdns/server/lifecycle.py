"""Start, change over, stop: the life of the server around its configurations.

Path: cli/ makes a Server and runs it; everything below is started and stopped here.
Rule 1: nothing is half started: a start that fails ends what it began and raises a sentence.
Rule 2: sockets outlive configurations.  A reload starts the new plugins, then exchanges the processors behind the
        sockets between two packets, then stops the old plugins; where the new ones do not start, the old ones go on.
Rule 3: on SIGTERM /ready says no at once, the lameduck period answers with fresh data, then sockets close, what is in
        work gets a few seconds, and the process ends with status 0.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Any

from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.assemble import AssembledBlock, Configuration, ListenAddress, ServedAddress
from hsdns.chain import Endpoint
from hsdns.corefile.tree import Corefile, CorefileError
from hsdns.fastpath import Versions
from hsdns.metrics import Registry
from hsdns.plugin import Plugin, inherit_plugins
from hsdns.plugins import ORDER
from hsdns.plugins.health import Health
from hsdns.plugins.prometheus import Prometheus, QueryCounts, enable
from hsdns.plugins.reload import Reload, failures, show_running, show_version
from hsdns.query import QueryProcessor
from hsdns.server.answer_tables import AnswerTables
from hsdns.server.http import HttpError, HttpListeners
from hsdns.server.listeners import DRAIN_TIMEOUT, Leaving, Listener, Listeners
from hsdns.server.processors import has_debug, make_processors
from hsdns.server.runtime import ServerRuntime, Tasks
from hsdns.server.sockets import BoundSockets, ListenError
from hsdns.server.udp import UdpListener
from hsdns.wire.name import Name

log = logging.getLogger("hsdns.server")

RELOAD_FAILED = "plugin/reload: Corefile changed but reload failed"

StartFailures = (CorefileError, ListenError, HttpError, OSError)


class StartError(Exception):
    """A sentence for the operator: why the server did not start."""


class Server:
    """One process's DNS server.

    `load` parses the Corefile anew and raises CorefileError; `build` makes a Configuration of what it gives.  `workers`
    threads answer at each UDP address, where the compiled fast path is there.
    """

    def __init__(
        self,
        load: Callable[[], Corefile],
        build: Callable[[Corefile], Configuration],
        workers: int = 1,
    ) -> None:
        self.metrics = Registry()
        self.counters = Versions()
        self.stopping = False
        self._load = load
        self._build = build
        self.workers = workers
        self._runtime: ServerRuntime | None = None  # what is served
        self._opening: ServerRuntime | None = None  # what will be, once its sockets have started
        self._renews_opened = (
            False  # its tables, when it is served: its claims have changed meanwhile
        )
        self._http = HttpListeners()
        self._tasks = Tasks()
        self._retiring = Tasks()  # configurations that something in work still needs
        self.listeners = Listeners(self.metrics, self._tasks.spawn, ServerRuntime.clock, workers)
        self._status: int | None = None
        self._ended = asyncio.Event()
        self._at_once = False
        self._tried = ""  # digest of the Corefile that was put to use, or tried, last; or why it could not be read
        self._reloading = asyncio.Lock()
        self._beginning: asyncio.Task[None] | None = None  # the first start
        self._starting: asyncio.Task[Any] | None = None  # a reload whose plugins are being started
        self._counts = QueryCounts(self.metrics)
        self._keepers = AnswerTables(self.metrics)

    @property
    def configuration(self) -> Configuration:
        """What is being served."""
        assert self._runtime is not None, "started"
        assert self._runtime.configuration is not None, "started"
        return self._runtime.configuration

    @property
    def addresses(self) -> dict[ListenAddress, Endpoint]:
        """The address behind each listener, with the port that the kernel chose where it was 0."""
        return self.listeners.addresses

    @property
    def is_serving(self) -> bool:
        """Whether the start is over, and no signal came before that was."""
        return self._runtime is not None

    async def start(self) -> None:
        """Read the Corefile and serve it; raise CorefileError or StartError, leaving nothing behind.

        A signal that ends the server ends this too, with nothing served; run() then tells the status.
        """
        corefile = self._load()
        self._tried = corefile.digest
        try:
            configuration = self._build(corefile)
            self._beginning = asyncio.create_task(self._begin(configuration))
            await self._beginning
        except BaseException as error:
            await self.close()
            if isinstance(error, asyncio.CancelledError) and self._ended.is_set():
                return
            if isinstance(error, StartFailures) and not isinstance(error, CorefileError):
                raise StartError(str(error)) from error
            raise
        finally:
            self._beginning = None
        self._tasks.spawn(self._keepers.write_logs(), "query log")

    async def _begin(self, configuration: Configuration) -> None:
        async with self._reloading:  # a reload that is asked for meanwhile comes after the start
            await self._change_over(configuration, first=True)

    def show_running(self) -> None:
        """Log which Corefile is served, where a block has `reload`; at the start that is for the caller to do."""
        if any(isinstance(plugin, Reload) for plugin in self.configuration.plugins):
            show_running(self.configuration.corefile.digest)

    async def run(self) -> int:
        """Serve until a signal or a plugin ends it; return the exit status."""
        await self._ended.wait()
        await self.close()
        assert self._status is not None, "ended"
        return self._status

    async def reload(self, *, only_if_changed: bool = False) -> bool:
        """Change over to the Corefile as it is now; on any fault log it, count it and go on as before."""
        async with self._reloading:
            if self.stopping or self._runtime is None:  # it ends, or the start has failed
                return False
            self._starting = asyncio.current_task()
            # A second line with the same reason, for the searches and alerts that are written for CoreDNS's.
            wanted = RELOAD_FAILED if only_if_changed else "SIGUSR1"
            try:
                corefile = self._read(only_if_changed)
                if corefile is None:
                    return True
                show_version(self.metrics, corefile.digest)
                log.info("Reloading")
                await self._change_over(self._build(corefile), first=False)
            except StartFailures as error:
                failures(self.metrics).inc()
                log.error("Restart failed: %s (serving goes on as before)", error)
                log.error("%s: %s", wanted, error)
                return False
            except Exception as error:
                failures(self.metrics).inc()
                log.exception("Restart failed; serving goes on as before")
                log.error("%s: %s", wanted, error)
                return False
            finally:
                self._starting = None
            log.info("Reloading complete")
            return True

    def _read(self, only_if_changed: bool) -> Corefile | None:
        """Parse the Corefile; None where it is what was tried last.  A bad file is tried once, not every 30 seconds."""
        tried = self._tried
        try:
            corefile = self._load()
        except CorefileError as error:
            self._tried = str(error)
            if only_if_changed and self._tried == tried:
                return None
            log.info("Reloading")
            raise
        self._tried = corefile.digest
        return None if only_if_changed and self._tried == tried else corefile

    async def shut_down(self, status: int = 0) -> None:
        """Leave: say not ready, answer through the lameduck period, let run() end."""
        if self.stopping:
            return
        self.stopping = True
        if self._opening is not None:  # its pages are shown already
            self._opening.stopping = True
        if self._runtime is not None:
            self._runtime.stopping = True
            lameduck = max(
                (
                    plugin.lameduck
                    for plugin in self.configuration.plugins
                    if isinstance(plugin, Health)
                ),
                default=0.0,
            )
            if lameduck:
                log.info("plugin/health: Going into lameduck mode for %gs", lameduck)
                await asyncio.sleep(lameduck)
        self._end(status)

    def _end(self, status: int, *, at_once: bool = False) -> None:
        if self._status is None or at_once:
            self._status = status
        self._at_once |= at_once
        self._ended.set()
        if self._beginning is not None:
            self._beginning.cancel()

    def _fail(self, reason: str) -> None:
        log.critical(reason)
        self._end(1)

    async def _change_over(self, configuration: Configuration, *, first: bool) -> None:
        """Start a configuration and put it behind the sockets; raise, with the old one untouched, if it cannot."""
        runtime = ServerRuntime(
            self.metrics,
            self.counters,
            reload_if_changed=self._reload_if_changed,
            fail=self._fail,
            names_answered_first_changed=lambda: self._renew_tables(runtime),
            lasting=self._tasks,
        )
        runtime.configuration = configuration
        if not first:
            inherit_plugins(self.configuration.plugins, configuration.plugins)
        old = self._runtime
        opened: dict[ListenAddress, BoundSockets] = {}
        started: list[Plugin] = []
        try:
            if not first:
                runtime.bound = await self.listeners.open(configuration, opened)
            for name in ORDER:
                for plugin in configuration.plugins:
                    if plugin.name == name:
                        started.append(plugin)
                        await plugin.start(runtime)
                if first:  # probes are answered while kubernetes waits for the cluster
                    await self._http.open(runtime.pages)
            if first:
                runtime.bound = await self.listeners.open(configuration, opened)
            await self._http.open(runtime.pages)
            # Now that the handlers know what they claim; when that changes from here on, the tables are made anew.
            runtime.processors = self._processors(configuration, runtime)
            self._starting = None  # nobody cancels this any more
            runtime.stopping = self.stopping  # SIGTERM may have come meanwhile
            self._opening, self._renews_opened = runtime, False
            self._keepers.fold()  # while all that counts is there
            left = await self.listeners.use(
                configuration.listeners, lambda server: runtime.processors[server], opened
            )
        except BaseException:
            self._starting = None  # nor what follows, which leaves nothing behind
            self._opening = None
            self.listeners.give_back(opened)
            if self._runtime is not None:  # its pages may have been exchanged already
                await self._http.open(self._runtime.pages)
                await self._http.keep_only(self._runtime.pages)
            await _stop(runtime, started)
            raise
        self._runtime, self._opening = runtime, None
        self._use_tables(configuration, runtime, left)
        if self._renews_opened:
            self._renew_tables(runtime)
        enable(
            self.metrics,
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
        level = logging.DEBUG if has_debug(configuration) else logging.INFO
        logging.getLogger("hsdns").setLevel(level)
        await self._http.keep_only(runtime.pages)
        if old is None:
            return
        self.show_running()
        if left or len(old.queries):
            self._retiring.spawn(self._retire(old, left), "retire")
        else:
            await _stop(old)

    async def _retire(self, old: ServerRuntime, left: Sequence[Leaving]) -> None:
        """Stop an old configuration when what is in work has been answered, and close what is not wanted any more."""
        keepers, udp = _keepers_of(left), _udp_of(left)
        try:
            await self.listeners.let_go(left, lambda: self._at_once)
        finally:
            self._keepers.let_go(keepers, udp)
            await old.wait_until(lambda: not len(old.queries) or self._at_once, DRAIN_TIMEOUT)
            await _stop(old)

    def _use_tables(
        self, configuration: Configuration, runtime: ServerRuntime, left: Sequence[Leaving] = ()
    ) -> None:
        """Count the tables of a configuration from now on, and those of what it has left until that closes."""
        keepers = {
            listener.listen: runtime.processors[listener.listen.server].writer
            for listener in configuration.listeners
        }
        self._keepers.use(keepers, self.listeners.udp, _keepers_of(left), _udp_of(left))

    def _processors(
        self, configuration: Configuration, runtime: ServerRuntime
    ) -> dict[str, QueryProcessor]:
        return make_processors(configuration, runtime, self.counters, self._counts, self._fail)

    def _renew_tables(self, runtime: ServerRuntime) -> None:
        """Make the tables of a configuration anew: what its handlers claim has changed."""
        if runtime is self._opening:
            self._renews_opened = True
        if runtime is not self._runtime or runtime.configuration is None:
            return
        runtime.processors = self._processors(runtime.configuration, runtime)
        self.listeners.exchange(runtime.processors)
        self._use_tables(runtime.configuration, runtime)

    async def _reload_if_changed(self) -> None:
        # In a task of its own: the reload stops the plugin that asks for it.
        await asyncio.shield(self._tasks.spawn(self.reload(only_if_changed=True), "reload"))

    async def close(self) -> None:
        """Close the sockets, give what is in work a moment, stop the plugins."""
        self.stopping = True
        if self._starting is not None:
            self._starting.cancel()
        async with self._reloading:  # one that has changed over stops the old plugins first
            pass
        await asyncio.gather(self.listeners.close(lambda: self._at_once), self._retiring.wait())
        self._keepers.finish()
        if self._runtime is not None:
            await _stop(self._runtime)
            self._runtime = None
        await self._http.close()
        await self._tasks.cancel()

    def handle_signals(self) -> None:
        """Let signals end and reload the server; before start(), since process 1 of a container has no defaults."""
        loop = asyncio.get_running_loop()

        def terminate() -> None:
            log.info("SIGTERM: Shutting down servers then terminating")
            self._tasks.spawn(self.shut_down(), "shut down")

        def interrupt() -> None:
            if self.stopping:
                log.info("SIGINT: Force quit")
                self._end(2, at_once=True)
                return
            log.info("SIGINT: Shutting down")
            self._tasks.spawn(self.shut_down(), "shut down")

        def leave() -> None:
            log.info("SIGQUIT: Quitting process immediately")
            self._end(0, at_once=True)

        def reload() -> None:
            log.info("SIGUSR1: Reloading")
            self._tasks.spawn(self.reload(), "reload")

        loop.add_signal_handler(signal.SIGTERM, terminate)
        loop.add_signal_handler(signal.SIGINT, interrupt)
        loop.add_signal_handler(signal.SIGQUIT, leave)
        loop.add_signal_handler(signal.SIGUSR1, reload)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_signal_handler(
            signal.SIGUSR2,
            lambda: log.warning(
                "SIGUSR2: hsdns does not exchange its binary while it runs; ignored"
            ),
        )


def _is_first(block: AssembledBlock, listener: ServedAddress, zone: Name) -> bool:
    """Tell whether a block's first key stands for a zone there: as in CoreDNS, only that one is shown as enabled."""
    key = block.keys[0]
    return (key.zone, key.port, key.scheme) == (zone, listener.listen.port, listener.listen.scheme)


def _keepers_of(left: Sequence[Leaving]) -> list[AnswerTableWriter]:
    """What keeps the tables of these listeners, which nobody exchanges any more."""
    return [each.processor.writer for each in left if each.processor.writer is not None]


def _udp_of(left: Sequence[Leaving]) -> list[UdpListener]:
    found = [each.udp if isinstance(each, Listener) else each for each in left]
    return [each for each in found if each is not None]


async def _stop(runtime: ServerRuntime, started: Sequence[Plugin] | None = None) -> None:
    """Stop the plugins of a configuration, or those of them that have started."""
    if started is None:
        started = runtime.configuration.plugins if runtime.configuration is not None else ()
    task = asyncio.current_task()
    cancelled = task.cancelling() if task is not None else 0
    for plugin in started:
        try:
            await plugin.stop()
        except Exception:
            log.exception("plugin/%s did not stop cleanly", plugin.name)
        except asyncio.CancelledError:
            if task is not None and task.cancelling() > cancelled:
                raise
            # Nobody has cancelled us: so ends what a stop() has cancelled and waits for.
    await runtime.tasks.cancel()
    await runtime.queries.cancel()
    # The tables go now: what was frozen after the start (cli/launch.py) is in circles that no collection looks at.
    runtime.processors = {}
