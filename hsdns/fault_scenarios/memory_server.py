"""A server in memory, without sockets: it answers messages, has rules, and can be killed and restarted.

Path: play.py -> here -> assemble.py, query.py, server/faults.py.
Rule 1: no socket is opened; the time is the event loop's.
Rule 2: rules for listeners and the process (server/faults.py, server/faults.py) are applied here to single
        queries: a connection ends without a reply, or its reply is late.  There is no API server: while a rule blocks a
        watch (apiserver/transport.py), its events are held back.

The objects of a scenario's cluster: manifests in, events out; the controllers are simulated.

The upstream of a server in memory: the server behind a node cache, or a real server:
Rule 1: a real server's reply is stored by its question, so that all clients of all scenarios get the same reply, and no
        virtual time passes during the wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, ClassVar, Final, Self

from hsdns.apiserver.resource import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES
from hsdns.ask.question import NoReply, over_tcp, over_udp
from hsdns.assemble import Configuration, assemble
from hsdns.chain import Endpoint, Next, Request
from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.freshness import NoCounters
from hsdns.cluster.objects import (
    Deleted,
    Event,
    Identity,
    Object,
    Upserted,
    differences,
    identity,
)
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError, Directive
from hsdns.fault_scenarios.scenario import ScenarioError, Step
from hsdns.faults.action import ConnectionAction
from hsdns.faults.handler import NO_PODS
from hsdns.faults.rules import Bite, RuleError
from hsdns.faults.selector import Asked
from hsdns.faults.state import WatchAction
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.query import QueryProcessor
from hsdns.server.faults import LIFETIME, StandingFaults
from hsdns.server.runtime import ServerRuntime, Tasks, begin
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.sources.push import PushSource
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten


class Objects:
    """The current objects; each change returns its events."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str, str], Document] = {}
        self.current: dict[Identity, Object] = {}

    def change(self, step: Step) -> list[Event]:
        """Add, replace and delete objects; raise ScenarioError."""
        found = read_manifest_file(step.apply.encode(), "manifests")
        if found.problems:
            raise ScenarioError(found.problems[0])
        self._documents.update((each.key, each) for each in found.documents)
        for written in step.delete:
            kind, _, path = written.partition(" ")
            namespace, _, name = path.partition("/")
            if self._documents.pop((kind, namespace, name), None) is None:
                raise ScenarioError(f"there is no {written} that could be deleted")
        before = self.current
        self.current = {identity(each): each for each in simulate(self._documents.values())}
        return differences(before, self.current)


Exchange = Callable[[bytes, str], Awaitable[bytes | None]]  # a message and "udp" or "tcp"
BUDGET: Final = 5.0  # seconds, after which `forward` gives up
TIMEOUT: Final = 2.0  # seconds for a real server


class Ahead(Plugin):
    """Queries another server; `exchange` returns its reply, None if there is none."""

    name: ClassVar[str] = "forward"

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Never called, because it is not in a Corefile."""
        raise NotImplementedError

    async def start(self, runtime: Runtime) -> None:
        """Do nothing."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Query the server; as with `forward`, no reply gives SERVFAIL."""
        query = request.query
        wire = await self._exchange(encode_query(query, query.id), request.protocol)
        if wire is None:
            await asyncio.sleep(BUDGET)
            return unwritten(Rcode.SERVFAIL, "no reply from the server behind")
        return decode_reply(wire, query)


