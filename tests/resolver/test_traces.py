"""The models send what the libraries were measured to send (traces.txt), and come to the same results.

A trace is replayed: the server takes the packets in the order of the trace and answers each as it did then, on a virtual
clock.  Each packet that a model sends is compared, and each packet of the trace has to be sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, MutableSequence, Sequence
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from hsdns.cluster.address import reverse_name
from hsdns.resolver import MODELS, looks_up
from hsdns.resolver.cares import BEHIND, CAres
from hsdns.resolver.forwarders import FORWARDERS
from hsdns.resolver.forwarders.forwarder import Between, Forwarder
from hsdns.resolver.forwarders.resolved import ACCURACY, TIMEOUT
from hsdns.resolver.model import STILL_WAITING, Answer, Arrival, Model, Packet, Result, Waiting
from hsdns.resolver.musl import NO_ANSWER
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import RRType, rcode_from_text, rcode_to_text, type_from_text
from loadtest.traces.scene import programs
from tests.support.tables import section

HERE = Path(__file__).parent
TRACES, TABLES = HERE / "traces.txt", HERE / "tables.txt"
# Of whole programs: a file for each, and a row for each scenario.
PROGRAMS = sorted((HERE / "traces").glob("*.txt"))
ROWS = HERE.parents[1] / "loadtest" / "traces" / "scenarios.txt"


def table(name: str) -> dict[str, str]:
    """A table of tables.txt; behind # stands why."""
    lines = (f" {line}".partition(" # ")[0] for line in section(TABLES, name).splitlines())
    return {key.strip(): value for key, _, value in (line.partition(" => ") for line in lines)}


GO_ON = table("programs that look a name up by themselves").keys()
OWN_WORDS = table("programs whose errors have other words than those of the library").keys()
SLOW = table("lookups through a forwarder, whose second query came when the first was answered").keys()  # fmt: skip
LATER = table(
    "numbers of lookups through a forwarder that asked again when the forwarder had given up"
)
DB = dict.fromkeys(("", "db-0"), ("198.51.100.2",))
WEB = {"": ("198.51.100.1",)}
BETWEEN = Between("", {"web.shop.svc.cluster.local": WEB, "db.shop.svc.cluster.local": DB})
ONE_EACH = {"curl", "wget-busybox", "nslookup-busybox"}  # that are started for each lookup
ONE_ADDRESS = ("grpc-java", "grpc-python", "wget-busybox")  # that it connects to
WITHOUT_END = ("nothing yet", "still waiting", "after 60000 milliseconds")
MODEL_OF = {name: row.model for name, row in programs().items()}
NAMESERVERS = ("10.96.0.10", "127.0.0.3")
TOLERANCE = 0.050  # seconds
# where it matters at which part of a second a lookup began
WHOLE_SECONDS = ("repeat-ttl0", "repeat-ttl1")
NEXT = 2  # packets that may have overtaken each other
NOISE = 0.004  # seconds between a packet's arrival and the end of a lookup
KUBE = "search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
SCENARIOS = table("a scenario or its beginning, the name, and resolv.conf besides the nameservers")  # fmt: skip
TWO_SERVERS = ("two-", "rotate")
# seconds until the server replied
DELAYS = {"two-srv1_nx_srv2_ok": (0.05, 0.1), "two-srv1_ok_srv2_nx_fast": (0.1, 0.0)}
ERRORS = ("servfail", "refused", "notimp", "formerr", "NXDOMAIN")
RCODES = {each: rcode_from_text(each.upper()) for each in ERRORS}
OVERTAKEN = table("replies that overtook each other: the order in which they arrived")
UNREAD = table("packets that were on their way when the lookup ended, so that the server never read them")  # fmt: skip


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
    conf: str
    asked: str
    types: tuple[int, ...]
    model: str = ""
    known: tuple[str, ...] = ()  # results of what it knew from the first lookup

    def __str__(self) -> str:
        return f"{self.scenario} {self.resolver}"


def settings() -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """The resolv.conf, the name and the types of each row."""
    found: dict[str, tuple[str, str, tuple[int, ...]]] = {}
    lines = [line for line in ROWS.read_text().splitlines() if line and line[0] != "#"]
    for name, kind, words, asked, _ in (line.split(" ; ") for line in lines):
        conf = words.strip().split()
        text = KUBE if "kube" in conf else ""
        options = [each for each in conf if each not in ("kube", "two", "v4", "-")]
        text += "".join(f"options {each}\n" for each in options)
        servers = NAMESERVERS if "two" in conf else NAMESERVERS[:1]
        text += "".join(f"nameserver {each}\n" for each in servers)
        what = asked.split()[0]
        if kind.strip() == "ptr":
            what = reverse_name(ip_address(what).packed).to_text()
        types = {"srv": RRType.SRV, "txt": RRType.TXT, "ptr": RRType.PTR}
        own = types.get(kind.strip())
        found[name.strip()] = text, what, (RRType.A, RRType.AAAA) if own is None else (own,)
    return found


