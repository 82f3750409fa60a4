"""The sender of pods on a virtual clock, with a server in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from ipaddress import ip_address
from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.counters import FAILED, FOUND, UNFINISHED, Lookup, LookupsReport
from hsdns.load.outcome import (
    LOST,
    NOT_SENT,
    OUTCOMES,
    QUESTION,
    REPLY,
    Frames,
    Outcome,
    unpack_outcomes,
    unpack_question,
)
from hsdns.load.pods import PodPlan, Pods
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.send.connection import Connection
from hsdns.load.send.loop import Ready, Reporter
from hsdns.load.send.pods import PodSender, end_of
from hsdns.load.send.udp import UdpTransport
from hsdns.resolver import USUAL
from hsdns.resolver.model import Answer, Ended, Fate, Packet, Sent
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.framing import FrameBuffer, frame
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from tests.load.pod_plans import OUTSIDE, plan
from tests.support.resolvers.lookups import steps

MS = SECOND // 1000
BEGIN = 100 * SECOND
WEB = "web.shop.svc.cluster.local"
# Of the n-th query for a name and a type: a rcode with one address if it is NOERROR, truncated, or None for no reply.
Says = Callable[[str, int, int], Reply | None]


def answers(name: str, rrtype: int, number: int) -> Reply | None:
    """`web` of `shop` has an IPv4 address; no other name exists."""
    if name != WEB:
        return Reply(Rcode.NXDOMAIN, aa=True)
    return addresses("10.0.0.1") if rrtype == RRType.A else Reply(aa=True)


def addresses(*texts: str) -> Reply:
    found = [ip_address(text).packed for text in texts]
    types = {4: RRType.A, 16: RRType.AAAA}
    return Reply(
        answer=tuple(RR(Name.from_text(WEB), types[len(each)], 5, each) for each in found), aa=True
    )


class EachLookup(LookupsReport):
    """Keeps the lookups that it counts."""

    each: list[Lookup] = msgspec.field(default_factory=list)

    def add(self, found: Lookup) -> None:
        self.each.append(found)
        super().add(found)


class World:
    """A clock, a server that answers after a millisecond, and what the sender tells."""

    def __init__(self, says: Says, *, slow: int = 0) -> None:
        self.now = BEGIN
        self.says = says
        self.slow = slow  # nanoseconds that each look at the clock takes
        self.seen: Counter[tuple[str, int]] = Counter()
        self.packets: list[tuple[int, str, int]] = []
        self.arriving: list[tuple[int, int, object, bytes]] = []
        self.numbers = count()
        self.told: list[tuple[bytes, bytes]] = []
        self.frames = Frames()
        self.connections: list[Stream] = []
        self.refuses = False
        self.lookups: list[Lookup] = []

    def clock(self) -> int:
        self.now += self.slow
        return self.now

    def ask(self, place: object, octets: bytes, truncates: bool = True) -> None:
        query = decode(octets)
        name, key = query.qname.to_text().removesuffix("."), query.qtype
        self.packets.append((self.now, name, key))
        reply = self.says(name, key, self.seen[name, key])
        self.seen[name, key] += 1
        if reply is None:
            return
        if not truncates:
            reply = reply.replace(tc=False)
        heappush(
            self.arriving, (self.now + MS, next(self.numbers), place, encode(query, reply, 65_535))
        )

    def wait(self, nanoseconds: int) -> Ready:
        until, streams = self.now + nanoseconds, self.sender.streams
        opening = [each.connection for each in self.connections if not each.connection.is_up]
        if opening:
            return [partial(streams.can_write, each) for each in opening]
        if self.arriving and self.arriving[0][0] <= until:
            self.now = max(self.now, self.arriving[0][0])
            place = self.arriving[0][2]
            if isinstance(place, Stream):
                return [partial(streams.can_read, place.connection)]
            return [partial(self.transport.receive, self.sockets.index(place))]
        self.now = until
        return ()

    def take(self, place: object) -> list[tuple[bytes, int]]:
        found = []
        while self.arriving and self.arriving[0][0] <= self.now and self.arriving[0][2] is place:
            at, _, _, octets = heappop(self.arriving)
            found.append((octets, at))
        return found

    def emit(self, octets: bytes) -> None:
        self.told += list(self.frames.feed(octets))

    def connect(self, connection: Connection) -> Stream:
        if self.refuses:
            raise OSError
        self.connections.append(Stream(self, connection))
        return self.connections[-1]

    def run(
        self, asked: PodPlan, times: Sequence[int], *, timeout: int = 5 * SECOND, wires: int = 2
    ) -> None:
        self.make(asked, times, timeout, wires).run(BEGIN)

    def make(self, asked: PodPlan, times: Sequence[int], timeout: int, wires: int) -> PodSender:
        pods = Pods(asked)
        self.sockets: list[object] = []
        reporter = Reporter(self.emit, replies=True)
        reporter.lookups = EachLookup(each=self.lookups)

        self.sender = PodSender(
            pods,
            iter(times),
            pods.lookups(),
            reporter,
            self.connect,
            timeout=timeout,
            clock=self.clock,
            wait=lambda nanoseconds: self.wait(nanoseconds),
        )
        sockets = [Socket(self) for _ in range(wires)]
        self.sockets += sockets
        self.transport = UdpTransport(sockets, timeout, self.sender, self.clock, run=1)
        self.sender.transport = self.transport
        return self.sender

    @property
    def outcomes(self) -> list[Outcome]:
        found = [
            each
            for kind, content in self.told
            if kind == OUTCOMES
            for each in unpack_outcomes(content)
        ]
        return [Outcome(*each) for each in found]

    @property
    def questions(self) -> list[Question]:
        return [unpack_question(content)[1] for kind, content in self.told if kind == QUESTION]


class Socket:
    def __init__(self, world: World) -> None:
        self.world = world

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        if self.world.refuses:
            return range(len(datagrams))
        for octets in datagrams:
            self.world.ask(self, octets)
        return ()

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        return self.world.take(self), False


class Stream:
    """The socket of a connection, which a reply of no octets ends."""

    def __init__(self, world: World, connection: Connection) -> None:
        self.world = world
        self.connection = connection
        self.frames = FrameBuffer()
        self.is_closed = False

    def set_up(self) -> bool:
        return True

    def send(self, octets: bytes | bytearray) -> int:
        for each in self.frames.feed(bytes(octets)):
            self.world.ask(self, each, truncates=False)
        return len(octets)

    def receive(self) -> tuple[bytes, bool]:
        found = [octets for octets, _ in self.world.take(self)]
        return b"".join(frame(each) for each in found if each), b"" in found

    def watch_writing(self, *, is_on: bool) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


def test_a_lookup() -> None:
    world = World(answers)
    world.run(plan(forms={"namespace": 1}, count=1), [3 * MS])
    start = BEGIN + 3 * MS
    (found,) = world.lookups
    assert found == Lookup("glibc", "namespace", FOUND, 4, 2, 0, 0, start, start, start + 2 * MS)
    assert [(each.name.to_text(), each.qtype, each.group) for each in world.questions] == [
        ("web.shop.shop.svc.cluster.local.", RRType.A, "search"),
        ("web.shop.shop.svc.cluster.local.", RRType.AAAA, "search"),
        (f"{WEB}.", RRType.A, "service"),
        (f"{WEB}.", RRType.AAAA, "service"),
    ]
    second = start + MS
    assert world.outcomes == [
        Outcome(0, 0x8503, 1, start, start, second),
        Outcome(1, 0x8503, 2, start, start, second),
        Outcome(2, 0x8500, 3, second, second, second + MS),
        Outcome(3, 0x8500, 4, second, second, second + MS),
    ]
    kinds = [kind for kind, _ in world.told]
    assert kinds.index(QUESTION) < kinds.index(REPLY) < kinds.index(OUTCOMES)


def test_a_slow_generator_is_late_and_says_so() -> None:
    """Each look at the clock takes a millisecond: what was received and due is when it was, sent is later."""
    world = World(answers, slow=MS)
    world.run(plan(count=1), [0])
    (found,) = world.lookups
    assert (found.planned, found.began > BEGIN) == (BEGIN, True)
    first, second = world.outcomes
    assert (first.planned, second.planned) == (BEGIN, BEGIN)
    assert BEGIN < first.sent < second.sent
    assert found.ended == max(first.received, second.received)


def test_lookups_beside_each_other_have_ids_of_their_own() -> None:
    world = World(answers)
    world.run(plan(), [0] * 100)
    assert [each.end for each in world.lookups] == [FOUND] * 100
    assert len(world.outcomes) == 200
    assert all(each.received == BEGIN + MS for each in world.outcomes)
    assert len(world.questions) == 2
    assert sum(kind == REPLY for kind, _ in world.told) == 2


def test_no_reply_at_all() -> None:
    world = World(lambda *_: None)
    world.run(plan(count=1, forms={"absolute": 1}), [0])
    (found,) = world.lookups
    assert (found.end, found.queries, found.again, found.ended) == (
        FAILED,
        4,
        2,
        BEGIN + 10 * SECOND,
    )
    assert [(each.sent, each.received) for each in world.outcomes] == [
        (BEGIN, LOST),
        (BEGIN, LOST),
        (BEGIN + 5 * SECOND, LOST),
        (BEGIN + 5 * SECOND, LOST),
    ]


def test_what_does_not_end_in_time() -> None:
    world = World(lambda *_: None)
    world.run(plan(count=1, resolvers={"go": 1}), [0])
    (found,) = world.lookups
    assert found.end == UNFINISHED
    assert found.ended > BEGIN + 12 * SECOND


def test_a_truncated_reply_leads_to_tcp() -> None:
    def says(name: str, rrtype: int, number: int) -> Reply | None:
        found = answers(name, rrtype, number)
        return found.replace(tc=True) if found is not None and rrtype == RRType.A else found

    world = World(says)
    world.run(plan(count=1), [0])
    (found,) = world.lookups
    assert (found.end, found.queries, found.over_tcp, found.again) == (FOUND, 4, 2, 0)
    assert [each.is_closed for each in world.connections] == [True]
    assert len(world.outcomes) == 4


def test_a_connection_that_ends() -> None:
    def says(name: str, rrtype: int, number: int) -> Reply | None:
        return Reply(tc=True) if not number else None

    world = World(says)
    world.run(plan(count=1, resolvers={"musl": 1}), [0])
    world_of_one = World(says)

    def ask(place: object, octets: bytes, truncates: bool = True) -> None:
        if truncates:
            World.ask(world_of_one, place, octets)
        else:
            heappush(
                world_of_one.arriving,
                (world_of_one.now + MS, next(world_of_one.numbers), place, b""),
            )

    world_of_one.ask = ask  # type: ignore[method-assign] # a server that closes
    world_of_one.run(plan(count=1, resolvers={"musl": 1}), [0])
    assert [(each.end, each.ended - BEGIN) for each in world.lookups] == [(FAILED, 5 * SECOND)]
    assert [(each.end, each.ended - BEGIN) for each in world_of_one.lookups] == [(FAILED, 2 * MS)]


def test_what_the_machine_cannot_send() -> None:
    world = World(answers)
    world.refuses = True
    world.run(plan(count=1, resolvers={"musl": 1}), [0])
    assert {each.received for each in world.outcomes} == {NOT_SENT}
    world = World(answers)
    world.refuses = True
    world.run(plan(count=1, resolv_confs=["options use-vc\n"] * 2), [0])
    assert {each.received for each in world.outcomes} == {NOT_SENT}
    assert [each.end for each in world.lookups] == [FAILED]


def test_it_ends_when_it_is_told_to() -> None:
    world = World(answers)
    waits = iter([(), None])
    world.wait = lambda nanoseconds: next(waits)  # type: ignore[method-assign]
    world.run(plan(), [0, MS, SECOND], timeout=SECOND, wires=1)
    assert (world.lookups, world.outcomes) == ([], [])


FATES = st.sampled_from(["ok", "ok", "nodata", "nxdomain", "servfail", "refused", "lost"])


@pytest.mark.parametrize("resolver", USUAL)
@given(
    fates=st.lists(FATES, min_size=1, max_size=12),
    name=st.sampled_from(["web", "web.shop", "www.example.com"]),
)
def test_it_does_what_the_model_does(resolver: str, fates: list[str], name: str) -> None:
    """The same queries, end and time as on the virtual clock of `hsdns resolve`."""

    def fate_of(name: str, rrtype: int, number: int) -> str:
        return fates[(len(name) + rrtype + 7 * number) % len(fates)]

    def says(name: str, rrtype: int, number: int) -> Reply | None:
        fate = fate_of(name, rrtype, number)
        if fate == "ok":
            return addresses("10.0.0.1" if rrtype == RRType.A else "fd00::1")
        return {"nodata": Reply(aa=True), "nxdomain": Reply(Rcode.NXDOMAIN, aa=True), "servfail": Reply(Rcode.SERVFAIL),
                "refused": Reply(Rcode.REFUSED), "lost": None}[fate]  # fmt: skip

    seen: Counter[tuple[str, int]] = Counter()

    def ask(packet: Packet) -> Fate:
        number = seen[packet.name, packet.rrtype]
        seen[packet.name, packet.rrtype] += 1
        fate = fate_of(packet.name, packet.rrtype, number)
        if fate == "lost":
            return None
        rcodes = {"nxdomain": Rcode.NXDOMAIN, "servfail": Rcode.SERVFAIL, "refused": Rcode.REFUSED}
        found = ("10.0.0.1" if packet.rrtype == RRType.A else "fd00::1",) if fate == "ok" else ()
        ttl = 5 if fate == "ok" else 0
        return 0.001, Answer(rcodes.get(fate, Rcode.NOERROR), found, ttl=ttl)

    asked = plan(
        count=1, namespaces=["shop"], resolvers={resolver: 1},
        forms={"name": 1} if name == "web" else {"namespace": 1} if name == "web.shop" else {"full": 1},
        targets=[OUTSIDE] if "example" in name else plan().targets,
    )  # fmt: skip
    model = Pods(asked).take(0)  # with the same random numbers
    expected = steps(model, name, (RRType.A, RRType.AAAA), ask)
    world = World(says)
    world.run(asked, [0], timeout=300 * SECOND)  # so that all ends are seen
    (found,) = world.lookups
    end = expected[-1]
    assert isinstance(end, Ended)
    assert found.end == end_of(end.result)
    packets = [each.packet for each in expected if isinstance(each, Sent)]
    assert [(each.name, each.rrtype) for each in packets] == [each[1:] for each in world.packets]
    assert (found.ended - BEGIN) / SECOND == pytest.approx(end.at, abs=1e-6)
