"""A server whose edges are in memory: a loop whose clock is scripted, sockets, plugins and processors that are watched.

Path: tests only; test_histories.py drives it.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from hsdns import eager
from hsdns.assemble import AssembledBlock, Configuration, ListenAddress, ServedAddress
from hsdns.chain import Endpoint
from hsdns.corefile.tree import Corefile, CorefileError, Position
from hsdns.fastpath.miss_queue import MissQueue
from hsdns.http_page import HttpPage
from hsdns.plugin import Plugin, Runtime
from hsdns.plugins.health import Health
from hsdns.plugins.multisocket import Multisocket
from hsdns.server.http.pages import HttpError, HttpPages
from hsdns.server.instance import Instance, StartError, State
from hsdns.server.lifecycle import Phase, Server, ServerParts, handle_signals
from hsdns.server.runtime import ServerRuntime
from hsdns.server.transport.admission import Admission, Places
from hsdns.server.transport.listeners import DRAIN_TIMEOUT, Opener
from hsdns.server.transport.sockets import BoundSockets, ListenError, Settings, socket_address
from hsdns.server.transport.udp import UdpListener
from hsdns.wire.name import ROOT

CLIENT: Final = socket_address(Endpoint("192.0.2.1", 40000))
MODES: Final = ("now", "waits", "fails", "waits and fails")


class ScriptedError(Exception):
    """What a part of the script raises."""


def as_any(stand_in: object) -> Any:
    """What stands in for a part of the server, or such a part for a stand-in."""
    return stand_in


class Errors(logging.Handler):
    """Collects what is logged as an error without being scripted."""

    def __init__(self, check: Callable[[bool, str], None]) -> None:
        super().__init__(logging.ERROR)
        self._check = check
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a record."""
        self.messages.append(record.getMessage())
        if record.exc_info is not None:
            error = record.exc_info[1]
            self._check(isinstance(error, ScriptedError), f"{record.getMessage()}: {error!r}")


