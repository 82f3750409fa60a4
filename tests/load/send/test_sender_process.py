import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from hsdns.descriptor_limit import descriptor_limit, raise_limit
from hsdns.load.outcome import END, OUTCOMES, REPLY, Outcome, unpack_outcomes
from hsdns.load.plan import Plan
from hsdns.load.send.process import SenderProcess
from hsdns.load.send.sender import LEAST_WINDOW
from loadtest.process import memory_of
from tests.load.servers import answer, server

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
