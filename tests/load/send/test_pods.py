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
from hsdns.load.schedule import SECOND
from hsdns.load.send.connection import Connection
from hsdns.load.send.loop import Ready, Reporter
from hsdns.load.send.pods import PodSender, end_of
from hsdns.load.send.udp import UdpTransport
from hsdns.resolver import USUAL
from hsdns.resolver.forwarders import FORWARDERS
from hsdns.resolver.model import Answer, Fate, Packet
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.framing import frame
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from tests.load.clusters import OUTSIDE, plan
from tests.load.stream_peers import Link, Socket
from tests.support.resolvers.lookups import trace_of

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


def nothing(name: str, rrtype: int, number: int) -> Reply | None:
    return None


def addresses(*texts: str) -> Reply:
    found = [ip_address(text).packed for text in texts]
    types = {4: RRType.A, 16: RRType.AAAA}
    answer = tuple(RR(Name.from_text(WEB), types[len(each)], 5, each) for each in found)
    return Reply(answer=answer, aa=True)


class EachLookup(LookupsReport):
    """Keeps the lookups that it counts."""

    each: list[Lookup] = msgspec.field(default_factory=list)

    def add(self, found: Lookup) -> None:
        self.each.append(found)
        super().add(found)


class Wire(Socket):
    """A socket for datagrams; it takes none if the world refuses them."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def left(self) -> None:
        """No datagram is stamped."""

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        if self.world.refuses:
            return range(len(datagrams))
        for octets in datagrams:
            self.world.ask(self, octets)
        return ()


class Stream(Link):
    """The socket of a connection."""

    def __init__(self, world: World, connection: Connection) -> None:
        super().__init__(connection)
        self.world = world

    def send(self, octets: bytes | bytearray) -> int:
        taken = super().send(octets)
        while self.queries:
            self.world.ask(self, self.queries.pop(0))
        return taken


class World:
    """A clock, a server that answers after a millisecond, and what the sender tells.

    `slow` are nanoseconds that each look at the clock takes; the server `closes` connections in place of an answer.
    """

    def __init__(
        self,
        says: Says,
        asked: PodPlan,
        times: Sequence[int] = (0,),
        *,
        slow: int = 0,
        closes: bool = False,
        refuses: bool = False,
        waits: Sequence[Ready] | None = None,
        timeout: int = 5 * SECOND,
    ) -> None:
        self.now = BEGIN
        self.says, self.slow, self.closes, self.refuses = says, slow, closes, refuses
        self.seen: Counter[tuple[str, int]] = Counter()
        self.packets: list[tuple[str, int]] = []
        self.arriving: list[tuple[int, int, Wire | Stream, bytes]] = []
        self.numbers = count()
        self.told: list[tuple[bytes, bytes]] = []
        self.streams: list[Stream] = []
        lookups, frames, pods = EachLookup(), Frames(), Pods(asked)
        reporter = Reporter(lambda octets: self.told.extend(frames.feed(octets)), replies=True)
        reporter.lookups = lookups
        scripted = None if waits is None else iter(waits)
        self.sender = PodSender(
            pods=pods,
            times=iter(times),
            wanted=pods.lookups(),
            reporter=reporter,
            open_link=self.connect,
            timeout=timeout,
            clock=self.clock,
            wait=lambda nanoseconds: next(scripted) if scripted else self.wait(nanoseconds),
        )
        self.wires = [Wire(self) for _ in range(2)]
        self.udp = UdpTransport(self.wires, timeout, self.sender.ended, self.clock, run=1)
        self.sender.transport = self.udp
        self.sender.run(BEGIN)
        self.lookups = lookups.each
        self.outcomes = [Outcome(*each) for kind, content in self.told if kind == OUTCOMES for each in unpack_outcomes(content)]  # fmt: skip
        self.questions = [unpack_question(content)[1] for kind, content in self.told if kind == QUESTION]  # fmt: skip

    def clock(self) -> int:
        self.now += self.slow
        return self.now

    def connect(self, connection: Connection) -> Stream:
        if self.refuses:
            raise OSError
        self.streams.append(Stream(self, connection))
        return self.streams[-1]

    def ask(self, wire: Wire | Stream, octets: bytes) -> None:
        query, is_stream = decode(octets), isinstance(wire, Stream)
        name, key = query.qname.to_text().removesuffix("."), query.qtype
        self.packets.append((name, key))
        reply = self.says(name, key, self.seen[name, key])
        self.seen[name, key] += 1
        if reply is None and not (is_stream and self.closes):
            return
        found = b"" if reply is None else encode(query, reply.replace(tc=reply.tc and not is_stream), 65_535)  # fmt: skip
        heappush(self.arriving, (self.now + MS, next(self.numbers), wire, found))

    def wait(self, nanoseconds: int) -> Ready:
        until, streams = self.now + nanoseconds, self.sender.streams
        opening = [each.connection for each in self.streams if not each.connection.is_up]
        if opening:
            return [partial(streams.can_write, each) for each in opening]
        if not self.arriving or self.arriving[0][0] > until:
            self.now = until
            return ()
        at, _, wire, octets = heappop(self.arriving)
        self.now = max(self.now, at)
        if isinstance(wire, Stream):
            wire.given.append(frame(octets) if octets else b"")
            return [partial(streams.can_read, wire.connection)]
        wire.given.append((octets, at))
        return [partial(self.udp.receive, self.wires.index(wire))]


def test_a_lookup() -> None:
    world = World(answers, plan(forms={"namespace": 1}, count=1), [3 * MS])
    start = BEGIN + 3 * MS
    assert world.lookups == [
        Lookup("glibc", "namespace", FOUND, 4, 2, 0, 0, start, start, start + 2 * MS)
    ]
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


def truncated(name: str, rrtype: int, number: int) -> Reply | None:
    found = answers(name, rrtype, number)
    return found.replace(tc=True) if found is not None and rrtype == RRType.A else found


def truncated_once(name: str, rrtype: int, number: int) -> Reply | None:
    return Reply(tc=True) if not number else None


GLIBC, MUSL, GO = (plan(count=1, resolvers={each: 1}) for each in ("glibc", "musl", "go"))
OVER_TCP = plan(count=1, resolv_confs=["options use-vc\n"] * 2)


@pytest.mark.parametrize(
    ("says", "asked", "more", "end", "took", "counts", "received"),
    [
        (nothing, plan(count=1, forms={"absolute": 1}), {}, FAILED, 10 * SECOND, (4, 2, 0), LOST),
        (nothing, GO, {}, UNFINISHED, None, (6, 2, 0), LOST),
        (truncated, GLIBC, {}, FOUND, 2 * MS, (4, 0, 2), None),
        (truncated_once, MUSL, {}, FAILED, 5 * SECOND, (4, 0, 2), None),
        (truncated_once, MUSL, {"closes": True}, FAILED, 2 * MS, (4, 0, 2), None),
        (answers, MUSL, {"refuses": True}, FAILED, 5 * SECOND, (4, 2, 0), NOT_SENT),
        (answers, OVER_TCP, {"refuses": True}, FAILED, None, None, NOT_SENT),
    ],
)  # fmt: skip
def test_how_a_lookup_ends(
    says: Says,
    asked: PodPlan,
    more: dict[str, bool],
    end: str,
    took: int | None,
    counts: tuple[int, int, int] | None,
    received: int | None,
) -> None:
    """Without a reply, after a truncated one, on a connection that is closed, and without sockets."""
    world = World(says, asked, **more)  # type: ignore[arg-type] # flags
    (found,) = world.lookups
    assert found.end == end
    assert took is None or found.ended - BEGIN == took
    assert counts is None or (found.queries, found.again, found.over_tcp) == counts
    assert received is None or {each.received for each in world.outcomes} == {received}
    assert all(each.is_closed for each in world.streams)


@pytest.mark.parametrize(
    ("through", "nodes", "resolver", "queries", "streams"),
    [
        ("coredns", 1, "glibc", 2, 0),  # the second pod hears what the first one heard
        ("coredns", 2, "glibc", 4, 0),
        ("nodelocaldns", 1, "glibc", 2, 2),  # a connection for each query in flight
        ("nodelocaldns", 1, "node-lookup", 2, 2),
        ("istio", 1, "glibc", 0, 0),
    ],
)
def test_what_the_pods_of_a_node_share(
    through: str, nodes: int, resolver: str, queries: int, streams: int
) -> None:
    asked = plan(
        count=2, namespaces=["shop", "shop"], forms={"absolute": 1}, resolvers={resolver: 1},
        through=through, nodes=nodes, registry={WEB: {"": ["10.0.0.1"]}},
    )  # fmt: skip
    world = World(answers, asked, [at * SECOND for at in range(4)])
    assert [each.end for each in world.lookups] == [FOUND] * 4
    assert (len(world.packets), len(world.streams)) == (queries, streams)
    assert sum(each.kept for each in world.lookups) == 8 - queries


def test_a_pod_of_node_makes_two_lookups_at_a_time() -> None:
    asked = plan(count=1, resolvers={"node-lookup": 1}, forms={"absolute": 1})
    world = World(nothing, asked, [0, 0, 0], timeout=20 * SECOND)
    assert [(each.ended - BEGIN) // SECOND for each in world.lookups] == [10, 10, 20]
    assert {each.began - each.planned for each in world.lookups} == {0}


def test_it_ends_when_it_is_told_to() -> None:
    world = World(answers, plan(), [0, MS, SECOND], timeout=SECOND, waits=[(), None])
    assert (world.lookups, world.outcomes) == ([], [])


FATES = st.sampled_from(["ok", "ok", "nodata", "nxdomain", "servfail", "refused", "lost"])


@pytest.mark.parametrize(
    ("resolver", "through"),
    [*((each, "") for each in USUAL), *(("glibc", each) for each in FORWARDERS)],
)
@given(
    fates=st.lists(FATES, min_size=1, max_size=12),
    name=st.sampled_from(["web", "web.shop", "www.example.com"]),
)
def test_it_does_what_the_model_does(
    resolver: str, through: str, fates: list[str], name: str
) -> None:
    """The same queries, end and time as on the virtual clock of `hsdns resolve`."""
    if through:  # without probes, and without waits that end at the same time
        fates = ["ok" if each == "lost" else each for each in fates]

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
        if packet.server:  # that of the node
            return 0.0, Answer(Rcode.NXDOMAIN)
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
        targets=[OUTSIDE] if "example" in name else plan().targets, through=through,
    )  # fmt: skip
    pods = Pods(asked)  # with the same random numbers
    model = pods.forwarder(0) or pods.take(0)
    assert model is not None
    expected = trace_of(model, name, (RRType.A, RRType.AAAA), ask)
    world = World(says, asked, timeout=300 * SECOND)  # so that all ends are seen
    (found,) = world.lookups
    assert found.end == end_of(expected.result)
    sent = [(each.name.rstrip("."), each.rrtype) for each in expected.packets if not each.server]
    assert sent == world.packets
    assert (found.ended - BEGIN) / SECOND == pytest.approx(expected.end, abs=1e-6)
