"""Runs a scenario for one client in virtual time, and measures its effect.

Path: page.py, tests -> here -> memory_server.py, resolver/.
Rule 1: each client has its own servers, so that clients do not influence each other.
Rule 2: an answer is right if it equals the correct answer at the time of the query or at the time of the reply.

An event loop whose time advances only when all tasks wait: an hour of a scenario takes milliseconds:
Rule: ready tasks run; if there are none, the time jumps to the next timer.  So every run is the same.

Runs a resolver model against the servers of a scenario, on the clock of the event loop:
Rule: each query is a separate task, so that replies can arrive out of order as over a network.

The servers of a scenario, in memory: the cluster's server with its faults, a node cache, and the truth:
Rule: the truth is a second server with the same objects and without rules, which gives play.py the correct answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Awaitable, Callable
from math import inf
from random import Random
from typing import Final, NamedTuple

import msgspec

from hsdns.ask.lookup import LoopTransport
from hsdns.chain import Endpoint
from hsdns.fault_scenarios.memory_server import MemoryServer, Objects, OtherServer
from hsdns.fault_scenarios.scenario import Asked, Scenario, ScenarioError, Seen, Step
from hsdns.resolver import MODELS, model_of
from hsdns.resolver.forwarders import class_of
from hsdns.resolver.forwarders.forwarder import NOTHING, Between
from hsdns.resolver.model import (
    CLOSED,
    STILL_WAITING,
    Arrival,
    Model,
    Packet,
    Result,
    Unfinished,
    answer_of,
    look_up,
    wire_of,
)
from hsdns.resolver.resolv_conf import PodDns, pod_resolv_conf
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from hsdns.wire.text import rdata_to_text


class Stuck(RuntimeError):
    """All tasks wait, and no timer is set."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; its time begins with 0."""

    def __init__(self) -> None:
        self.passed = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds since it was made."""
        return self.passed


class _Selector(selectors.SelectSelector):
    """Waits only for the loop's own descriptors, through which threads wake the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if timeout is None and not found:
            raise Stuck("nothing can happen any more, and something waits for it")
        if timeout and not found:
            self._loop.passed += timeout
        return found


Ask = Callable[[bytes, str, int, int], Awaitable[bytes | None]]  # as Stage.ask
FIRST_PORT: Final = 10_000
PORTS: Final = 500  # of each program
ONE_WAY: Final = 0.001  # seconds to the server, and the same back


class Network(LoopTransport):
    """The way of a model's packets to servers in memory; each program has its own range of ports.

    A lookup that waits without an end is abandoned at the time `until`.
    """

    def __init__(self, ask: Ask, number: int, until: float, *, keeps_socket: bool = False) -> None:
        super().__init__()
        self._ask, self._until, self._keeps_socket = ask, until, keeps_socket
        self._first_port = FIRST_PORT + number * PORTS
        self._ports: dict[str, int] = {}
        self._sent: list[asyncio.Task[None]] = []

    async def send(self, packet: Packet) -> None:
        """Send a packet, in its own task, so that replies can arrive out of order."""
        self._sent.append(asyncio.create_task(self._carry(packet)))

    async def receive(self, until: float | None) -> Arrival | None:
        """Wait for the next answer."""
        arrival = await self.next_arrival(self._until if until is None else until)
        if arrival is None and until is None:
            raise Unfinished("")
        return arrival

    async def finish(self) -> None:
        """End a lookup; raise what the servers have raised."""
        sent, self._sent, self.arrivals = self._sent, [], asyncio.Queue()
        for task in sent:
            task.cancel()
        for found in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(found, Exception):
                raise found

    async def _carry(self, packet: Packet) -> None:
        name = "udp" if self._keeps_socket and packet.transport == "udp" else packet.port
        number = self._ports.setdefault(name, len(self._ports))
        message = wire_of(packet, packet.qid & 0xFFFF)
        await asyncio.sleep(ONE_WAY)
        port = self._first_port + number % PORTS
        try:
            reply = await self._ask(message, packet.transport, port, packet.server)
        except ConnectionResetError:
            await asyncio.sleep(ONE_WAY)
            self.arrivals.put_nowait((packet, CLOSED))
            return
        if reply is not None:
            await asyncio.sleep(ONE_WAY)
            with contextlib.suppress(BadReply):
                self.arrivals.put_nowait((packet, answer_of(reply, packet)))


