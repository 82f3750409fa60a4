"""The common part of all models: packets out, answers in, and the one loop that runs a lookup.

Path: resolver/cli.py, explanation/client.py, fault_scenarios/play.py, testing/patch.py -> look_up() -> a model's
lookup() -> packets, whose answers come from a Transport; load/send/pods.py has its own loop, for many lookups at once.
Rule 1: lookup() is a generator.  It yields the time until which it waits, None for no timeout, and is resumed with an
        arrival, or with None when that time has come.  Packets that it sends in between are in `outbox`.
Rule 2: a model keeps the state that its library keeps between lookups: modes, counters, caches.

Converts a model's packets to DNS messages, and replies to the models' answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import ClassVar, Final, NamedTuple, TypeVar

from hsdns.resolver.resolv_conf import Reader, ResolvConf, read_resolv_conf
from hsdns.wire.decode import decode_reply
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import OptCode, Rcode, RRType, type_to_text
from hsdns.wire.message import AD, RD, Query
from hsdns.wire.name import Name
from hsdns.wire.text import rdata_to_text

ADDRESS_LEN = {RRType.A: 4, RRType.AAAA: 16}
FAILURES = (Rcode.SERVFAIL, Rcode.NOTIMP, Rcode.REFUSED)


class Packet(NamedTuple):
    """A query in flight: `at` in seconds, `server` is the number of the nameserver, from 0.

    `port` names the socket, such as "u1" or "t1", and `qid` the query ID: numbers in the order of their first use.
    `edns` is the UDP size that it offers, 0 without EDNS.
    """

    at: float
    transport: str
    server: int
    port: str
    qid: int
    rrtype: int
    name: str
    edns: int = 0
    cookie: bool = False
    ad: bool = False


class Answer(NamedTuple):
    """The parts of a reply that models use; `is_closed` is a TCP connection that ends without a reply.

    `addresses` are the records of the type that is asked for, as text.  `is_lame` is NOERROR without records, AA and
    RA; `ttl` is the least of the answer, or of the SOA record, in seconds.
    """

    rcode: int = Rcode.NOERROR
    addresses: tuple[str, ...] = ()
    tc: bool = False
    is_lame: bool = False
    is_closed: bool = False
    ttl: int = 0

    @property
    def is_nodata(self) -> bool:
        """NOERROR without records of the type."""
        return self.rcode == Rcode.NOERROR and not self.addresses


CLOSED: Final = Answer(is_closed=True)
STILL_WAITING: Final = "still waiting"
UNSEEN: Final = "not known: another server answers"


class Keeps(NamedTuple):
    """How long a program goes on with what it heard, in seconds: the TTL between two limits; `why` is a clause."""

    least: float = 0.0
    most: float = 0.0
    why: str = "it keeps no answers, and looks the name up for each connection"

    @property
    def text(self) -> str:
        """The time in a word or two."""
        if self.most > self.least:
            return "the TTL"
        return "as long as it runs" if self.most == inf else f"{self.most:g} s"

    def seconds(self, ttl: int) -> float:
        """The longest time that an answer with a TTL is used."""
        return min(max(float(ttl), self.least), self.most)


class Result(NamedTuple):
    """The result for the program: addresses, or the error in the words of its library; `why` is a sentence."""

    addresses: tuple[str, ...]
    error: str
    why: str


class Trace(NamedTuple):
    """What a lookup has sent, what has arrived and when, and its result; times in seconds."""

    packets: list[Packet]
    answers: list[tuple[float, Packet, Answer]]
    end: float
    result: Result


Arrival = tuple[Packet, Answer]
Waiting = Generator[float | None, Arrival | None, Result]
Fate = tuple[float, Answer] | None  # seconds until the answer; None: there is none


Exchange = Generator[float | None, Arrival | None, Answer | None]
LIBC_TYPES: Final = (RRType.A, RRType.AAAA, RRType.PTR)  # those of getaddrinfo() and getnameinfo()


class Model(ABC):
    """One program's resolver, with its state between lookups; `random` is for its random choices.

    The first line of a model's docstring has its version and its source; docs/resolve.md has `used_by` and `keeps`.
    """

    name: ClassVar[str]
    reader: ClassVar[Reader]  # of its resolv.conf
    used_by: ClassVar[str] = ""
    types: ClassVar[tuple[int, ...]] = ()  # that the program looks up, () for any
    keeps: ClassVar[Keeps] = Keeps()
    checks_question: ClassVar[bool] = True  # of a reply, besides its ID
    most_threads: ClassVar[int] = 0  # that look names up at once in a process, 0 for any number
    searches_addresses_alone: ClassVar[bool] = (
        False  # other types are looked up without the search list
    )
    looks_at_own_address: ClassVar[bool] = False  # and looks up no AAAA without an IPv6 address
    has_ipv6 = True  # whether the pod has an IPv6 address, which is not that of a link

    def __init__(self, text: str, random: Random) -> None:
        self.conf = self.read(text)
        self.random = random
        self.now = 0.0
        self.outbox: list[Packet] = []
        self._qids = count(1)
        self._udp_ports = count(1)
        self._tcp_ports = count(1)

    @classmethod
    def read(cls, text: str) -> ResolvConf:
        """Read a resolv.conf as this library does."""
        return read_resolv_conf(text, cls.reader)

    def names(self, name: str, types: Sequence[int]) -> list[str]:
        """The names to try in turn."""
        is_tried_alone = self.searches_addresses_alone and types[0] not in ADDRESS_LEN
        return [name] if is_tried_alone else candidates(self.conf, name)

    def own(self, types: Sequence[int]) -> Sequence[int]:
        """The types that it looks up in its pod."""
        is_v4 = self.looks_at_own_address and not self.has_ipv6
        return [each for each in types if each != RRType.AAAA] or types if is_v4 else types

    @abstractmethod
    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up, for A and AAAA, or for one type."""

    def exchange(
        self,
        transport: str,
        server: int,
        qid: int,
        rrtype: int,
        name: str,
        until: float,
        edns: int = 0,
    ) -> Exchange:
        """Ask a server from a new socket, and wait for its answer until a time."""
        port = self.new_port(transport)
        self.send(transport, server, port, qid, rrtype, name, edns=edns)
        arrival = yield until
        while arrival is not None and arrival[0].port != port:
            arrival = yield until
        return None if arrival is None else arrival[1]

    def send(
        self,
        transport: str,
        server: int,
        port: str,
        qid: int,
        rrtype: int,
        name: str,
        *,
        edns: int = 0,
        cookie: bool = False,
    ) -> None:
        """Put a packet into the outbox."""
        wire_name = name.removesuffix(".")
        packet = Packet(
            self.now,
            transport,
            server,
            port,
            qid,
            rrtype,
            wire_name,
            edns,
            cookie,
            self.conf.trust_ad,
        )
        self.outbox.append(packet)

    def new_qid(self) -> int:
        """The next query ID."""
        return next(self._qids)

    def new_port(self, transport: str) -> str:
        """The next socket."""
        return f"u{next(self._udp_ports)}" if transport == "udp" else f"t{next(self._tcp_ports)}"