class ScriptedLoop(asyncio.SelectorEventLoop):
    """A loop on which time passes only in wait(); `observe` is called in each of its turns."""

    def __init__(self, observe: Callable[[], None]) -> None:
        self.now = 0.0
        self.handlers: dict[int, Callable[[], object]] = {}
        loop = self

        class Selector(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> list[Any]:
                assert timeout is not None, "nothing is to come any more"
                loop.now += timeout
                observe()
                return []

        super().__init__(Selector())

    def time(self) -> float:
        """Scripted seconds."""
        return self.now

    def add_signal_handler(self, sig: int, callback: Any, *args: object) -> None:
        """Keep it for the script."""
        self.handlers[sig] = callback

    def turn(self, count: int = 1) -> None:
        """Run what is ready, so many times."""
        for _ in range(count):
            self.call_soon(self.stop)
            self.run_forever()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.call_later(seconds, self.stop)
        self.run_forever()


@dataclass
class Script:
    """A Corefile: what it asks for, and what goes wrong with it."""

    ports: tuple[int, ...] = (53,)
    workers: int = 1
    lameduck: float = 0.0
    starts: tuple[str, ...] = ("now", "now", "now")  # of each plugin, one of MODES
    stops: tuple[str, ...] = ("now", "now", "now")
    fault: str = ""  # "parse", "build", "bind", "http", "processors", "udp", "tcp", "end"
    at: int = 0  # the how manieth part of that kind
    opens: str = "now"  # when TCP begins to accept
    digest: str = ""


@dataclass
class Question:
    """A query that was taken, whose handler waits."""

    instance: Instance
    outcome: str = ""
    is_orphan: bool = False  # its client has gone
    answer: asyncio.Event = field(default_factory=asyncio.Event)


class Socket:
    """A socket that knows whether it is open."""

    def __init__(self, world: World, listen: ListenAddress, kind: str) -> None:
        self.listen, self.kind, self.is_open = listen, kind, True
        world.sockets.append(self)

    def getsockname(self) -> tuple[str, int]:
        return self.listen.host, self.listen.port

    def close(self) -> None:
        self.is_open = False


class Table:
    """An answer table and its keeper; each query that it answers counts, and is a line of the log."""

    is_wanted = True  # of the log
    log_drops = 0
    lost = 0

    def __init__(self, world: World, server: str) -> None:
        self.world, self.server = world, server
        self.table = self.hits = self.hit_log = self
        self.answered = self.folded = self.lines = 0
        self.detached_folds = 0
        world.tables.append(self)

    def hit(self) -> None:
        self.answered += 1
        self.lines += 1

    def count_forwarded(self) -> None:
        """There is nothing of compiled code."""

    def count(self) -> None:
        self.world.folded += self.answered - self.folded
        self.folded = self.answered
        if not self.is_attached:
            self.detached_folds += 1

    @property
    def is_attached(self) -> bool:
        return any(
            each.processor.writer is self
            for each in [*map(as_any, self.world.udp), *map(as_any, self.world.tcp)]
            if not each.is_closed
        )

    @property
    def may_count(self) -> bool:
        """Whether a worker may still be in the middle of a batch with it."""
        return self.is_attached or self.detached_folds == 1

    def take_log(self, most: int) -> list[None]:
        taken = min(self.lines, most)
        self.lines -= taken
        return [None] * taken

    def discard_log(self) -> int:
        return len(self.take_log(self.lines))

    def is_refused(self) -> bool:
        return False

    def tell(self, dropped: int) -> None:
        pass

    def lose(self, lines: int) -> None:
        self.lost += lines

    def write(self, records: Sequence[None], endpoint: object) -> None:
        self.world.written += len(records)

    def statistics(self) -> Any:
        return SimpleNamespace(
            hits=self.answered, negative_hits=0, misses=0, not_plain=0, stored=0, refused=0, stale=0, evicted=0,
            entries=1, octets=1,
        )  # fmt: skip


class Processor:
    """Answers when the script says so, from a task of its configuration."""

    def __init__(self, world: World, server: str, runtime: ServerRuntime) -> None:
        self.server, self.writer = server, Table(world, server)
        self.table = self.writer
        self.names = world.names.get(id(runtime), 0)
        self._world, self._runtime = world, runtime

    def flush(self) -> None:
        pass

    async def answer(self, *args: Any) -> bytes:
        (instance,) = [each for each in self._world.server.instances if each is self._runtime]
        question = Question(instance)
        self._world.questions.append(question)
        args[0].append(question)
        try:
            await self._runtime.queries.spawn(self._handle(question), "query")
        except asyncio.CancelledError:
            question.outcome = "lost"
            self._world.check_loss(question)
            raise
        question.outcome = "answered"
        return b"reply"

    async def _handle(self, question: Question) -> None:
        await question.answer.wait()


class Udp(UdpListener):
    """Reads datagrams that the script sends; those that come while nothing reads lie in the socket."""

    def __init__(
        self, world: World, sockets: Sequence[Any], processor: Any, shared: Admission
    ) -> None:
        self.world = world
        self.successor: Udp | None = None
        self.waiting: list[bool] = []
        self.has_started = self.is_reading = self.is_closed = False
        self.dropped = 0
        super().__init__(sockets, processor, shared._replace(clock=world.loop.time))
        self._waiting = MissQueue(), MissQueue()
        self._senders = [SimpleNamespace(send=lambda replies: None) for _ in sockets]
        world.udp.append(self)

    def send(self, is_known: bool) -> None:
        """Let a datagram arrive."""
        self.waiting.append(is_known)
        if self.is_reading:
            self._read()

    def start(self) -> None:
        self.world.fault_at("udp")
        self.has_started = self.is_reading = True
        self._read()

    def drain_to(self, successor: UdpListener) -> None:
        assert isinstance(successor, Udp)
        self.successor = successor

    def stop_reading(self) -> None:
        self.is_reading = False
        if not self.is_closed:
            self._read()

    def close(self) -> None:
        if self.has_started and self.successor is not None:
            assert self.waiting == [], "lost at the change of the number of workers"
        self._is_closed = self.is_closed = True
        self.is_reading = False
        for sock in self.sockets:
            sock.close()

    def statistics(self) -> tuple[int, dict[int, int]]:
        return self.dropped, {}

    def _deliver(self, index: int, address: bytes, control: bytes, reply: bytes | None) -> None:
        if reply is not None and self.is_closed:
            is_late = any(
                self.world.loop.now - began >= DRAIN_TIMEOUT - 0.001
                for began in self.world.began_to_drain.values()
            )
            is_lost = self.world.is_forced or is_late or bool(self.world.killed)
            self.world.check(is_lost, "a reply has no socket any more")
        super()._deliver(index, address, control, reply)

    def _read(self) -> None:
        while self.waiting:
            if self.waiting.pop(0):
                self.processor.writer.hit()  # type: ignore[union-attr]  # it is a Table, here
            else:
                (self.successor or self)._answer((0, [], CLIENT, b""))  # type: ignore[arg-type]  # no octets are needed


class Connection:
    """A client that asks over TCP."""

    def __init__(self, tcp: Tcp) -> None:
        self.tcp = tcp
        self.asked: list[Question] = []
        self.pending = 0
        self.was_told = False  # that the server sends nothing more
        tcp.connections.add(self)

    def ask(self, is_known: bool) -> None:
        if self.was_told:  # as TcpConnection, which takes no queries after that
            return
        if is_known:
            self.tcp.processor.writer.hit()
            return
        self.pending += 1
        eager.start(self.tcp.processor.answer(self.asked), self._take, self.tcp.spawn)

    def end(self) -> None:
        self.was_told = True

    def close(self) -> None:
        self.tcp.connections.discard(self)

    def leave(self) -> None:
        """The client breaks off."""
        for question in self.asked:
            question.is_orphan = True
        self.close()

    def _take(self, reply: bytes | None) -> None:
        self.pending -= 1


class Tcp:
    """Accepts connections of the script."""

    def __init__(
        self, world: World, sock: Any, processor: Any, settings: Settings, spawn: eager.Spawn
    ) -> None:
        self.world, self.sock, self.processor, self.settings = world, sock, processor, settings
        self.spawn = spawn
        self.script = world.opening
        self.connections: set[Connection] = set()
        self.is_accepting = self.is_closed = False
        world.tcp.append(self)

    @property
    def pending(self) -> int:
        return sum(each.pending for each in self.connections)

    async def start(self) -> None:
        self.world.fault_at("tcp")
        await self.world.pause(self.world.opening.opens, "tcp")
        self.is_accepting = True

    def stop_accepting(self) -> None:
        self.is_accepting = False
        self.sock.close()

    def end(self) -> None:
        if self.script.fault == "end":
            raise ScriptedError("end")
        for each in tuple(self.connections):
            each.end()

    def close(self) -> None:
        self.stop_accepting()
        for each in tuple(self.connections):
            each.close()
        self.is_closed = True

    def kill(self) -> None:
        self.close()


class MemoryOpener(Opener):
    """Opens the stand-ins."""

    world: World

    def count_workers(self, settings: Settings) -> int:
        return settings.workers or 1

    def open_all(
        self, listen: ListenAddress, beside: Collection[Any], workers: int
    ) -> BoundSockets:
        self._check(listen, beside)
        udp = self.open_more_udp(listen, [], workers, is_more=False)
        return BoundSockets(udp, Socket(self.world, listen, "tcp"))  # type: ignore[arg-type]  # a stand-in

    def open_more_udp(
        self, listen: ListenAddress, beside: Collection[Any], count: int, *, is_more: bool = True
    ) -> list[Any]:
        if is_more:
            self._check(listen, beside)
        return [Socket(self.world, listen, "udp") for _ in range(count)]

    def make_udp(self, sockets: Sequence[Any], processor: Any) -> UdpListener:
        return Udp(self.world, sockets, processor, self.shared)

    def make_tcp(self, sock: Any, processor: Any, settings: Settings) -> Any:
        return Tcp(self.world, sock, processor, settings, self.shared.spawn)

    def _check(self, listen: ListenAddress, beside: Collection[Any]) -> None:
        self.world.fault_at("bind")
        others = [each for each in self.world.sockets if each.is_open and each.listen == listen]
        assert all(each in beside for each in others), f"{listen} is bound twice"


class MemoryHttp:
    """Shows pages by their address."""

    world: World

    def __init__(self, places: Places) -> None:
        self.shown: dict[str, Mapping[str, Any]] = {}

    async def open(self, pages: HttpPages) -> None:
        if any(address not in self.shown for address in pages.by_address):
            await asyncio.sleep(0)
            self.world.fault_at("http")
        self.shown |= {address: dict(paths) for address, paths in pages.by_address.items()}

    async def close_others(self, pages: HttpPages) -> None:
        if any(address not in pages.by_address for address in self.shown):
            await asyncio.sleep(0)
        self.shown = {
            address: found for address, found in self.shown.items() if address in pages.by_address
        }

    async def go_back(self, pages: HttpPages) -> None:
        await self.open(pages)
        await self.close_others(pages)

    async def close(self) -> None:
        self.shown = {}


class Watched(Plugin):
    """A plugin whose start and stop are scripted; the first one of a Corefile has a page."""

    def __init__(self, world: World, script: Script, index: int) -> None:
        self.world, self.script, self.index = world, script, index
        self.started = self.stopped = 0
        self.runtime: Runtime | None = None
        world.plugins.append(self)

    async def start(self, runtime: Runtime) -> None:
        self.started += 1
        assert self.stopped == 0
        self.runtime = runtime
        runtime.spawn(asyncio.Event().wait(), "forever")
        if not self.index:
            runtime.serve_http(f":{self.script.ports[0]}", {"/health": HttpPage(self.answer)})
        await self.world.pause(self.script.starts[self.index], f"start {self.index}")

    async def stop(self) -> None:
        self.stopped += 1
        (instance,) = [each for each in self.world.server.instances if each is self.runtime]
        assert instance.state is State.STOPPING
        for question in self.world.questions:
            if question.instance is instance and not question.outcome:
                self.world.check_loss(question)
        await self.world.pause(self.script.stops[self.index], f"stop {self.index}")

    def answer(self, path: str) -> tuple[int, str, bytes]:
        return 200, "", b""


class WatchedHealth(Watched, Health):
    name = "health"

    def __init__(self, world: World, script: Script, index: int) -> None:
        Watched.__init__(self, world, script, index)
        self.lameduck = script.lameduck


class WatchedErrors(Watched):
    name = "errors"


class WatchedWhoami(Watched):
    name = "whoami"


class World:
    """A process with its server, and all that happens around it."""

    def __init__(self, script: Script) -> None:
        self.script = script  # what the Corefile says now
        self.opening = script  # what is being started, or was last
        self.loop = ScriptedLoop(self.observe)
        self.sockets: list[Socket] = []
        self.udp: list[Udp] = []
        self.tcp: list[Tcp] = []
        self.tables: list[Table] = []
        self.plugins: list[Watched] = []
        self.questions: list[Question] = []
        self.names: dict[int, int] = {}  # which version, of each runtime
        self.stale: set[int] = set()
        self.gates: list[tuple[str, asyncio.Future[None]]] = []
        self.began_to_drain: dict[Instance, float] = {}
        self.killed: list[Instance] = []
        self.folded = self.written = self.dropped = 0
        self.is_forced = self.has_served = False
        self.faults: list[AssertionError] = []
        self._parts: dict[str, int] = {}
        self._digests = 0
        logger = logging.getLogger("hsdns")
        self.errors = Errors(self.check)
        logger.handlers, logger.propagate = [self.errors], False

        class ThisOpener(MemoryOpener):
            world = self

        class ThisHttp(MemoryHttp):
            world = self

        self.server = Server(
            self._load,
            self._build,
            parts=ServerParts(
                clock=self.loop.time,
                in_thread=self._call,
                opener=ThisOpener,
                http=ThisHttp,  # type: ignore[arg-type]  # a stand-in
                processors=self._make_processors,
            ),
        )
        self.main = self.loop.create_task(self._run())

    @staticmethod
    async def _call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Stand in for a thread, which takes at least one turn."""
        await asyncio.sleep(0)
        return function(*args, **options)

    def write(self, script: Script) -> None:
        """Replace the Corefile."""
        self._digests += 1
        script.digest = str(self._digests)
        self.script = script

    def close(self) -> None:
        """End what is left of it."""
        self.main.cancel()
        self.loop.turn(3)
        self.loop.close()
        logger = logging.getLogger("hsdns")
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.NOTSET)

    @property
    def listening(self) -> list[Udp]:
        """The UDP listeners whose sockets can receive."""
        return [each for each in self.udp if not each.is_closed]

    @property
    def connections(self) -> list[Connection]:
        return [each for tcp in self.tcp for each in tcp.connections]

    async def pause(self, mode: str, what: str) -> None:
        """Do what a script says."""
        if mode.startswith("waits"):
            gate = self.loop.create_future()
            self.gates.append((what, gate))
            await gate
        if mode.endswith("fails"):
            raise ScriptedError(what)
        if mode == "ends as cancelled":  # as what has waited for a task that it cancelled
            raise asyncio.CancelledError

    def fault_at(self, kind: str) -> None:
        """Raise where the script has a fault."""
        number = self._parts[kind] = self._parts.get(kind, -1) + 1
        if (self.opening.fault, self.opening.at) == (kind, number):
            raise {"bind": ListenError, "http": HttpError}.get(kind, ScriptedError)("scripted")

    def check_loss(self, question: Question) -> None:
        """A query may be lost only where nothing waits any more, or has waited as long as it should."""
        began = self.began_to_drain.get(question.instance)
        waited = began is not None and self.loop.now - began >= DRAIN_TIMEOUT - 0.001
        is_lost = self.is_forced or question.instance in self.killed
        self.check(is_lost or question.is_orphan or waited, "a query is lost")

    def check(self, holds: bool, what: str) -> None:
        """Keep a fault for the script: what is raised within the server might be logged there."""
        if not holds:
            self.faults.append(AssertionError(what))

    def observe(self) -> None:
        """Look at the server, in each turn of the loop."""
        instances = self.server.instances
        for each in instances:
            # A start that fails waits for the queries of its own listeners as a drain does.
            if each.state in (State.DRAINING, State.STOPPING):
                self.began_to_drain.setdefault(each, self.loop.now)
        states = [each.state for each in instances]
        self.check(states.count(State.SERVING) <= 1, "two serve")
        self.check(states.count(State.PREPARING) + states.count(State.COMMITTED) <= 1, "two start")
        owned = [
            sock for each in instances for listener in each.listeners for sock in listener.sockets
        ]
        owned += [
            sock
            for each in instances
            for bound in each.listeners._bound.values()
            for sock in bound.sockets
        ]
        self.check(len({id(sock) for sock in owned}) <= len(owned), "owned twice")
        known = {id(sock) for sock in owned}
        self.check(
            all(id(each) in known for each in self.sockets if each.is_open), "a socket is nobody's"
        )
        serving = self.server.instance
        if serving is None:
            return
        self.has_served = True
        for address in self.opening_addresses(serving):
            listener = serving.listeners[address]
            self.check(listener.processor is serving.processors[address.server], "another answers")
            udp, tcp = as_any(listener.udp), as_any(listener.tcp)
            self.check(udp.is_reading and not udp.is_closed, "UDP is not read")
            self.check(tcp.is_accepting, "TCP is not accepted")
        if id(serving) not in self.stale:
            processors: Any = serving.processors.values()
            current = self.names.get(id(serving), 0)
            self.check(all(each.names == current for each in processors), "names are old")
        if self.server.phase is Phase.SERVING:
            pages, shown = serving.pages.by_address, self.server.http.shown  # type: ignore[attr-defined]  # a stand-in
            self.check(shown == pages, "pages of another configuration are shown")
        started = [each for each in serving.configuration.plugins if isinstance(each, Watched)]
        self.check(
            all((each.started, each.stopped) == (1, 0) for each in started),
            "it serves without plugins",
        )

    @staticmethod
    def opening_addresses(instance: Instance) -> list[ListenAddress]:
        return [each.listen for each in instance.configuration.listeners]

    async def _run(self) -> int:
        """As cli/launch.py does."""
        handle_signals(self.server)
        try:
            await self.server.start()
        except (CorefileError, StartError, ScriptedError):
            return 1
        return await self.server.run()

    def _load(self) -> Corefile:
        if self.script.fault == "parse":
            raise CorefileError(Position("Corefile", 1, 1), "scripted")
        return Corefile("Corefile", (), (), self.script.digest)

    def _build(self, corefile: Corefile) -> Configuration:
        script = self.opening = self.script
        self._parts = {}
        if script.fault == "build":
            raise CorefileError(Position("Corefile", 1, 1), "scripted")
        kinds = (WatchedHealth, WatchedErrors, WatchedWhoami)
        plugins = [kind(self, script, index) for index, kind in enumerate(kinds)]
        listens = tuple(ListenAddress("192.0.2.53", port) for port in script.ports)
        key: Any = SimpleNamespace(zone=ROOT, port=53, scheme="dns")
        block = AssembledBlock((key,), listens, plugins=[*plugins, Multisocket(script.workers)])
        served = tuple(ServedAddress(listen, {ROOT: [block]}) for listen in listens)
        return Configuration(corefile, (block,), served)

    def _make_processors(self, runtime: ServerRuntime, *_: Any) -> dict[str, Any]:
        self.stale.add(id(runtime))  # where the script has it fail, those of before go on
        self.fault_at("processors")
        self.stale.discard(id(runtime))
        return {
            each.listen.server: Processor(self, each.listen.server, runtime)
            for each in runtime.configuration.listeners
        }