def read_traces() -> Iterator[Trace]:
    rows = settings() if PROGRAMS else {}
    for path in (TRACES, *PROGRAMS):
        for part in path.read_text().split("\n== ")[1:]:
            scenario, _ = part.split(maxsplit=1)
            if path != TRACES:
                trace = read_trace(part, *rows[scenario])
                own = MODEL_OF[trace.resolver]
                if trace.resolver == "go-cgo" and trace.types[0] in (RRType.SRV, RRType.TXT):
                    own = "go"  # the C library has none of these
                yield trace._replace(model=own)
                continue
            found = next(v for k, v in SCENARIOS.items() if scenario.startswith(k))
            name, _, conf = found.partition(" ")
            text = "".join(f"{line}\n" for line in conf.split("; ") if line)
            servers = 2 if scenario.startswith(TWO_SERVERS) else 1
            text += "".join(f"nameserver 127.0.0.{each + 2}\n" for each in range(servers))
            trace = read_trace(part, text, name, (RRType.A, RRType.AAAA))
            yield trace._replace(model=trace.resolver)


def read_trace(part: str, conf: str, asked: str, types: tuple[int, ...]) -> Trace:
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
    known = results[1:] if resolver in GO_ON else ()
    results = results[: len(results) - len(known)]
    return Trace(scenario, resolver, results, tuple(packets), conf, asked, types, known=known)


ALL = [
    each
    for each in read_traces()
    if not each.scenario.startswith("gone-")
    and (each.model in FORWARDERS or looks_up(each.model, each.types))
]


class Client(Model):
    """What asked the forwarders: both types from one socket, and what is not answered again after five seconds."""

    name = "client"
    reader = Reader("the client", switches("edns0", "use-vc"))
    is_slow = False  # it asks for the second type when the first is answered
    is_late = False  # its timer ends after those of the forwarder

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        over = "tcp" if "use-vc" in self.conf.flags else "udp"
        edns = 1232 if "edns0" in self.conf.flags else 0
        port, taken = self.new_port(over), dict[int, Answer]()
        for wait in (12.0,) if over == "tcp" else (5 - NOISE, 5 + NOISE / 2):
            left = [each for each in types if each not in taken]
            until = self.now + wait + 2 * NOISE * self.is_late
            while left or len(taken) < len(types):
                if left and (not self.is_slow or len(taken) == types.index(left[0])):
                    self.send(over, 0, port, left[0], left.pop(0), name, edns=edns)
                    continue
                arrival = yield until
                if arrival is None:
                    break
                if arrival[1].is_closed:
                    return Result((), "closed", "")
                if arrival[0].port == port:
                    taken.setdefault(arrival[0].rrtype, arrival[1])
        found = [each for rrtype in types if rrtype in taken for each in taken[rrtype].addresses]
        rcodes = {rcode_to_text(each.rcode) for each in taken.values() if each.rcode}
        error = " ".join(sorted(rcodes)) or "NODATA" if len(taken) == len(types) else "timeout"
        return Result(tuple(found), "" if found else error, "")


