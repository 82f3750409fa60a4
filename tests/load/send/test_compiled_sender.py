import os
import select
import socket

import pytest

from hsdns.load.outcome import COUNTS, LATENESS, LOST_COUNT, RCODE, Frames, unpack_counts
from hsdns.load.plan import Plan
from hsdns.load.questions import order
from hsdns.load.send.process import PIECE, CompiledSender, available, pieces_of
from tests.load.servers import server

QUERIES = [b"\1\0\0\1\0\0\0\0\0\0\1%c\4test\0\0\1\0\1" % letter for letter in b"abc"]


def plan(port: int, rate: float, seconds: float) -> Plan:
    return Plan(
        family=socket.AF_INET,
        address=("127.0.0.1", port),
        queries=QUERIES,
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
    whole = plan(53, 10_000, 1.5)
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
        asked = plan(port, 2000, 0.1)
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
def test_it_ends_when_it_is_told_to_or_nobody_listens() -> None:
    reading, writing = os.pipe()
    stop, stopping = os.pipe()
    os.set_blocking(writing, False)
    os.close(stopping)
    with server() as port:
        CompiledSender(plan(port, 10, 1e6), [1, 2, 3]).run(0, stop, writing)
        assert not select.select([reading], [], [], 0)[0]
    stop_too, stopping = os.pipe()
    os.close(reading)
    with server() as port:
        CompiledSender(plan(port, 1000, 1e4), [1, 2, 3]).run(0, stop_too, writing)
    for each in (stop, stop_too, stopping, writing):
        os.close(each)
