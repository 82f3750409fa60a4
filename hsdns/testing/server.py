"""The server of a test's cluster: a whole hsdns in a separate thread, on a free port of loopback.

Path: cluster.py starts it, delivers events and adds the sockets of pods -> server/lifecycle.py.
Rule 1: every query goes through the chain and is recorded before its reply is sent: there is no answer table.
Rule 2: events are applied in the thread that answers, so that each query sees a change completely or not at all; the
        call that delivers them returns after that.
Rule 3: it ends at once, and leaves no socket and no thread behind.
Rule 4: fault rules are added and removed in the thread that answers.  When the call returns, the rule is active: a
        process to be killed is dead, and a process to be restarted serves.

Wraps a processor, and records each query that can be decoded, with the faults that affected it:
Rule 1: a query is recorded before it is answered, its rcode before the reply is sent.
Rule 2: each pod has its own address in the recorded queries, because the networks of all pods use the same address.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from hsdns import eager
from hsdns.assemble import Configuration, assemble
from hsdns.chain import Endpoint
from hsdns.cluster.objects import Event
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import Corefile
from hsdns.faults.action import Restart
from hsdns.faults.rules import Bite, Rule, RuleError
from hsdns.faults.selector import ClientPod
from hsdns.metrics import Registry
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.query import QueryProcessor
from hsdns.server.faults import StandingFaults
from hsdns.server.instance import make_processors
from hsdns.server.lifecycle import Server, ServerOptions, ServerParts
from hsdns.server.runtime import ServerRuntime, begin
from hsdns.server.transport.listeners import Listener, Opener
from hsdns.server.transport.sockets import DEFAULT_SETTINGS, BoundSockets, Settings
from hsdns.server.transport.udp import UdpListener, UdpServer
from hsdns.sources.push import PushSource
from hsdns.testing.pod import ZONES, PodIdentity
from hsdns.testing.queries import Query
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.iana import rcode_to_text, type_to_text

Note = Callable[[Query], None]


class Asking:
    """The current query, to record the faults that affect it."""

    def __init__(self) -> None:
        self.query: Query | None = None

    def note(self, bite: Bite) -> None:
        """Record a fault with the query that it affects; rules are evaluated before any wait."""
        query = self.query
        if query is not None and bite.line.get("name") == f"{query.name}.":
            query.faults = (*query.faults, bite.rule.name)


class ObservedProcessor(QueryProcessor):
    """Answers with `answering`; all its clients are `pod`, if it is given."""

    def __init__(
        self,
        answering: QueryProcessor,
        note: Note,
        clock: Callable[[], float],
        asking: Asking,
        pod: PodIdentity | None = None,
    ) -> None:
        super().__init__(answering.server, answering.blocks)
        self.answering = answering
        self._note, self._clock, self._asking, self._pod = note, clock, asking, pod

    def of_pod(self, pod: PodIdentity) -> ObservedProcessor:
        """The same for the sockets of a pod."""
        return ObservedProcessor(self.answering, self._note, self._clock, self._asking, pod)

    async def answer(
        self, wire: bytes, client: Endpoint, local: Endpoint, protocol: str, *rest: Any
    ) -> bytes | None:
        """Record a query, then answer it."""
        who = client.address
        if self._pod is not None:
            who, client = self._pod.name, client._replace(address=self._pod.address)
        noted = None
        try:
            query = decode(wire)
        except BadQuery:
            pass
        else:
            name = query.qname.lowered().to_text().removesuffix(".")
            noted = Query(self._clock(), who, protocol, name, type_to_text(query.qtype))
            self._note(noted)
        self._asking.query = noted
        reply = await self.answering.answer(wire, client, local, protocol, *rest)
        if noted is not None and reply is not None:
            noted.rcode = rcode_to_text(reply[3] & 15)
        return reply


P = ParamSpec("P")
T = TypeVar("T")

LOOPBACK: Final = "127.0.0.1"
TIMEOUT: Final = 10.0  # seconds for a call in the thread; it takes milliseconds
POLL: Final = 0.001  # seconds between two checks of a process that restarts
# Of the loop: one that sees what has arrived, one that reads it, one that answers.
SETTLING_TURNS: Final = 3
# Names outside the cluster do not exist.  Without this, they would be REFUSED, which programs treat as a temporary
# failure.  The named source is never read: _build() replaces it with the test's.
COREFILE: Final = """\
{zones} {{
    bind {address}
    errors
    kubernetes {zones} {{
        pods insecure
        ttl {ttl}
        source manifests /
    }}
    loadbalance
}}
. {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


class LoopOpener(Opener):
    """Reads UDP on the loop of the server, and in no other thread."""

    def count_workers(self, settings: Settings) -> int:
        """One socket for each address."""
        return 1

    def make_udp(self, sockets: Sequence[socket.socket], processor: QueryProcessor) -> UdpListener:
        """Create the reader of UDP."""
        return UdpServer(sockets[0], processor, self.shared)


def in_thread(
    method: Callable[Concatenate[ServerThread, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[ServerThread, P], T]:
    """Run a method in the server's thread; return or raise what it does."""

    @wraps(method)
    def call(server: ServerThread, /, *args: P.args, **named: P.kwargs) -> T:
        running = asyncio.run_coroutine_threadsafe(method(server, *args, **named), server._loop)
        return running.result(TIMEOUT)

    return call


class ServerThread:
    """The server; `note` gets each query, in the server's thread."""

    def __init__(self, events: Sequence[Event], note: Note, ttl: int) -> None:
        self.port = 0
        self._source = PushSource(events, "the objects of a test")
        self._note = note
        self._text = COREFILE.format(zones=" ".join(ZONES), address=LOOPBACK, ttl=ttl)
        self._began = time.monotonic()
        self._pods: dict[PodIdentity, tuple[Listener, ObservedProcessor]] = {}
        self._asking = Asking()
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="hsdns cluster", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._opener: LoopOpener
        self._configuration: Configuration
        self._faults: StandingFaults
        self._processor: ObservedProcessor
        self._truth: QueryProcessor | None = None  # as it was before the first fault
        self._spawn: eager.Spawn

    def start(self) -> None:
        """Start it, and wait until it serves; raise the error that prevents this."""
        self._thread.start()
        self._started.result(TIMEOUT)

    def stop(self) -> None:
        """End it and its thread; a second time does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(TIMEOUT)

    @in_thread
    async def deliver(self, events: Sequence[Event]) -> None:
        """Deliver events; return when the next answer shows them."""
        self._source.push(events)

    @in_thread
    async def settle(self) -> None:
        """Return when the queries that have arrived are noted."""
        for _ in range(SETTLING_TURNS):
            await asyncio.sleep(0)

    @in_thread
    async def ask(self, wire: bytes) -> bytes | None:
        """The reply to a query that is not recorded and not affected by faults, without a size limit."""
        here = Endpoint(LOOPBACK, self.port)
        assert self._truth is not None, "serving"
        answering = self._truth.answer(wire, here, here, "tcp", time.monotonic())
        return await begin(answering, self._spawn)

    @in_thread
    async def add_pod(self, pod: PodIdentity, udp: socket.socket, tcp: socket.socket) -> None:
        """Answer at the sockets of a pod, which this closes."""
        observed = self._processor.of_pod(pod)
        listener = self._opener.make(BoundSockets([udp], tcp), observed, DEFAULT_SETTINGS)
        await listener.start()
        self._pods[pod] = listener, observed

    @in_thread
    async def remove_pod(self, pod: PodIdentity) -> None:
        """Close the sockets of a pod."""
        self._close_pod(pod)

    @in_thread
    async def add_fault(self, words: Sequence[str]) -> Rule:
        """Activate a rule until remove_fault(); raise RuleError."""
        if self._faults.is_restarting:
            raise RuleError("the server is killed by another fault; begin this one before that one")
        rule = self._faults.add(words, self._configuration, lifetime=None)
        if rule.is_at_work:
            await _until(lambda: rule.hits > 0 or not rule.is_at_work)
            if isinstance(rule.action, Restart) and not rule.action.dead:
                await _until(lambda: not rule.is_at_work)
        return rule

    @in_thread
    async def remove_fault(self, rule: Rule) -> None:
        """End a rule, if it stands."""
        if self._faults.rules.standing.get(rule.name) is rule:
            self._faults.remove(rule.name, self._configuration)
        await _until(lambda: not rule.is_at_work)

    def _run(self) -> None:
        try:
            # The loop of the standard library starts in a quarter of uvloop's time, and a test asks little.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        server = Server(
            lambda: parse("the Corefile of a test", text=self._text, environ={}, known_directives=ORDER),
            self._build,
            ServerOptions(faults=True),
            parts=ServerParts(
                in_thread=_at_once, opener=self._make_opener, processors=self._make_processors
            ),
        )  # fmt: skip
        assert server.faults is not None, "asked for"
        self._faults = server.faults
        self._faults.pod_of = self._pod_of
        self._faults.rules.on_bite = self._asking.note
        await server.start()
        (address,) = server.addresses.values()
        self.port = address.port
        self._started.set_result(None)
        await self._end.wait()
        for pod in [*self._pods]:
            self._close_pod(pod)
        server.quit(0)
        await server.close()

    def _build(self, corefile: Corefile) -> Configuration:
        self._configuration = assemble(
            corefile, default_port=0, interfaces=dict, warn=lambda sentence: None
        )
        self._truth = None  # a rule that restarts the process makes another one
        for plugin in self._configuration.plugins:
            if isinstance(plugin, Kubernetes):
                plugin.watch.source = self._source
        return self._configuration

    def _make_opener(self, metrics: Registry, spawn: eager.Spawn, *rest: Any) -> LoopOpener:
        self._spawn = spawn
        self._opener = LoopOpener(metrics, spawn, *rest)
        return self._opener

    def _make_processors(self, runtime: ServerRuntime, *rest: Any) -> dict[str, QueryProcessor]:
        ((server, processor),) = make_processors(runtime, *rest).items()
        processor.writer = None  # Rule 1
        self._truth = self._truth or processor
        for _, observed in self._pods.values():
            observed.answering = processor
        self._processor = ObservedProcessor(processor, self._note, self._age, self._asking)
        return {server: self._processor}

    def _age(self) -> float:
        return time.monotonic() - self._began

    def _close_pod(self, pod: PodIdentity) -> None:
        listener, _ = self._pods.pop(pod)
        listener.stop_reading()
        listener.close()

    def _pod_of(self, address: str) -> ClientPod | None:
        found = (each for each in self._pods if each.address == address)
        return next((ClientPod(each.namespace.encode(), each.name) for each in found), None)


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - a restart has no event
        await asyncio.sleep(POLL)


async def _at_once(function: Callable[..., T], *args: Any) -> T:
    """Replaces asyncio.to_thread, because nothing else runs in this loop that must not wait."""
    return function(*args)