class Chance(Random):
    """The choices that c-ares made by chance, as the trace shows them: when a try ended, and which server was next."""

    def __init__(self, trace: Trace, phase: float) -> None:
        super().__init__(0)
        self._trace, self._phase = trace, phase
        self._is_envoy = trace.model.startswith("envoy")
        self.model: Model | None = None
        self.left = list(trace.packets)  # that the model has not sent
        self.before = 0  # packets that left the model's outbox

    @property
    def _number(self) -> int:
        """Of the packet that is about to be sent."""
        assert self.model is not None
        return self.before + len(self.model.outbox)

    def uniform(self, a: float, b: float) -> float:
        """The wait for a reply: the trace shows when the packet was sent again, or the lookup ended."""
        packets = sorted(self._trace.packets, key=lambda each: (round(each.at * 20), each.rrtype))
        results = self._trace.results
        if b == BEHIND and self.model is not None:
            # The clock of Node: its first wait does not end after a whole second.
            now = self.model.now
            waits = [each.at - now for each in packets if each.at > now + 0.5]
            if not waits and len(results) == 1:
                waits = [seconds(results[0])]
            return math.ceil(waits[0]) - waits[0] if waits else 0.0
        if (a, b) == (0, 1):  # the part of a second at which a clock of whole seconds began
            return self._phase
        if (a, b) == (
            0,
            ACCURACY,
        ) and self.model is not None:  # a timer of systemd-resolved may end later
            later = [each.at for each in packets if each.at > self.model.now + TIMEOUT - NOISE]
            return min(max(min(later) - self.model.now - TIMEOUT, a), b) if later else b
        if self._number >= len(packets):
            return a  # of a connection that is closed
        assert self.model is not None
        packet = packets[self._number]
        is_last = packet is max(packets, key=lambda each: each.at)
        if packet.action not in ("drop", "hang") or (is_last and results[-1].endswith(WITHOUT_END)):
            return b
        again = [
            each.at
            for each in packets
            if each.name == packet.name and each.rrtype == packet.rrtype and each.at > packet.at
        ]
        if not again and not is_last and not self._is_envoy:
            return a  # the other query ended the lookup
        later = [each.at for each in packets if each.at > packet.at]
        if not again and later and self._is_envoy:  # A begins where AAAA ends
            again = later
        end = again[0] if again else sum(span(results[-1])) - NOISE
        if end - packet.at < a / 2:
            return a  # it was answered
        # Node ends a wait when it looks next, so that the wait itself was shorter.
        assert isinstance(self.model, CAres)
        found = end - packet.at - self.model.tick / 2
        if (
            self._trace.resolver == "aiodns"
        ):  # a thread of its own ends its waits, some of them early
            return min(found, b)
        assert a - 0.02 * b <= found <= b * 1.02 or self.model.tick
        return min(max(found, a), b)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """The server that is next, with `rotate`."""
        if self.model is None:
            return self._trace.packets[0].server if self._trace.packets else 0
        return self._trace.packets[min(self._number, len(self._trace.packets) - 1)].server

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """As above."""
        packets = self._trace.packets
        if isinstance(self.model, Forwarder):
            asking = self.model.asking
            assert asking is not None
            packets = (*(each for each in self.left if each.rrtype == asking.rrtype), *packets)
            first = packets[0].server
        else:
            first = packets[min(self._number, len(packets) - 1)].server
        x[:] = sorted(x, key=lambda each: bool(each != first))


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
    number, ttl, _ = read_action(logged.action)
    form = FORMS.get(logged.rrtype, "t{}.example.com.")
    addresses = tuple(form.format(each) for each in range(1, number + 1))
    return Answer(addresses=addresses, tc=logged.action.startswith("TC"), ttl=ttl)


FORMS = {RRType.A: "192.0.2.{}", RRType.AAAA: "2001:db8::{}"}


def read_action(action: str) -> tuple[int, int, float]:
    """How many records, their TTL, and after how many seconds."""
    found = re.fullmatch(r"[^\d@]*(\d*)(?:/(\d+))?(?:@(\d+))?", action)
    assert found is not None
    return int(found[1] or 0), int(found[2] or 5), int(found[3] or 0) / 1000


def seconds(result: str) -> float:
    if " after " not in result:
        return math.inf
    return int(result.split(" after ")[1].split()[0]) / 1000


def span(result: str) -> tuple[float, float]:
    """When a lookup began, and how long it took."""
    return began(result) or 0.0, seconds(result)


def began(result: str) -> float | None:
    """When a lookup began, if the trace says it."""
    return int(result.split()[2]) / 1000 if " at " in result else None


