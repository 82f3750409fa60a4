"""Loads in the process that sends; none takes more than 0.2 s."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import pytest
from msgspec import msgpack, structs

from hsdns.fastpath import LoadSender
from hsdns.limits import descriptor_limit, raise_limit
from hsdns.load.counters import FOUND, ConnectionsReport, LookupsReport, add, decode
from hsdns.load.errors import LoadError
from hsdns.load.outcome import (
    CONNECTIONS,
    END,
    LOOKUPS,
    OUTCOMES,
    QUESTION,
    REPLY,
    Outcome,
    unpack_outcomes,
    unpack_question,
)
from hsdns.load.plan import DOH, DOT, GET, TCP, Plan, StreamPlan
from hsdns.load.pods import Target
from hsdns.load.questions import order
from hsdns.load.schedule import POISSON, Schedule, Stage
from hsdns.load.send import process
from hsdns.load.send.probe import probe
from hsdns.load.send.process import (
    PIECE,
    CompiledSender,
    SenderProcess,
    _pod_sender,
    framed,
    pieces_of,
)
from hsdns.load.send.processors import NONE, Choice, OwnProcessor, read_busy
from hsdns.load.send.udp import LEAST_WINDOW
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.process import memory_of
from tests.load.clusters import plan as pod_plan
from tests.load.servers import NAME, Ports, answer, hsdns, server

QUERY = b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1"


def plan(port: int, seconds: float = 0.05, **changes: object) -> Plan:
    schedule = Schedule((Stage(seconds, 200.0, 200.0),), seed=1)
    of = Plan(socket.AF_INET, ("127.0.0.1", port), [QUERY], [], schedule, 5_000_000_000, 2, True)
    return structs.replace(of, **changes)


class Told:
    """What a process tells, on a machine that may delay it; replies by the number of their question."""

    def __init__(self, of: Plan, *, stops: bool = False, cpu: str = NONE) -> None:
        self.outcomes: list[Outcome] = []
        self.replies: dict[int, bytes] = {}
        self.lookups = LookupsReport()
        self.questions: set[str] = set()
        self.connections = ConnectionsReport()
        with SenderProcess(of, cpu) as sending:
            sending.prepare()
            self.affinity = (
                os.sched_getaffinity(sending.process.pid) if sys.platform == "linux" else set()
            )
            self.memory = memory_of(Path(f"/proc/{sending.process.pid}/status").read_text())
            self.begin = time.monotonic_ns() + 20_000_000
            sending.start(self.begin)
            if of.pods is not None:
                sending.tell({"web.shop.svc.cluster.local": {}})
            for each in (signal.SIGINT, signal.SIGTERM):  # those to its group do not end it
                os.kill(sending.process.pid, each)
            if stops:
                sending.stop()
            is_over = False
            while not is_over:
                for kind, content in sending.messages(10.0):
                    is_over |= kind == END
                    self.take(kind, content)

    def take(self, kind: bytes, content: bytes) -> None:
        if kind == OUTCOMES:
            found = (Outcome(*each) for each in unpack_outcomes(content))
            self.outcomes += [each._replace(flags=each.flags & 0xFFFF) for each in found]
        elif kind == REPLY:
            self.replies[int.from_bytes(content[4:8], "big")] = b"\0\0" + content[8:]
        elif kind == LOOKUPS:
            add(self.lookups, decode(content, LookupsReport))
        elif kind == QUESTION:
            self.questions.add(unpack_question(content)[1].name.to_text())
        elif kind == CONNECTIONS:
            add(self.connections, decode(content, ConnectionsReport))


@pytest.mark.sockets
@pytest.mark.slow
def test_a_plan_is_carried_out() -> None:
    """One with a processor shares it with no thread of this process."""
    before = os.sched_getaffinity(0) if sys.platform == "linux" else set()
    with server() as port:
        told = Told(plan(port), cpu=str(max(before)) if before else NONE)
    planned = sorted(each.planned - told.begin for each in told.outcomes)
    assert planned == [at * 5_000_000 for at in range(10)]
    assert all(each.planned <= each.sent <= each.received for each in told.outcomes)
    assert {(each.flags, each.reply, each.question) for each in told.outcomes} == {(0x8400, 1, 0)}
    assert told.replies == {0: answer(b"\0\0" + QUERY)}
    if before:
        assert os.sched_getaffinity(0) == before
        assert told.affinity == {max(before)}


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STUCK", 0.0)
    with SenderProcess(plan(1)) as sending:
        sending.process.send_signal(signal.SIGSTOP)
        sending.stop()
        assert sending.process.poll() is None
        sending.stop()
        assert sending.process.wait() == -signal.SIGKILL
        assert [*sending.messages(None)] == [(END, b"")]


STAT = """cpu  30 0 0 900 0 0 0 0 0 0
cpu0 10 5 5 100 0 7 9 0 0 0
cpu12 1 2 3 400 0 0 0 0 0 0
intr 5 6
"""


def test_the_idlest_processor() -> None:
    """It is left when others take more than a tenth of it, and one has less than half of that."""
    assert read_busy(STAT) == {0: 20, 12: 6}
    choice = Choice({0, 1, 2})
    found = []
    # Ticks of the processors, of the process itself, and how many there were.
    for first, second, third, own, ticks in (
        (5, 5, 50, 0, 0),
        (9, 5, 51, 0, 10),  # the second has done nothing
        (9, 105, 60, 95, 110),  # the process itself, and others for 5 ticks
        (109, 205, 150, 175, 210),  # all are taken: for 100, 20 and 90 ticks
        (209, 305, 150, 195, 310),  # the third is free
    ):
        moved = choice.look({0: first, 1: second, 2: third}, own, ticks)
        found.append((moved, choice.chosen))
    assert found == [(False, None), (True, 1), (False, 1), (False, 1), (True, 2)]
    with pytest.raises(LoadError, match="--cpu 9999: the processors of this process are "):
        OwnProcessor(os.getpid(), "9999")


@pytest.mark.sockets
def test_agents_hear_of_changes() -> None:
    asked, (out, into), told = pod_plan(through="istio"), os.pipe(), {"a.b.svc.c": {"": ["::1"]}}
    with FileIO(out) as stdin, FileIO(into, "w") as parent:
        sender = _pod_sender(plan(53, sockets=0), asked, stdin.fileno(), lambda octets: None)
        parent.write(framed(msgpack.encode(told)))
        assert (sender.wait(0), asked.registry) == ([], told)
        parent.close()
        assert sender.wait(0) is None


@pytest.mark.sockets
@pytest.mark.slow
def test_it_ends_when_it_is_told_to() -> None:
    with server() as port:
        assert len(Told(plan(port, 60.0), stops=True).outcomes) < 2000


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("extensions", ["0", "1"])
def test_more_sockets_than_select_takes(monkeypatch: pytest.MonkeyPatch, extensions: str) -> None:
    """Their memory goes by the window: before there was one, 1,100 sockets took 2.7 GB."""
    raise_limit()
    if descriptor_limit() < 1200:
        pytest.skip("a process may not have so many descriptors here")
    monkeypatch.setenv("HSDNS_NO_EXTENSIONS", extensions)
    with server() as port:
        told = Told(plan(port, sockets=1100, window=LEAST_WINDOW))
    assert [each.received >= each.sent for each in told.outcomes] == [True] * 10
    assert told.memory.peak < 150 << 20


QUERIES = [
    Query.ask(Name.from_text(f"{name}.ns-0.svc.cluster.local."), RRType.A)
    for name in ("svc-0", "none")
]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with hsdns(
        tmp_path_factory.mktemp("hsdns"), "synthetic", "services=1", "endpoints=1", "headless=0"
    ) as found:
        yield found


def load(ports: Ports, streams: StreamPlan, queries: list[Query] = QUERIES) -> Told:
    port = {TCP: ports.tcp, DOT: ports.dot, DOH: ports.doh}[streams.transport]
    octets = [encode_query(each, 0)[2:] for each in queries]
    return Told(plan(port, 0.1, queries=octets, sockets=1, streams=streams))


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("queries", [0, 1, 6])
@pytest.mark.parametrize(
    "streams", [StreamPlan(TCP), StreamPlan(DOT), StreamPlan(DOH), StreamPlan(DOH, method=GET)]
)
def test_a_load(ports: Ports, streams: StreamPlan, queries: int) -> None:
    streams = structs.replace(streams, connections=4, queries=queries)
    if streams.is_encrypted:
        streams = structs.replace(streams, tls_ca=str(ports.certificate.cert), tls_name=NAME)
    told = load(ports, streams)
    rcodes = sorted((each.question, each.flags & 15) for each in told.outcomes)
    assert rcodes == [(0, 0)] * 10 + [(1, 3)] * 10
    assert all(each.planned <= each.sent <= each.received for each in told.outcomes)
    for number, rcode in enumerate((Rcode.NOERROR, Rcode.NXDOMAIN)):
        reply = decode_reply(told.replies[number], QUERIES[number])
        assert (reply.rcode, reply.aa, reply.ra, reply.tc) == (rcode, True, False, False)
        assert [(each.rrtype, each.ttl) for each in reply.answer] == [(RRType.A, 5)] * (not number)
        assert [each.rrtype for each in reply.authority] == [RRType.SOA] * number
        assert not reply.additional
    counts = told.connections
    assert (counts.not_opened, counts.without_answer) == ({}, {})
    assert (counts.late, counts.asked_again, counts.open) == (0, 0, 0)
    assert counts.opened == {0: 4, 1: 20, 6: 4}[queries]


OTHER = "certificate is not valid for"


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("streams", "trusts", "port", "reason"),
    [
        (StreamPlan(DOT, tls_name="other.test"), True, DOT, f"Hostname mismatch, {OTHER} 'other.test'; check --tls-ca "),
        (StreamPlan(DOT), True, DOT, f"IP address mismatch, {OTHER} '127.0.0.1'; check --tls-ca "),
        (StreamPlan(DOT, tls_name=NAME), False, DOT, "self-signed certificate; check --tls-ca "),
        (StreamPlan(DOH, tls_name=NAME), True, DOT, "the server does not choose h2 (ALPN); check --server"),
        (StreamPlan(DOH, tls_name=NAME, path="/dns"), True, DOH, "HTTP status 404; check --doh-path and --doh-method"),
    ],
)  # fmt: skip
def test_what_does_not_agree(
    ports: Ports, streams: StreamPlan, trusts: bool, port: str, reason: str
) -> None:
    """The probe before the load says it in a sentence, the load counts it."""
    number = ports.dot if port == DOT else ports.doh
    streams = structs.replace(streams, tls_ca=str(ports.certificate.cert) if trusts else "")
    with pytest.raises(LoadError) as error:
        probe(socket.AF_INET, ("127.0.0.1", number), QUERIES[0], 0.0, streams=streams)
    assert reason in str(error.value)
    told = Told(plan(number, streams=streams, sockets=1, seconds=0.02))
    assert {each.received for each in told.outcomes} == {0}
    counts = told.connections
    (why,) = counts.without_answer or counts.not_opened
    assert why.removeprefix("TLS: ") == reason.partition(";")[0]


@pytest.mark.sockets
@pytest.mark.slow
def test_truncated_answers_are_asked_again_over_tcp(tmp_path: Path) -> None:
    """A headless Service with 60 endpoints does not fit into 512 octets."""
    with hsdns(tmp_path, "synthetic", "services=2", "endpoints=60", "headless=1") as ports:
        name = Name.from_text("svc-1.ns-0.svc.cluster.local.")
        streams = StreamPlan(TCP, 2, queries=5, for_truncated=True)
        told = load(ports, streams, [Query.ask(name, RRType.A)])
        pods = pod_plan(forms={"absolute": 1}, targets=[Target("svc-1", "ns-0", "headless")])
        # glibc asks three times, with larger buffers.
        of_pods = Told(plan(ports.tcp, 0.02, queries=[], pods=pods))
    assert [each.flags for each in told.outcomes] == [0x8500] * 20
    assert all(each.planned <= each.sent <= each.received for each in told.outcomes)
    counts = told.connections
    assert (counts.fell, counts.asked_again, counts.not_opened) == (20, 0, {})
    assert counts.opened >= 4
    whole = of_pods.lookups.whole
    assert (whole.ends, whole.queries, whole.over_tcp) == ({FOUND: 4}, 48, 24)
    assert (len(of_pods.outcomes), of_pods.questions) == (48, {name.to_text()})
    assert all(each.planned <= each.sent <= each.received for each in of_pods.outcomes)


THREE = [b"\1\0\0\1\0\0\0\0\0\0\1%c\4test\0\0\1\0\1" % letter for letter in b"abc"]


def counted_plan(port: int, rate: float, seconds: float) -> Plan:
    return plan(
        port, queries=THREE, weights=[1, 2, 3], schedule=Schedule((Stage(seconds, rate, rate),), POISSON, seed=4), sockets=3,
        replies=False, kinds=[0, 0, 1],
    )  # fmt: skip


def test_pieces_are_the_schedule_and_the_order() -> None:
    whole = counted_plan(53, 10_000, 1.5)
    pieces = list(pieces_of(whole))
    assert [len(times) for times, _ in pieces[:-1]] == [PIECE] * (len(pieces) - 1)
    times = [time for piece, _ in pieces for time in piece]
    numbers = [number for _, piece in pieces for number in piece]
    expected = order(3, whole.weights, 4)
    assert times == list(whole.schedule.times())
    assert numbers == [next(expected) for _ in times]


compiled = pytest.mark.skipif(LoadSender is None, reason="the compiled sender is not built")
Pipes = Sequence[FileIO]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    """The ends of two pipes, of which the second one can be written without waiting."""
    with ExitStack() as stack:
        ends = [FileIO(end, mode) for _ in range(2) for end, mode in zip(os.pipe(), "rw", strict=True)]  # fmt: skip
        os.set_blocking(ends[3].fileno(), False)
        yield [stack.enter_context(each) for each in ends]


def carry_out(asked: Plan, stop: FileIO, writing: FileIO) -> None:
    CompiledSender(asked, [65_530, 7, 8]).run(0, stop.fileno(), writing.fileno())


@compiled
@pytest.mark.sockets
def test_the_compiled_sender_ends_when_nobody_listens(pipes: Pipes) -> None:
    stop, _, reading, writing = pipes
    reading.close()
    with server() as port:
        carry_out(counted_plan(port, 1000, 1e4), stop, writing)
