"""The models send what the libraries were measured to send (traces.txt), and come to the same results.

A trace is replayed: the server takes the packets in the order of the trace and answers each as it did then, on a virtual
clock.  Each packet that a model sends is compared, and each packet of the trace has to be sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from hsdns.resolver import MODELS
from hsdns.resolver.model import Answer, Arrival, Model, Packet, Result
from hsdns.wire.iana import Rcode, RRType, type_from_text

TRACES = Path(__file__).parent / "traces.txt"
TOLERANCE = 0.030  # seconds
NOISE = 0.004  # seconds between a packet's arrival and the end of a lookup
KUBE = "search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
LONG = (
    "search shop.svc.cluster.local " + " ".join(f"zone-{n}.example.com" for n in range(20)) + "\n"
)
# scenario (or its beginning): resolv.conf besides the nameservers, and the name
SCENARIOS = {
    "kube-": (KUBE, "web"),
    "dotsearch": (KUBE, "nope.example.org"),
    "ndots2": (KUBE.replace("5", "2"), "db-0.db.shop"),
    "longsearch": (LONG + "options ndots:5\n", "web"),
    "hl-": ("", "h.example.com"),
    "one-tc_hang": ("", "h.example.com"),
    "edns0": ("options edns0\n", "www.example.com"),
    "noaaaa": ("options no-aaaa\n", "www.example.com"),
    "rotate": ("options rotate\n", "www.example.com"),
    "singlereq": ("options single-request\n", "www.example.com"),
    "sro": ("options single-request-reopen\n", "www.example.com"),
    "t1a3": ("options timeout:1 attempts:3\n", "www.example.com"),
    "trustad": ("options trust-ad\n", "www.example.com"),
    "vc": ("options use-vc\n", "www.example.com"),
    "": ("", "www.example.com"),
}
TWO_SERVERS = ("two-", "rotate")
# seconds until the server replied
DELAYS = {"two-srv1_nx_srv2_ok": (0.05, 0.1), "two-srv1_ok_srv2_nx_fast": (0.1, 0.0)}
RCODES = {
    "servfail": Rcode.SERVFAIL, "refused": Rcode.REFUSED, "notimp": Rcode.NOTIMP, "formerr": Rcode.FORMERR,
    "NXDOMAIN": Rcode.NXDOMAIN,
}  # fmt: skip
# Replies that overtook each other: the order in which they arrived, where it is not that of the packets.
OVERTAKEN = {
    "one-a_ok_aaaa_refused c-ares": (1, 0, 2),
}
# Packets that were on their way when the lookup ended, so that the server never read them.
UNREAD = {
    "hl-500 glibc": 1, "one-tc glibc": 1, "one-tc_partial musl": 1, "two-srv1_drop musl-1.2.3": 1,
    "two-srv1_nx_srv2_ok musl-1.2.3": 2, "two-srv1_nx_srv2_ok musl": 2, "two-srv1_ok_srv2_nx_fast musl-1.2.3": 2,
    "two-srv1_ok_srv2_nx_fast musl": 2, "two-srv1_refused musl": 2, "two-srv1_servfail musl-1.2.3": 1,
}  # fmt: skip
# Where a process of the measurement was late itself: seconds instead of TOLERANCE.
TOLERANCES = {
    "sticky glibc": 0.048, "one-a_ok_aaaa_drop glibc": 0.032, "one-notimp musl-1.2.3": 0.090,
    "one-servfail musl-1.2.3": 0.037, "one-aaaa_ok_a_drop_once musl-1.2.3": 0.082,
}  # fmt: skip


class Logged(NamedTuple):
    at: float  # seconds
    transport: str
    server: int
    port: str
    qid: int
    rrtype: int
    name: str
    flags: str
    action: str


class Trace(NamedTuple):
    scenario: str
    resolver: str
    results: tuple[str, ...]
    packets: tuple[Logged, ...]

    def __str__(self) -> str:
        return f"{self.scenario} {self.resolver}"


def read_traces() -> Iterator[Trace]:
    for part in TRACES.read_text().split("\n== ")[1:]:
        head, *lines = part.splitlines()
        packets: list[Logged] = []
        for line in lines:
            if not line.startswith("RESULT"):
                ms, transport, server, port, qid, rrtype, name, flags, action = line.split()
                name = packets[-1].name if name == "=" else name
                packets.append(
                    Logged(
                        int(ms) / 1000, transport, int(server) - 1, port, int(qid), type_from_text(rrtype), name,
                        flags.strip("-"), action,
                    )
                )  # fmt: skip
        results = tuple(line for line in lines if line.startswith("RESULT"))
        scenario, resolver = head.split()
        yield Trace(scenario, resolver, results, tuple(packets))


ALL = list(read_traces())


class Chance(Random):
    """The choices that c-ares made by chance, as the trace shows them: when a try ended, and which server was next."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(0)
        self._trace = trace
        self.model: Model | None = None
        self.before = 0  # packets that left the model's outbox

    @property
    def _number(self) -> int:
        """Of the packet that is about to be sent."""
        assert self.model is not None
        return self.before + len(self.model.outbox)

    def uniform(self, a: float, b: float) -> float:
        """What shortens the wait for a reply: the trace shows when the packet was sent again, or the lookup ended."""
        packets = sorted(self._trace.packets, key=lambda each: (round(each.at * 20), each.rrtype))
        if self._number >= len(packets):
            return b  # of a connection that is closed
        packet = packets[self._number]
        again = [
            each.at
            for each in packets
            if each.name == packet.name and each.rrtype == packet.rrtype and each.at > packet.at
        ]
        if not again and packet is not max(packets, key=lambda each: each.at):
            return b  # the other query ended the lookup
        end = again[0] if again else seconds(self._trace.results[0]) - NOISE
        if end - packet.at < 1:
            return b  # it was answered
        servers = len({each.server for each in packets})
        tries = sum(each.name == packet.name and each.rrtype == packet.rrtype and each.transport == packet.transport
                    and each.at < packet.at for each in packets)  # fmt: skip
        longest = 2.0 * (1 << tries // servers)
        found = 1 - (end - packet.at) / longest
        assert a - 0.01 <= found <= b + 0.01
        return min(max(found, a), b)


def server_answer(logged: Logged) -> Answer | None:
    """What the server did with a packet; None for nothing."""
    if logged.action in ("drop", "hang"):
        return None
    if logged.action == "close":
        return Answer(is_closed=True)
    if logged.action in RCODES:
        return Answer(RCODES[logged.action], ttl=5)
    if logged.action == "LAME":
        return Answer(is_lame=True)
    number = re.search(r"\d+", logged.action)
    form = "192.0.2.{}" if logged.rrtype == RRType.A else "2001:db8::{}"
    addresses = tuple(form.format(each) for each in range(int(number[0]) if number else 0))
    return Answer(addresses=addresses, tc=logged.action.startswith("TC"), ttl=5)


def seconds(result: str) -> float:
    return int(result.split()[2]) / 1000


class Replay:
    """Plays one trace: `pairs` has each packet of the trace with that of the model, `extra` what the trace lacks."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.pairs: list[tuple[Logged, Packet]] = []
        self.results: list[tuple[float, float, Result]] = []  # began, ended
        text, self.name = next(
            what for scenario, what in SCENARIOS.items() if trace.scenario.startswith(scenario)
        )
        servers = 2 if trace.scenario.startswith(TWO_SERVERS) else 1
        text += "".join(f"nameserver 127.0.0.{each + 2}\n" for each in range(servers))
        self.chance = Chance(trace)
        self.model = self.chance.model = MODELS[trace.resolver](text, self.chance)
        self._left = list(trace.packets)
        self._pool: list[Packet] = []
        order = OVERTAKEN.get(str(trace), range(len(self._left)))
        self._left = [self._left[each] for each in order]
        self._closed: set[str] = set()
        for number in range(len(trace.results)):
            self._lookup(8.0 * number if trace.scenario.startswith("cache") else self.model.now)
        self.missing = self._left
        self.extra = [each for each in self._pool if each.port not in self._closed]

    def _lookup(self, began: float) -> None:
        model = self.model
        model.now = began
        lookup = model.lookup(self.name, [RRType.A, RRType.AAAA])
        arriving: list[tuple[float, Arrival]] = []
        arrival: Arrival | None = None
        while True:
            try:
                deadline = lookup.send(arrival)
            except StopIteration as end:
                self._take()
                self._log_rest()
                self.results.append((began, model.now, end.value))
                return
            self._take()
            arrival = None
            while arrival is None:
                arriving.sort(key=lambda each: each[0])
                if arriving and arriving[0][0] <= model.now:
                    arrival = arriving.pop(0)[1]
                elif (found := self._log_next()) is not None:
                    logged, packet = found
                    answer = server_answer(logged)
                    delay = DELAYS.get(self.trace.scenario, (0.0, 0.0))[logged.server]
                    if answer is not None:
                        arriving.append((model.now + delay, (packet, answer)))
                elif arriving and (deadline is None or arriving[0][0] <= deadline):
                    model.now = arriving[0][0]
                elif deadline is None:
                    self.results.append((began, model.now, Result((), "still waiting", "")))
                    return
                else:
                    model.now = deadline
                    break

    def _take(self) -> None:
        self._pool += self.model.outbox
        self.chance.before += len(self.model.outbox)
        self.model.outbox.clear()

    def _log_next(self) -> tuple[Logged, Packet] | None:
        """The next packet of the trace, if the model has sent it."""
        if not self._left:
            return None
        logged = self._left[0]
        for packet in self._pool:
            if (packet.transport, packet.server, packet.rrtype, packet.name) == (
                logged.transport, logged.server, logged.rrtype, logged.name,
            ):  # fmt: skip
                self._left.pop(0)
                self._pool.remove(packet)
                self.pairs.append((logged, packet))
                if logged.action == "close":
                    self._closed.add(packet.port)
                return logged, packet
        return None

    def _log_rest(self) -> None:
        """What had been sent when the lookup ended."""
        while self._log_next() is not None:
            pass


def flags(packet: Packet) -> str:
    edns = [f"edns{packet.edns}"] if packet.edns else []
    return "+".join([*(["ad"] if packet.ad else []), *edns, *(["cookie"] if packet.cookie else [])])


@pytest.mark.parametrize("trace", ALL, ids=str)
def test_same_packets(trace: Trace) -> None:
    replay = Replay(trace)
    assert not replay.missing
    assert len(replay.extra) == UNREAD.get(str(trace), 0)
    for logged, packet in replay.pairs:
        assert flags(packet) == logged.flags
    for kind in ("port", "qid"):
        pairs = {(getattr(logged, kind), getattr(packet, kind)) for logged, packet in replay.pairs}
        assert len({each for each, _ in pairs}) == len(pairs) == len({each for _, each in pairs})


@pytest.mark.parametrize("trace", ALL, ids=str)
def test_same_results(trace: Trace) -> None:
    for text, (_, _, result) in zip(trace.results, Replay(trace).results, strict=True):
        expected = text.partition(": ")[2]
        v6 = sum(":" in address for address in result.addresses)
        got = {
            result.error,
            str(len(result.addresses)),
            f"{len(result.addresses) - v6}+{v6}",
        } if not result.error else {result.error}  # fmt: skip
        assert expected in got


@pytest.mark.parametrize("trace", ALL, ids=str)
def test_same_times(trace: Trace) -> None:
    replay = Replay(trace)
    tolerance = TOLERANCES.get(str(trace), TOLERANCE)
    began: dict[float, float] = {}  # when a burst began: in the model, and as it was measured
    for logged, packet in replay.pairs:
        began[packet.at] = min(logged.at, began.get(packet.at, logged.at))
    if len(replay.results) == 1 and "still waiting" not in trace.results[0]:
        began.setdefault(replay.results[0][1], seconds(trace.results[0]))
    late = [measured - modelled for modelled, measured in sorted(began.items())]
    # Each wait ended late by some milliseconds, which add up.
    assert all(abs(b - a) <= tolerance for a, b in pairwise(late))