class Replay:
    """Plays one trace: `pairs` has each packet of the trace with that of the model, `extra` what the trace lacks."""

    def __init__(self, trace: Trace, phase: float = 0.6) -> None:
        self.trace = trace
        self.pairs: list[tuple[Logged, Packet]] = []
        self.results: list[tuple[float, float, Result]] = []  # began, ended
        self.ends: list[float] = []  # as measured
        self.chance = Chance(trace, phase)
        if trace.model in FORWARDERS:
            self.client = Client(trace.conf, self.chance)
            self.client.is_slow = str(trace) in SLOW
            self.model: Model = FORWARDERS[trace.model](
                trace.conf, self.chance, self.client, BETWEEN
            )
        else:
            self.model = MODELS[trace.model](trace.conf, self.chance)
        self.chance.model = self.model
        self.model.has_ipv6 = trace.scenario != "v4"
        self._left = list(trace.packets)
        self._pool: list[Packet] = []
        order = OVERTAKEN.get(str(trace), "").split() or range(len(self._left))
        self._left = self.chance.left = [self._left[int(each)] for each in order]
        self._closed: set[str] = set()
        for number, result in enumerate(trace.results):
            at = began(result)
            if trace.scenario.startswith("cache"):
                at = 8.0 * number
            first = self._left[0].at if self._left else 0.0
            self.ends.append(seconds(result) + (first if at is None else at))
            if number and trace.resolver in ONE_EACH:
                old = self.model
                self.model = self.chance.model = old.__class__(trace.conf, self.chance)
                for kind in ("now", "_qids", "_udp_ports", "_tcp_ports"):
                    setattr(self.model, kind, getattr(old, kind))
            if trace.model in FORWARDERS:
                self.client.is_late = str(number) in LATER.get(str(trace), "").split()
            limit = span(result)[1] if result.endswith(WITHOUT_END) else math.inf
            if self._left and at is not None and number:  # it is when the recorder read of it
                at = min(self._left[0].at, at)
            self._lookup(self.model.now if at is None else max(at, self.model.now), limit)
        last = max(began + long for began, long in map(span, trace.results))
        # A thread goes on with a lookup that its program has given up.
        self.missing = [each for each in self._left if each.at <= last]
        self.extra = [each for each in self._pool if each.port not in self._closed]

    def _lookup(self, began: float, limit: float) -> None:
        model = self.model
        model.now = began
        lookup = model.lookup(self.trace.asked, self.trace.types)
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
                    if self.trace.scenario == "lame" and packet.edns and answer is not None:
                        answer = answer._replace(is_lame=False)  # it has an OPT record
                    delay = DELAYS.get(self.trace.scenario, (0.0, 0.0))[logged.server]
                    delay += read_action(logged.action)[2]
                    if answer is not None:
                        arriving.append((model.now + delay, (packet, answer)))
                elif arriving and (deadline is None or arriving[0][0] <= deadline):
                    model.now = arriving[0][0]
                elif deadline is None or deadline > began + limit:
                    self.results.append((began, model.now, Result((), STILL_WAITING, "")))
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
        for number, logged in enumerate(self._left[:NEXT]):
            for packet in self._pool:
                if (packet.transport, packet.server, packet.rrtype, packet.name) == (
                    logged.transport, logged.server, logged.rrtype, logged.name,
                ):  # fmt: skip
                    self._left.pop(number)
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
def test_same(trace: Trace) -> None:
    replay = Replay(trace)
    if trace.scenario in WHOLE_SECONDS:
        tried = (Replay(trace, each / 10) for each in range(10))
        replay = next((each for each in tried if not (each.missing or each.extra)), replay)
    check_packets(trace, replay)
    check_results(trace, replay)
    check_times(trace, replay)


def check_packets(trace: Trace, replay: Replay) -> None:
    assert not replay.missing
    assert len(replay.extra) == int(UNREAD.get(str(trace), 0))
    for logged, packet in replay.pairs:
        assert flags(packet) == logged.flags
    for kind in ("port", "qid"):
        # The sockets of a host have another address for each server.
        pairs = {
            ((logged.server, getattr(logged, kind)), (packet.server, getattr(packet, kind)))
            for logged, packet in replay.pairs
        }
        assert len({each for each, _ in pairs}) == len(pairs) == len({each for _, each in pairs})


def check_results(trace: Trace, replay: Replay) -> None:
    for text, (_, _, result) in zip(trace.results, replay.results, strict=True):
        expected = text.partition(": ")[2]
        if re.match("Address:|Non-authoritative", expected):  # nslookup says no more
            expected = NO_ANSWER
        v6 = sum(":" in address for address in result.addresses)
        count = len(result.addresses)
        if result.error == STILL_WAITING:
            assert expected.endswith(WITHOUT_END)
        elif trace.resolver in OWN_WORDS and result.error:
            assert not re.match(r"[\da-f.:]+$|\d+ values|t1", expected)
        elif trace.resolver == "java" and result.error:
            own = f"UnknownHostException {trace.asked}"
            assert expected in (own, f"{own}: {result.error}")
        elif result.error:
            assert result.error in expected
        elif trace.resolver in ONE_ADDRESS and not expected.startswith("wget"):
            assert ip_address(expected) in map(ip_address, result.addresses)
        elif " values" in expected or " records" in expected or re.fullmatch(r"[\d+]+", expected):
            assert re.split(" (?:values|records)", expected)[0] in (
                str(count),
                f"{count - v6}+{v6}",
            )
        elif not expected.startswith("wget: can't connect"):
            assert len(expected.split()) == count


def check_times(trace: Trace, replay: Replay) -> None:
    began: dict[float, float] = {}  # when a burst began: in the model, and as it was measured
    for logged, packet in replay.pairs:
        began[packet.at] = min(logged.at, began.get(packet.at, logged.at))
    for text, (_, end, _), measured in zip(trace.results, replay.results, replay.ends, strict=True):
        if "still waiting" not in text:
            began.setdefault(end, measured)
    late = [measured - modelled for modelled, measured in sorted(began.items())]
    assert all(seconds(each) <= TOLERANCE for each in trace.known)
    # Each wait ended late by some milliseconds, which add up.
    assert all(abs(b - a) <= TOLERANCE for a, b in pairwise(late))
