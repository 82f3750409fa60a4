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
import socket
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from hsdns import drive
from hsdns.assemble import Configuration, Listen
from hsdns.chain import Endpoint, Plugin, Request, fold
from hsdns.corefile.tree import Corefile, CorefileError
from hsdns.fastpath import IMPLEMENTATION, Versions
from hsdns.keeper import Policy
from hsdns.metrics import Registry
from hsdns.plugins import ORDER
from hsdns.plugins.debug import Debug
from hsdns.plugins.health import Health
from hsdns.plugins.prometheus import Prometheus, QueryCounts, enable, panics
from hsdns.plugins.reload import failures, show_version
from hsdns.query import QueryProcessor
from hsdns.server.http import HttpError, HttpListeners
from hsdns.server.keepers import Keepers, make_keeper
from hsdns.server.listener import ListenError, Opened, open_all
from hsdns.server.runtime import ServerRuntime, Tasks
from hsdns.server.tcp import TcpServer
from hsdns.server.udp import UdpListener, make_udp
from hsdns.wire.message import Reply
from hsdns.zones import Zones

log = logging.getLogger("hsdns.server")

DRAIN_TIMEOUT: Final = (
    5.0  # seconds for what is in work when the sockets close (CoreDNS: 5 s grace)
)

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
        self._runtime: ServerRuntime | None = None
        self._http = HttpListeners()
        self._udp: dict[Listen, UdpListener] = {}
        self._tcp: dict[Listen, TcpServer] = {}
        self._tasks = Tasks()
        self._status: int | None = None
        self._ended = asyncio.Event()
        self._at_once = False
        self._tried = ""  # digest of the Corefile that was put to use, or tried, last; or why it could not be read
        self._reloading = asyncio.Lock()
        self._counts = QueryCounts(self.metrics)
        self._keepers = Keepers(self.metrics)
        self._rejected = self.metrics.counter(
            "hsdns_tcp_rejected_total", "Connections closed at once because too many were open."
        )

    @property
    def configuration(self) -> Configuration:
        """What is being served."""
        assert self._runtime is not None, "started"
        assert self._runtime.configuration is not None, "started"
        return self._runtime.configuration

    @property
    def addresses(self) -> dict[Listen, Endpoint]:
        """The address behind each listener, with the port that the kernel chose where it was 0."""
        return {listen: server.local for listen, server in self._udp.items()}

    async def start(self) -> None:
        """Read the Corefile and serve it; raise CorefileError or StartError, leaving nothing behind."""
        corefile = self._load()
        self._tried = corefile.digest
        try:
            await self._change_over(self._build(corefile), first=True)
        except BaseException as error:
            await self.close()
            if isinstance(error, StartFailures) and not isinstance(error, CorefileError):
                raise StartError(str(error)) from error
            raise
        self._tasks.spawn(self._keepers.write_logs(), "query log")

    async def run(self) -> int:
        """Serve until a signal or a plugin ends it; return the exit status."""
        await self._ended.wait()
        await self.close()
        assert self._status is not None, "ended"
        return self._status

    async def reload(self, *, only_if_changed: bool = False) -> bool:
        """Change over to the Corefile as it is now; on any fault log it, count it and go on as before."""
        async with self._reloading:
            if self.stopping:
                return False
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
                return False
            except Exception:
                failures(self.metrics).inc()
                log.exception("Restart failed; serving goes on as before")
                return False
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
            raise
        self._tried = corefile.digest
        return None if only_if_changed and self._tried == tried else corefile

    async def shut_down(self, status: int = 0) -> None:
        """Leave: say not ready, answer through the lameduck period, let run() end."""
        if self.stopping:
            return
        self.stopping = True
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
                log.info("Going into lameduck mode for %gs", lameduck)
                await asyncio.sleep(lameduck)
        self._end(status)

    def _end(self, status: int, *, at_once: bool = False) -> None:
        if self._status is None or at_once:
            self._status = status
        self._at_once |= at_once
        self._ended.set()

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
            claims_changed=self._renew_tables,
        )
        runtime.configuration = configuration
        opened: dict[Listen, Opened] = {}
        started: list[Plugin] = []
        try:
            if not first:
                self._open(configuration, runtime, opened)
            for name in ORDER:
                for plugin in configuration.plugins:
                    if plugin.name == name:
                        started.append(plugin)
                        await plugin.start(runtime)
                if first:  # probes are answered while kubernetes waits for the cluster
                    await self._http.open(runtime.pages)
            if first:
                self._open(configuration, runtime, opened)
            await self._http.open(runtime.pages)
            # Now that the handlers know what they claim; nothing is awaited until the tables are in use.
            runtime.processors = self._processors(configuration, runtime)
        except BaseException:
            for sockets in opened.values():
                sockets.close()
            await _stop(started, runtime)
            raise
        runtime.stopping = self.stopping  # SIGTERM may have come meanwhile
        old, self._runtime = self._runtime, runtime
        await self._put_behind_sockets(configuration, runtime, opened)
        enable(
            self.metrics,
            {
                (listener.listen.server, zone.to_text()): [
                    handler.name for handler in block.handlers
                ]
                for listener in configuration.listeners
                for zone, block in listener.zones.items()
                if any(isinstance(plugin, Prometheus) for plugin in block.plugins)
            },
        )
        level = logging.DEBUG if _debugs(configuration) else logging.INFO
        logging.getLogger("hsdns").setLevel(level)
        await self._http.keep_only(runtime.pages)
        if old is not None and old.configuration is not None:
            await _stop(old.configuration.plugins, old)

    def _open(
        self,
        configuration: Configuration,
        runtime: ServerRuntime,
        opened: dict[Listen, Opened],
    ) -> None:
        workers = self.workers if IMPLEMENTATION == "rust" else 1
        for listener in configuration.listeners:
            known = self._udp.get(listener.listen)
            if known is None:
                opened[listener.listen] = sockets = open_all(
                    listener.listen, self._on_port(listener.listen.port, opened), workers
                )
                address = sockets.udp[0].getsockname()
                runtime.bound[listener.listen.server] = Endpoint(*address[:2])
            else:
                runtime.bound[listener.listen.server] = known.local

    def _on_port(self, port: int, opened: dict[Listen, Opened]) -> list[socket.socket]:
        """Our own sockets on a port; on port 0 each has another."""
        known = {
            **{
                listen: Opened(udp.sockets, self._tcp[listen].sock)
                for listen, udp in self._udp.items()
            },
            **opened,
        }
        return [
            sock
            for listen, sockets in known.items()
            if port and listen.port == port
            for sock in (*sockets.udp, sockets.tcp)
        ]

    async def _put_behind_sockets(
        self,
        configuration: Configuration,
        runtime: ServerRuntime,
        opened: dict[Listen, Opened],
    ) -> None:
        kept = set()
        for listener in configuration.listeners:
            listen, processor = listener.listen, runtime.processors[listener.listen.server]
            kept.add(listen)
            if listen in opened:
                udp, tcp = opened[listen]
                self._udp[listen] = make_udp(udp, processor, self._tasks.spawn, runtime.clock)
                self._tcp[listen] = TcpServer(
                    tcp,
                    processor,
                    self._tasks.spawn,
                    runtime.clock,
                    self._rejected,
                    self._count_connections,
                )
                self._udp[listen].start()
                await self._tcp[listen].start()
            else:
                self._udp[listen].processor = processor
                self._tcp[listen].processor = processor
        self._keepers.fold()  # while they are all there
        for listen in set(self._udp) - kept:
            self._udp.pop(listen).close()
            self._tcp.pop(listen).close()
        self._use_tables(configuration, runtime)

    def _use_tables(self, configuration: Configuration, runtime: ServerRuntime) -> None:
        """Count the tables of a configuration from now on."""
        keepers = {
            listener.listen: runtime.processors[listener.listen.server].keeper
            for listener in configuration.listeners
        }
        self._keepers.use(keepers, self._udp)

    def _processors(
        self, configuration: Configuration, runtime: ServerRuntime
    ) -> dict[str, QueryProcessor]:
        spawn: drive.Spawn = self._tasks.spawn
        chains = {}
        for block in configuration.blocks:
            handlers = block.handlers
            for handler, following in pairwise(handlers):
                if isinstance(handler, Prometheus):
                    handler.following = following.name
            chains[id(block)] = fold(handlers, spawn) if handlers else None

        def on_refused(request: Request, reply: Reply) -> None:
            self._counts.count_dropped(request, reply, runtime.clock() - request.now)

        policies = {id(block): Policy(block.handlers) for block in configuration.blocks}
        panicked = panics(self.metrics)

        def on_panic() -> None:
            panicked.inc()
            if _debugs(configuration):
                self._fail(
                    "a handler raised an error and debug is on: ending; remove debug to survive such errors"
                )

        return {
            listener.listen.server: QueryProcessor(
                listener.listen.server,
                Zones({zone: chains[id(block)] for zone, block in listener.zones.items()}),
                any_class=listener.any_class,
                on_refused=on_refused,
                on_panic=on_panic,
                keeper=make_keeper(
                    listener.listen.server,
                    {zone: policies[id(block)] for zone, block in listener.zones.items()},
                    self.counters,
                    self._counts,
                ),
            )
            for listener in configuration.listeners
        }

    def _renew_tables(self) -> None:
        """Make the tables anew: what the handlers claim has changed."""
        runtime = self._runtime
        if runtime is None or runtime.configuration is None:
            return
        runtime.processors = self._processors(runtime.configuration, runtime)
        for listener in runtime.configuration.listeners:
            if listener.listen not in self._tcp:  # it is just being opened
                continue
            processor = runtime.processors[listener.listen.server]
            self._udp[listener.listen].processor = processor
            self._tcp[listener.listen].processor = processor
        self._use_tables(runtime.configuration, runtime)

    def _count_connections(self) -> int:
        return sum(len(server.connections) for server in self._tcp.values())

    async def _reload_if_changed(self) -> None:
        # In a task of its own: the reload stops the plugin that asks for it.
        await asyncio.shield(self._tasks.spawn(self.reload(only_if_changed=True), "reload"))

    async def close(self) -> None:
        """Close the sockets, give what is in work a moment, stop the plugins."""
        for tcp in self._tcp.values():
            tcp.stop_accepting()
        deadline = asyncio.get_running_loop().time() + DRAIN_TIMEOUT
        servers: list[UdpListener | TcpServer] = [*self._udp.values(), *self._tcp.values()]
        while any(server.pending for server in servers) and not self._at_once:
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.01)
        for server in servers:
            server.close()
        self._keepers.finish()
        self._udp.clear()
        self._tcp.clear()
        if self._runtime is not None and self._runtime.configuration is not None:
            await _stop(self._runtime.configuration.plugins, self._runtime)
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
                self._end(2, at_once=True)
                return
            log.info("SIGINT: Shutting down")
            self._tasks.spawn(self.shut_down(), "shut down")

        def reload() -> None:
            log.info("SIGUSR1: Reloading")
            self._tasks.spawn(self.reload(), "reload")

        loop.add_signal_handler(signal.SIGTERM, terminate)
        loop.add_signal_handler(signal.SIGINT, interrupt)
        loop.add_signal_handler(signal.SIGQUIT, lambda: self._end(0, at_once=True))
        loop.add_signal_handler(signal.SIGUSR1, reload)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_signal_handler(
            signal.SIGUSR2,
            lambda: log.warning(
                "SIGUSR2: hsdns does not exchange its binary while it runs; ignored"
            ),
        )


async def _stop(plugins: list[Plugin], runtime: ServerRuntime) -> None:
    for plugin in plugins:
        try:
            await plugin.stop()
        except Exception:
            log.exception("plugin/%s did not stop cleanly", plugin.name)
    await runtime.tasks.cancel()


def _debugs(configuration: Configuration) -> bool:
    return any(isinstance(plugin, Debug) for plugin in configuration.plugins)