SERVERS: Final = ("127.0.0.1", "127.0.0.2", "127.0.0.3")  # the addresses of the cluster's server
CLIENT: Final = "127.0.0.1"
NODE: Final = "127.0.0.9"  # the nameserver of the node
DOMAIN: Final = "cluster.local"
FRONT: Final = Endpoint("169.254.20.10", 53)  # of the node cache
ZONES: Final = "cluster.local in-addr.arpa ip6.arpa"
# As in a cluster whose upstream answers NXDOMAIN to all names.
COREFILE: Final = f"""\
{ZONES} {{
    kubernetes {ZONES} {{
        pods insecure
        ttl 30
        source manifests /
    }}
}}
. {{
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


class Stage:
    """The servers of a scenario for a client; `behind` is used instead of a simulated cluster.

    A context manager for a task of the event loop; on entry, its timeline starts.  `between` is the client's forwarder.
    """

    def __init__(self, scenario: Scenario, seen: Seen, behind: OtherServer | None) -> None:
        self._scenario, self._registry = scenario, dict[str, dict[str, list[str]]]()
        self.between = Between(seen.through, self._registry)
        if class_of(seen.through).splits:
            text = f"nameserver {SERVERS[0]}\nnameserver {NODE}\n"
            self.between = Between(seen.through, text=text, domain=DOMAIN)
        self._objects = Objects()
        ahead = behind.exchange if behind else None
        text = ". {\n}\n" if behind else scenario.corefile or COREFILE
        self.cluster = MemoryServer(text, ahead)
        self.truth = MemoryServer(text, ahead)
        self._servers = [self.cluster, self.truth]
        self.front: MemoryServer | None = None
        if seen.cache:
            self.front = MemoryServer(f". {{\n    {seen.cache}\n}}\n", self._ask_cluster)
            self._servers.append(self.front)
        self._has_objects = behind is None
        self._truths: dict[Asked, frozenset[str]] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self.problems: list[ScenarioError] = []

    async def __aenter__(self) -> Stage:
        """Start the servers, and run the steps of second 0."""
        for server in self._servers:
            await server.start()
        self._change(Step(apply=self._scenario.manifests))
        loop = asyncio.get_running_loop()
        for step in self._scenario.steps:
            if step.at:
                self._timers.append(loop.call_at(step.at, self._do, step))
            else:
                self._do(step)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop them."""
        for timer in self._timers:
            timer.cancel()
        for server in self._servers:
            await server.stop()

    async def ask(self, message: bytes, transport: str, port: int, server: int) -> bytes | None:
        """Return the reply to a client that sends from a port to one of its nameservers."""
        client = Endpoint(CLIENT, port)
        if self.front is not None:
            return await self.front.answer(message, transport, client, FRONT)
        if self.between.domain and server:  # the node's, which has no faults
            return await self.truth.answer(message, transport, client, Endpoint(NODE, 53))
        return await self.cluster.answer(message, transport, client, Endpoint(SERVERS[server], 53))

    async def addresses(self, asked: Asked) -> frozenset[str]:
        """The right records at this time; they are cached until an object changes."""
        name, here, found = asked.meant, Endpoint(CLIENT, 53), set[str]()
        for rrtype in asked.types if asked not in self._truths else ():
            query = Query.ask(Name.from_text(name), rrtype)
            reply = await self.truth.answer(encode_query(query, 1), "tcp", here, here)
            if reply is None:
                raise ScenarioError(f"there is no reply for {name}, even without faults")
            answer = decode_reply(reply, query).answer
            found |= {rdata_to_text(rrtype, each.rdata) for each in answer if each.rrtype == rrtype}
        return self._truths.setdefault(asked, frozenset(found))

    async def _ask_cluster(self, message: bytes, transport: str) -> bytes | None:
        return await self.cluster.answer(message, transport, FRONT, Endpoint(SERVERS[0], 53))

    def _do(self, step: Step) -> None:
        try:
            self._change(step)
            for name in step.remove:
                self.cluster.remove(name)
            for rule in step.add:
                self.cluster.add(rule)
        except ScenarioError as error:
            self.problems.append(error)

    def _change(self, step: Step) -> None:
        if self._has_objects and (step.apply or step.delete):
            events = self._objects.change(step)
            self._truths.clear()
            self.cluster.hand(events)
            self.truth.hand(events)
            self._registry.clear()
            self._registry.update(self.truth.registry(DOMAIN))


class Outcome(msgspec.Struct, frozen=True):
    """The measured result of one client: the members of Seen, and the hits of each rule."""

    client: str
    lookups: int
    seconds: float
    failed: int
    wrong: int
    recovered: float
    queries: int
    error: str
    hits: dict[str, int]