class Unfinished(Exception):
    """A lookup ends without a result of its library; the message is Result.why."""

    def __init__(self, why: str, error: str = STILL_WAITING) -> None:
        super().__init__(why)
        self.error = error


class Transport(ABC):
    """Carries the packets of lookups, and has their clock."""

    @abstractmethod
    def now(self) -> float:
        """The time in seconds."""

    @abstractmethod
    async def send(self, packet: Packet) -> None:
        """Send a packet; raise Unfinished where nothing more can be known."""

    @abstractmethod
    async def receive(self, until: float | None) -> Arrival | None:
        """Wait for the next answer, and return None at the time `until`; raise Unfinished if neither will come."""

    async def finish(self) -> None:  # noqa: B027 - most have nothing to do
        """End a lookup."""


async def look_up(model: Model, name: str, types: Sequence[int], transport: Transport) -> Trace:
    """Run a lookup to its end; raise ValueError for a name that cannot be in a message."""
    packets: list[Packet] = []
    answers: list[tuple[float, Packet, Answer]] = []
    model.now = transport.now()
    lookup, arrival = model.lookup(name, types), None
    result: Result | None = None
    try:
        while result is None:
            deadline = None
            try:
                deadline = lookup.send(arrival)
            except StopIteration as end:
                # A model may have a kind of error of its own.
                result = end.value._replace(error=str(end.value.error))
            sent = model.outbox[:]
            model.outbox.clear()
            for packet in sent:
                packets.append(packet)
                await transport.send(packet)
            if result is None:
                arrival = await transport.receive(deadline)
                model.now = transport.now()
                if arrival is not None:
                    answers.append((model.now, *arrival))
                elif deadline is not None:
                    model.now = max(model.now, deadline)
    except Unfinished as unfinished:
        result = Result((), unfinished.error, str(unfinished))
    finally:
        await transport.finish()
    return Trace(packets, answers, model.now, result)