class OtherServer:
    """A real DNS server at an address and a port; `problem` is the reason for a missing reply."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.problem: ScenarioError | None = None
        self._replies: dict[tuple[bytes, str], bytes] = {}

    async def exchange(self, message: bytes, transport: str) -> bytes | None:
        """Return the reply to a message, None if there is none.  It blocks, so the virtual clock does not advance."""
        key = message[2:], transport
        if key not in self._replies:
            over = over_udp if transport == "udp" else over_tcp
            try:
                self._replies[key] = over(self.address, self.port, message, TIMEOUT)
            except NoReply as error:
                self.problem = ScenarioError(str(error))
                return None
        return message[:2] + self._replies[key][2:]


SEED: Final = 1  # of rules without one
PLURALS: Final = {each.type: each.plural for each in (SERVICES, ENDPOINT_SLICES, NAMESPACES, PODS)}


class MemoryServer:
    """A server with a Corefile, called with each query; it is also the process that rules may restart."""

    def __init__(self, text: str, ahead: Exchange | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._text, self._ahead, self.clock = text, ahead, loop.time
        self.metrics = Registry()
        self.source = PushSource()
        self._is_dead = False
        self._lives = 0
        self.pending = 0
        self._connections: dict[Endpoint, list[Bite]] = {}
        self._hidden: list[Event] = []
        self._tasks = Tasks()
        self._prepare()
        self.faults = StandingFaults(self, random=Random(SEED))

    async def start(self) -> None:
        """Start the plugins."""
        for plugin in self.configuration.plugins:
            await plugin.start(self._runtime)
        self.place_faults()

    async def stop(self) -> None:
        """Stop them."""
        self.faults.end()
        self.faults.close()
        await self._tasks.cancel()
        await self._end()

    async def answer(
        self, message: bytes, transport: str, client: Endpoint, local: Endpoint
    ) -> bytes | None:
        """Return the reply to a message for an address, None if there is none.

        Raise ConnectionResetError if the TCP connection ends without one.
        """
        if self._is_dead:
            return _nothing(transport)
        processors = self._runtime.processors
        bound = f"dns://{local.address}:{local.port}"
        processor = processors.get(bound) or next(iter(processors.values()))
        bites: list[Bite] = []
        if transport == "tcp":
            bites = self._connect(processor.server, client, local)
        words = [bite.rule.action.word for bite in bites]
        if "refuse" in words:
            raise ConnectionResetError
        if "hang" in words:
            return None
        life = self._lives
        self.pending += 1
        try:
            answering = processor.answer(message, client, local, transport, self.clock())
            reply = await begin(answering, self._runtime.queries.spawn)
        finally:
            self.pending -= 1
        if life != self._lives:
            return _nothing(transport)
        if "reset" in words:
            raise ConnectionResetError
        for bite in bites:
            action = bite.rule.action
            if action.word == "slow" and isinstance(action, ConnectionAction) and reply is not None:
                await asyncio.sleep(len(reply) / (action.octets or 1))
        return reply

    def hand(self, events: Sequence[Event]) -> None:
        """Apply events to the cluster; events that a rule blocks are applied when the rule is removed."""
        seen: list[Event] = []
        for event in events:
            (self._hidden if self._hides(event) else seen).append(event)
        self.source.push(seen)

    def add(self, rule: str) -> None:
        """Activate a rule; raise ScenarioError."""
        try:
            wanted = read_rule(rule.split())
            if isinstance(wanted.action, WatchAction):  # there is no API server for it to affect
                self.faults.rules.add(self.faults.rules.make(wanted, self.clock(), LIFETIME))
            else:
                self.faults.add(rule.split(), self.configuration)
        except RuleError as error:
            raise ScenarioError(f'the rule "{rule}": {error}') from None

    def remove(self, name: str) -> None:
        """End a rule, unless it has already ended."""
        if name in self.faults.rules.standing:
            self.faults.remove(name, self.configuration)
            events, self._hidden = self._hidden, []
            self.hand(events)

    def registry(self, domain: str) -> dict[str, dict[str, list[str]]]:
        """What an agent of Istio knows of the Services."""
        blocks = [each for each in self.configuration.plugins if isinstance(each, Kubernetes)]
        return {name: found for each in blocks for name, found in each.registry(domain).items()}

    @property
    def hits(self) -> dict[str, int]:
        """The number of hits of each rule."""
        return {rule.name: rule.hits for rule in self.faults.rules.all}

    # as the process that rules of faults restart (server/faults.py)

    @property
    def instance(self) -> Any:
        """Itself, as long as it serves: it stands for the instance and its only listener."""
        return None if self._is_dead else self

    @property
    def listeners(self) -> Sequence[MemoryServer]:
        """The listeners, which have waiting queries."""
        return (self,)

    async def restart(
        self, dead: Callable[[], Awaitable[None]], wanted: Callable[[], bool]
    ) -> bool:
        """Lose waiting queries and stored replies, and start again when `dead` returns; False if it is not `wanted`."""
        if not wanted():
            return False
        self._is_dead = True
        self._lives += 1
        self._connections.clear()
        await self._end()
        await dead()
        self._prepare()
        self.faults.hold(self.configuration)
        self._is_dead = False
        await self.start()
        return True

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> None:
        """Start a task."""
        self._tasks.spawn(coro, name)

    def _prepare(self) -> None:
        """Set the plugins of the Corefile up."""
        try:
            corefile = parse(
                "Corefile of the scenario", text=self._text, environ={}, known_directives=ORDER
            )
            self.configuration = assemble(
                corefile, default_port=53, interfaces=dict, warn=lambda sentence: None
            )
        except CorefileError as error:
            raise ScenarioError(str(error)) from None
        if self._ahead is not None:
            for block in self.configuration.blocks:
                block.plugins.append(Ahead(self._ahead))
                vars(block).pop("handlers", None)  # looked up anew
        for plugin in self.configuration.plugins:
            if isinstance(plugin, Kubernetes):
                plugin.watch.source = self.source
                plugin.watch.reads_only = True
        self._runtime = ServerRuntime(self.configuration, self.metrics, NoCounters(), self.clock)
        self._runtime.fail, self._runtime.random = _fail, Random(SEED)

    async def _end(self) -> None:
        for plugin in self.configuration.plugins:
            await plugin.stop()
        await self._runtime.tasks.cancel()
        await self._runtime.queries.cancel()

    def configurations(self) -> list[Configuration]:
        """The one that runs."""
        return [self.configuration]

    def place_faults(self) -> None:
        """Make the processors again."""
        if self._is_dead:
            return
        configuration, runtime = self.configuration, self._runtime
        self.faults.place(runtime)
        chains = {id(block): runtime.chain_of(block) for block in configuration.blocks}
        runtime.processors = {
            each.listen.server: QueryProcessor(
                each.listen.server, each.block_choice(chains), any_class=each.any_class
            )
            for each in configuration.listeners
        }

    def _connect(self, server: str, client: Endpoint, local: Endpoint) -> list[Bite]:
        """The result of the rules for a connection, decided when it was new."""
        if client not in self._connections:
            asked = Asked.unread(server, "tcp", client, local, NO_PODS)
            self._connections[client] = self.faults.rules.decide(asked, self.clock(), "connection")
        return self._connections[client]

    def _hides(self, event: Event) -> bool:
        """Whether a rule blocks an event."""
        if not isinstance(event, Upserted | Deleted):
            return False
        resource = PLURALS.get(type(event.object), "")
        for rule in self.faults.rules.about("watch"):
            assert isinstance(rule.action, WatchAction), "about a watch"
            if resource and rule.action.is_about(resource):
                return self.faults.rules.stop(rule, resource, "watch", self.clock())
        return False


def _nothing(transport: str) -> bytes | None:
    """The result for a client while the process is down: the kernel refuses its connections."""
    if transport == "tcp":
        raise ConnectionResetError
    return None


def _fail(reason: str) -> None:
    raise ScenarioError(reason)