def play(scenario: Scenario, seen: Seen, behind: OtherServer | None = None) -> Outcome:
    """Run a scenario; raise ScenarioError.  `behind` is queried instead of the scenario's own cluster."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_play(scenario, seen, behind))


def resolv_conf(scenario: Scenario, seen: Seen, namespace: str) -> str:
    """The resolv.conf of the client, in a pod of a namespace."""
    node = f"search {scenario.search}\n" if scenario.search else ""
    options = dict(option.partition(":")[::2] for option in seen.options)
    pod = PodDns(namespace, nameservers=SERVERS[1 : seen.servers], options=options)
    return pod_resolv_conf(pod, SERVERS[0], DOMAIN, node)


class Lookup(NamedTuple):
    """One lookup; `seconds` is its duration, inf if it has not ended; `is_right` if nothing says that it is not."""

    at: float
    seconds: float
    result: Result
    is_right: bool

    @property
    def end(self) -> float:
        """When it ended."""
        return self.at + self.seconds


class Program:
    """A process that looks up names one after the other, over `connect`; `lookups` has its results.

    `truth` has the right addresses at a time, if they are known; `between` is a forwarder.
    """

    def __init__(
        self,
        scenario: Scenario,
        seen: Seen,
        number: int,
        connect: Callable[[Model], LoopTransport],
        truth: Callable[[Asked], Awaitable[frozenset[str]]] | None = None,
        between: Between = NOTHING,
    ) -> None:
        asked = [each for each in scenario.asked if number < each.programs]
        self._clients: dict[str, tuple[Model, LoopTransport]] = {}
        for namespace in {each.namespace for each in asked}:
            conf = resolv_conf(scenario, seen, namespace)
            model = model_of(seen.client, conf, Random(number), between)
            self._clients[namespace] = model, connect(model)
        self._searches = MODELS[seen.client].reader.searches
        self._times = sorted(
            (each.at + time * each.every, index, each)
            for index, each in enumerate(asked)
            for time in range(each.times)
        )
        self._truth = truth
        self.lookups: list[Lookup] = []
        self.queries = 0

    async def run(self) -> None:
        """Look up all names."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            for at, _, asked in self._times:
                await asyncio.sleep(max(0.0, began + at - clock()))
                await self._look_up(asked)
        finally:
            for _, network in self._clients.values():
                network.close()

    async def _look_up(self, asked: Asked) -> None:
        right = [await self._truth(asked)] if self._truth else []
        model, network = self._clients[asked.namespace]
        start = network.now()
        # Who looks names up as they are is given whole ones.
        name = asked.name if self._searches else asked.meant.removesuffix(".")
        packets, _, end, result = await look_up(model, name, asked.types, network)
        self.queries += len(packets)
        right += [await self._truth(asked)] if self._truth else []
        ends = result.error != STILL_WAITING
        is_right = not right or (ends and frozenset(result.addresses) in right)
        self.lookups.append(Lookup(start, end - start if ends else inf, result, is_right))


def programs(scenario: Scenario, make: Callable[[int], Program]) -> list[Program]:
    """The programs of a client."""
    return [make(number) for number in range(max(each.programs for each in scenario.asked))]


async def _play(scenario: Scenario, seen: Seen, behind: OtherServer | None) -> Outcome:
    async with Stage(scenario, seen, behind) as stage:
        if behind is not None:
            await _check_behind(scenario, stage, behind)

        def make(number: int) -> Program:
            def connect(model: Model) -> Network:
                return Network(stage.ask, number, scenario.seconds, keeps_socket=seen.keeps_socket)

            return Program(scenario, seen, number, connect, stage.addresses, stage.between)

        asking = programs(scenario, make)
        await asyncio.gather(*(program.run() for program in asking))
        problems = stage.problems + ([behind.problem] if behind and behind.problem else [])
        for problem in problems:
            raise problem
        found = sorted(
            (each for program in asking for each in program.lookups), key=lambda each: each.end
        )
        bad = [each for each in found if not each.is_right]
        failed = [each for each in bad if not each.result.addresses]
        recovered = 0.0
        if scenario.mended and bad and bad[-1].end > scenario.mended:
            recovered = bad[-1].end - scenario.mended if found[-1].is_right else inf
        return Outcome(
            seen.label,
            len(found),
            # without the milliseconds of the network
            round(sum(round(each.seconds, 1) for each in found), 1),
            len(failed),
            len(bad) - len(failed),
            round(recovered, 1),
            sum(program.queries for program in asking),
            failed[-1].result.error if failed else "",
            stage.cluster.hits,
        )


async def _check_behind(scenario: Scenario, stage: Stage, behind: OtherServer) -> None:
    """Raise ScenarioError if the other server does not have the name."""
    for asked in scenario.asked:
        found = await stage.addresses(asked)
        if behind.problem is not None:
            raise behind.problem
        if not found:
            where = f"{behind.address} port {behind.port}"
            raise ScenarioError(
                f"{where} has no address for {asked.meant}; choose another name with --name"
            )