class VirtualTransport(Transport):
    """A virtual clock: `fate` has the answer to a packet, and when it comes."""

    def __init__(self, fate: Callable[[Packet], Awaitable[Fate]], at: float = 0.0) -> None:
        self._fate, self._now = fate, at
        self._arriving: list[tuple[float, int, Packet, Answer]] = []
        self._numbers = count()

    def now(self) -> float:
        """The time in seconds."""
        return self._now

    async def send(self, packet: Packet) -> None:
        """Find its answer out."""
        fate = await self._fate(packet)
        if fate is not None:
            heappush(self._arriving, (self._now + fate[0], next(self._numbers), packet, fate[1]))

    async def receive(self, until: float | None) -> Arrival | None:
        """Advance to the next answer, or to the time `until`."""
        if self._arriving and (until is None or self._arriving[0][0] <= until):
            self._now, _, packet, answer = heappop(self._arriving)
            return packet, answer
        if until is None:
            raise Unfinished("it waits for a reply over TCP without a time limit")
        self._now = until
        return None


T = TypeVar("T")


def together(
    model: Model, running: dict[int, Generator[float | None, Arrival | None, T]]
) -> Generator[float | None, Arrival | None, list[tuple[int, T]]]:
    """Run what looks up each type, side by side; return the results in the order in which they end."""
    ended: list[tuple[int, T]] = []
    deadlines: dict[int, float] = {}
    arrival: Arrival | None = None
    due = list(running)
    while running:
        for rrtype in due:
            try:
                deadline = running[rrtype].send(arrival)
                assert deadline is not None, "each query has a deadline"
                deadlines[rrtype] = deadline
            except StopIteration as end:
                ended.append((rrtype, end.value))
                del running[rrtype]
                deadlines.pop(rrtype, None)
        if running:
            arrival = yield min(deadlines.values())
            due = [each for each in deadlines if deadlines[each] <= model.now]
            if arrival is not None:
                due = [each for each in running if each == arrival[0].rrtype]
    return ended


def found_at(name: str, records: Sequence[str], types: Sequence[int]) -> Result:
    """The result of a lookup that has found records."""
    what = "addresses" if types[0] in ADDRESS_LEN else f"{type_to_text(types[0])} records"
    return Result(tuple(records), "", f"{name} has {what}")


def candidates(conf: ResolvConf, name: str) -> list[str]:
    """The names to try in turn: with suffixes first if the name has fewer dots than `ndots`, else without one first."""
    if name.endswith("."):
        return [name]
    tried = [f"{name}.{suffix}" if suffix else name for suffix in conf.search]
    if name.count(".") >= conf.ndots:
        tried.insert(0, name)
    else:
        tried.append(name)
    return list(dict.fromkeys(tried))


def within(answer: Answer, rrtype: int, name: str, size: int, *, lax: int = 0) -> tuple[str, ...]:
    """The addresses whose records are in the first `size` octets of the reply, or begin up to `lax` octets earlier.

    Records of other types have no fixed length, and none of these is cut off.
    """
    start = 12 + len(name.removesuffix(".")) + 2 + 4
    if rrtype not in ADDRESS_LEN:
        return answer.addresses
    each = 12 + ADDRESS_LEN[rrtype]
    return answer.addresses[: max(0, (size + lax - start) // each)]


def query_of(packet: Packet, cookie: bytes = bytes(8)) -> Query:
    """The query in a packet; raise ValueError for a name that cannot be in a message.  `cookie` is a client cookie."""
    edns = None
    if packet.edns:
        options = ((OptCode.COOKIE, cookie),) if packet.cookie else ()
        edns = Edns(packet.edns, options=options)
    flags = RD | AD if packet.ad else RD
    return Query.ask(Name.from_text(packet.name), packet.rrtype, flags=flags, edns=edns)


def wire_of(packet: Packet, query_id: int, cookie: bytes = bytes(8)) -> bytes:
    """The message; raise ValueError as above."""
    return encode_query(query_of(packet, cookie), query_id)


def answer_of(wire: bytes, packet: Packet) -> Answer:
    """The answer of a reply for a model; raise BadReply."""
    reply = decode_reply(wire, query_of(packet))
    ttls = [record.ttl for record in reply.answer] or [
        min(record.ttl, int.from_bytes(record.rdata[-4:], "big"))
        for record in reply.authority
        if record.rrtype == RRType.SOA
    ]
    return Answer(
        reply.rcode,
        # None of the resolvers takes records from an error.
        tuple(
            rdata_to_text(each.rrtype, each.rdata)
            for each in (() if reply.rcode else reply.answer)
            if each.rrtype == packet.rrtype
        ),
        tc=reply.tc,
        is_lame=not (reply.rcode or reply.answer or reply.additional or reply.aa or reply.ra),
        ttl=min(ttls, default=0),
    )
