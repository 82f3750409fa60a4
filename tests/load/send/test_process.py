"""Loads in the process that sends; none takes more than 0.2 s."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from hsdns.descriptor_limit import descriptor_limit, raise_limit
from hsdns.load.errors import LoadError
from hsdns.load.outcome import (
    CONNECTIONS,
    COUNTS,
    END,
    ENDS,
    FOUND,
    LATENESS,
    LOOKUPS,
    LOST_COUNT,
    OUTCOMES,
    QUESTION,
    RCODE,
    REPLY,
    Frames,
    Lookup,
    Outcome,
    unpack_counts,
    unpack_lookups,
    unpack_outcomes,
    unpack_question,
)
from hsdns.load.plan import DOH, DOT, GET, TCP, Plan, StreamPlan
from hsdns.load.questions import order
from hsdns.load.results import ConnectionsReport
from hsdns.load.send.process import PIECE, CompiledSender, SenderProcess, available, pieces_of
from hsdns.load.send.sockets import maker
from hsdns.load.send.udp import LEAST_WINDOW
from hsdns.wire.decode_reply import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.process import memory_of
from tests.load.pod_plans import plan as pod_plan
from tests.load.servers import answer, server
from tests.load.stream_servers import NAME, Ports, hsdns

QUERY = b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1"


def plan(port: int, seconds: float) -> Plan:
    return Plan(
        socket.AF_INET,
        ("127.0.0.1", port),
        [QUERY],
        [],
        1,
        [(seconds, 200.0, 200.0)],
        "even",
        1,
        1_000_000_000,
        2,
        True,
    )


def take(process: SenderProcess) -> tuple[list[Outcome], list[bytes]]:
    outcomes: list[Outcome] = []
    replies: list[bytes] = []
    while True:
        for kind, content in process.messages(10.0):
            if kind == OUTCOMES:
                outcomes += [Outcome(*each) for each in unpack_outcomes(content)]
            elif kind == REPLY:
                replies.append(content[8:])
            elif kind == END:
                return outcomes, replies


def start(process: SenderProcess) -> int:
    process.prepare()
    begin = time.monotonic_ns() + 10_000_000
    process.start(begin)
    return begin


@pytest.mark.sockets
@pytest.mark.slow
def test_a_plan_is_carried_out() -> None:
    with server() as port, SenderProcess(plan(port, 0.05)) as process:
        begin = start(process)
        outcomes, replies = take(process)
    planned = sorted(each.planned - begin for each in outcomes)
    assert planned == [at * 5_000_000 for at in range(10)]
    assert all(each.planned <= each.sent < each.received for each in outcomes)
    assert {(each.flags, each.reply, each.question) for each in outcomes} == {(0x8400, 1, 0)}
    assert replies == [answer(b"\0\0" + QUERY)[2:]]


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes have no affinity here")
def test_one_that_is_alone_shares_no_processor_with_this_process() -> None:
    before = os.sched_getaffinity(0)
    with server() as port, SenderProcess(plan(port, 0.05), is_alone=True) as process:
        own, others = os.sched_getaffinity(process.pid), os.sched_getaffinity(0)
        assert own | others == before
        assert not own & others or len(before) == 1
        start(process)
        outcomes, _ = take(process)
    assert len(outcomes) == 10
    assert os.sched_getaffinity(0) == before


@pytest.mark.sockets
@pytest.mark.slow
def test_signals_to_its_group_do_not_end_it() -> None:
    with server() as port, SenderProcess(plan(port, 0.05)) as process:
        process.prepare()
        for each in (signal.SIGINT, signal.SIGTERM):
            os.kill(process.pid, each)
        process.start(time.monotonic_ns() + 10_000_000)
        outcomes, _ = take(process)
    assert len(outcomes) == 10


@pytest.mark.sockets
@pytest.mark.slow
def test_it_ends_when_it_is_told_to() -> None:
    with server() as port, SenderProcess(plan(port, 60.0)) as process:
        start(process)
        process.stop()
        outcomes, _ = take(process)
    assert len(outcomes) < 2000


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
        many = structs.replace(plan(port, 0.05), sockets=1100, window=LEAST_WINDOW)
        with SenderProcess(many) as process:
            start(process)
            memory = memory_of(Path(f"/proc/{process.pid}/status").read_text())
            outcomes, _ = take(process)
    assert [each.received > each.sent for each in outcomes] == [True] * 10
    assert memory.peak < 150 << 20


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


def load(
    ports: Ports, streams: StreamPlan, queries: list[Query] = QUERIES
) -> tuple[list[Outcome], dict[int, bytes], ConnectionsReport]:
    port = {TCP: ports.tcp, DOT: ports.dot, DOH: ports.doh}[streams.transport]
    plan = Plan(
        socket.AF_INET,
        ("127.0.0.1", port),
        [encode_query(each, 0)[2:] for each in queries],
        [],
        1,
        [(0.1, 200.0, 200.0)],
        "even",
        1,
        5_000_000_000,
        1,
        True,
        streams=streams,
    )
    outcomes: list[Outcome] = []
    replies: dict[int, bytes] = {}
    counts = ConnectionsReport()
    with SenderProcess(plan) as process:
        process.prepare()
        process.start(time.monotonic_ns() + 20_000_000)
        is_over = False
        while not is_over:
            for kind, content in process.messages(10.0):
                if kind == OUTCOMES:
                    outcomes += [Outcome(*each) for each in unpack_outcomes(content)]
                elif kind == REPLY:
                    replies[int.from_bytes(content[4:8], "big")] = b"\0\0" + content[8:]
                elif kind == CONNECTIONS:
                    counts.add(content)
                is_over |= kind == END
    return outcomes, replies, counts


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("queries", [0, 1, 6])
@pytest.mark.parametrize(
    "streams", [StreamPlan(TCP), StreamPlan(DOT), StreamPlan(DOH), StreamPlan(DOH, method=GET)]
)
def test_a_load(ports: Ports, streams: StreamPlan, queries: int) -> None:
    ca = str(ports.certificate.cert) if streams.is_encrypted else ""
    name = NAME if streams.is_encrypted else ""
    plan = msgspec.structs.replace(
        streams, connections=4, queries=queries, tls_ca=ca, tls_name=name
    )
    outcomes, replies, counts = load(ports, plan)
    assert len(outcomes) == 20
    assert (
        sorted((each.question, each.flags & 15) for each in outcomes)
        == [(0, 0)] * 10 + [(1, 3)] * 10
    )
    assert all(each.planned <= each.sent < each.received for each in outcomes)
    for number, rcode in enumerate((Rcode.NOERROR, Rcode.NXDOMAIN)):
        reply = decode_reply(replies[number], QUERIES[number])
        assert (reply.rcode, reply.aa, reply.ra, reply.tc) == (rcode, True, False, False)
        assert [(each.rrtype, each.ttl) for each in reply.answer] == [(RRType.A, 5)] * (not number)
        assert [each.rrtype for each in reply.authority] == [RRType.SOA] * number
        assert not reply.additional
    assert (counts.not_opened, counts.without_answer, counts.late, counts.asked_again) == (
        {},
        {},
        0,
        0,
    )
    assert counts.opened == {0: 4, 1: 20, 6: 4}[queries]
    assert counts.open == 0


@pytest.mark.sockets
@pytest.mark.slow
def test_a_certificate_for_another_name(ports: Ports) -> None:
    plan = StreamPlan(DOT, connections=1, tls_ca=str(ports.certificate.cert), tls_name="other.test")
    outcomes, _, counts = load(ports, plan)
    assert {each.received for each in outcomes} == {0}
    assert list(counts.not_opened) == [
        "TLS: Hostname mismatch, certificate is not valid for 'other.test'"
    ]


@pytest.mark.sockets
@pytest.mark.slow
def test_another_path(ports: Ports) -> None:
    outcomes, _, counts = load(
        ports, StreamPlan(DOH, connections=1, tls_insecure=True, path="/dns")
    )
    assert {each.received for each in outcomes} == {0}
    assert (counts.without_answer, counts.opened) == ({"HTTP status 404": 20}, 1)


def test_files_are_read_at_once(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"^-tls-ca: there is no file "):
        maker(StreamPlan(DOT, tls_ca=str(tmp_path / "none")), ("127.0.0.1", 853))


@pytest.mark.sockets
@pytest.mark.slow
def test_truncated_answers_are_asked_again_over_tcp(tmp_path: Path) -> None:
    """A headless Service with 60 endpoints does not fit into 512 octets."""
    with hsdns(tmp_path, "synthetic", "services=2", "endpoints=60", "headless=1") as ports:
        name = Name.from_text("svc-1.ns-0.svc.cluster.local.")
        truncated = [Query.ask(name, RRType.A)]
        outcomes, _, counts = load(ports, StreamPlan(TCP, 2, queries=5, for_truncated=True), truncated)  # fmt: skip
    assert len(outcomes) == 20
    assert {each.flags for each in outcomes} == {0x8500}
    assert all(each.planned <= each.sent < each.received for each in outcomes)
    assert (counts.fell, counts.opened, counts.asked_again, counts.not_opened) == (20, 4, 0, {})


SECONDS, RATE = 0.1, 200.0


@pytest.mark.sockets
@pytest.mark.slow
def test_lookups_are_carried_out() -> None:
    lookups: list[Lookup] = []
    outcomes: list[Outcome] = []
    questions: list[str] = []
    with server() as port:
        asked = Plan(
            socket.AF_INET, ("127.0.0.1", port), [], [], 1, [(SECONDS, RATE, RATE)], "even", 1, 5 * 10**9, 3, True,
            pods=pod_plan(resolvers={"musl": 1}),
        )  # fmt: skip
        with SenderProcess(asked) as process:
            process.prepare()
            begin = time.monotonic_ns() + 50_000_000
            process.start(begin)
            is_over = False
            while not is_over:
                for kind, content in process.messages(10.0):
                    is_over |= kind == END
                    if kind == LOOKUPS:
                        lookups += unpack_lookups(content)
                    elif kind == OUTCOMES:
                        outcomes += [Outcome(*each) for each in unpack_outcomes(content)]
                    elif kind == QUESTION:
                        questions.append(unpack_question(content)[1].name.to_text())
    assert sorted(each.planned - begin for each in lookups) == [at * 5_000_000 for at in range(20)]
    assert {(ENDS[each.end], each.queries, each.wasted, each.again) for each in lookups} == {(FOUND, 2, 0, 0)}  # fmt: skip
    assert len(outcomes) == 40
    assert all(each.planned <= each.sent <= each.received for each in outcomes)
    assert set(questions) == {"web.shop.svc.cluster.local."}


THREE = [b"\1\0\0\1\0\0\0\0\0\0\1%c\4test\0\0\1\0\1" % letter for letter in b"abc"]


def counted_plan(port: int, rate: float, seconds: float) -> Plan:
    return Plan(
        family=socket.AF_INET,
        address=("127.0.0.1", port),
        queries=THREE,
        weights=[1, 2, 3],
        seed=4,
        stages=[(seconds, rate, rate)],
        arrival="poisson",
        burst=1,
        timeout=5_000_000_000,
        sockets=3,
        replies=False,
        kinds=[0, 0, 1],
    )


def test_pieces_are_the_schedule_and_the_order() -> None:
    whole = counted_plan(53, 10_000, 1.5)
    pieces = list(pieces_of(whole))
    assert [len(times) for times, _ in pieces[:-1]] == [PIECE] * (len(pieces) - 1)
    times = [time for piece, _ in pieces for time in piece]
    numbers = [number for _, piece in pieces for number in piece]
    expected = order(3, whole.weights, 4)
    assert times == list(whole.schedule.times())
    assert numbers == [next(expected) for _ in times]


@pytest.mark.skipif(not available(), reason="the compiled sender is not built")
@pytest.mark.sockets
@pytest.mark.slow
def test_a_plan_is_carried_out_and_counted() -> None:
    reading, writing = os.pipe()
    stop, stopping = os.pipe()
    os.set_blocking(writing, False)
    with server() as port:
        asked = counted_plan(port, 2000, 0.1)
        CompiledSender(asked, [65_530, 7, 8]).run(0, stop, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        messages = list(Frames().feed(told.read()))
    os.close(stop)
    os.close(stopping)
    due = len(list(asked.schedule.times()))
    assert {kind for kind, _ in messages} == {COUNTS}
    counts = [row for _, content in messages for row in unpack_counts(content)]
    assert sum(count for what, *_, count in counts if what == LATENESS) == due
    assert sum(count for what, *_, count in counts if what in (RCODE, LOST_COUNT)) == due


@pytest.mark.skipif(not available(), reason="the compiled sender is not built")
@pytest.mark.sockets
def test_the_compiled_sender_ends_when_it_is_told_to_or_nobody_listens() -> None:
    reading, writing = os.pipe()
    stop, stopping = os.pipe()
    os.set_blocking(writing, False)
    os.close(stopping)
    with server() as port:
        CompiledSender(counted_plan(port, 10, 1e6), [1, 2, 3]).run(0, stop, writing)
        assert not select.select([reading], [], [], 0)[0]
    stop_too, stopping = os.pipe()
    os.close(reading)
    with server() as port:
        CompiledSender(counted_plan(port, 1000, 1e4), [1, 2, 3]).run(0, stop_too, writing)
    for each in (stop, stop_too, stopping, writing):
        os.close(each)
