"""Which lines are kept, which are lost, and how that is reported."""

from __future__ import annotations

import pytest

from hsdns.server.query_log import Chunk, LogQueue


def report(number: int) -> bytes:
    verb = "line of the log was" if number == 1 else "lines of the log were"
    return (
        f"[WARNING] {number} {verb} dropped because the output was not read or was full\n".encode()
    )


def lines_of(*numbers: int) -> bytes:
    return b"".join(b"%d\n" % number for number in numbers)


def put_all(queue: LogQueue, *numbers: int) -> None:
    for number in numbers:
        queue.put(0, lines_of(number))


def test_lines_of_one_stream_are_written_together_and_in_order() -> None:
    queue = LogQueue()
    put_all(queue, 1, 2)
    queue.put(1, b"error\n")
    put_all(queue, 3)
    assert [queue.take() for _ in range(3)] == [
        Chunk(0, lines_of(1, 2), 2),
        Chunk(1, b"error\n", 1),
        Chunk(0, lines_of(3), 1),
    ]
    assert not queue


@pytest.mark.parametrize(
    ("max_lines", "max_octets"),
    [pytest.param(4, 1000, id="lines"), pytest.param(1000, 8, id="octets")],
)
def test_what_does_not_fit_is_lost_and_reported_once(max_lines: int, max_octets: int) -> None:
    queue = LogQueue(max_lines, max_octets)
    put_all(queue, *range(7))
    assert queue.lost == 3
    assert queue.take() == Chunk(0, lines_of(0, 1, 2, 3), 4)
    put_all(queue, 7, 8)
    assert queue.take() == Chunk(0, report(3) + lines_of(7, 8), 2, reported=3)
    assert (bool(queue), queue.lost) == (False, 3)


def test_pieces_of_lines_are_limited_in_number_too() -> None:
    """Four million of one octet each took 400 MB."""
    queue = LogQueue(4, 1000)
    for _ in range(6):
        queue.put(0, b"x")
    assert queue.lost == 2
    assert [queue.take().data for _ in range(2)] == [b"xxxx", report(2)]
    assert not queue


def test_after_an_overflow_lines_are_lost_until_half_of_the_queue_is_free() -> None:
    queue = LogQueue(4, 1000)
    for stream, number in enumerate((1, 2, 3, 4, 5)):  # one chunk each
        queue.put(stream, lines_of(number))
    queue.take()
    put_all(queue, 6)
    assert queue.lost == 2
    queue.take(), queue.take()
    put_all(queue, 7)
    assert queue.lost == 2
    assert [queue.take().data for _ in range(2)] == [lines_of(4), report(2) + lines_of(7)]


@pytest.mark.parametrize(
    ("max_lines", "max_octets"),
    [pytest.param(4, 1000, id="lines"), pytest.param(1000, 8, id="octets")],
)
def test_a_line_is_refused_before_it_is_made_until_half_of_the_queue_is_free(
    max_lines: int, max_octets: int
) -> None:
    queue = LogQueue(max_lines, max_octets)
    put_all(queue, 1, 2, 3, 4)
    assert (queue.refuses(), queue.lost) == (False, 0), "nothing was lost so far"
    put_all(queue, 5)
    assert (queue.refuses(), queue.lost) == (True, 2)
    assert (queue.refuses(0), queue.refuses(7), queue.lost) == (True, True, 9)
    queue.take()
    assert (queue.refuses(), queue.lost) == (False, 9)
    put_all(queue, 6)
    assert queue.take().data == report(9) + lines_of(6)


def test_a_loss_is_reported_though_no_line_follows() -> None:
    queue = LogQueue(1, 1000)
    put_all(queue, 1, 2)
    assert queue.take().data == lines_of(1)
    assert queue.take() == Chunk(0, report(1), 0, 1)
    assert not queue


@pytest.mark.parametrize(
    ("written", "lost"),
    [pytest.param(0, 3, id="nothing"), pytest.param(2, 2, id="a-line"), pytest.param(3, 2, id="within-a-line")],
)  # fmt: skip
def test_lines_that_could_not_be_written_are_reported_with_the_next(
    written: int, lost: int
) -> None:
    queue = LogQueue()
    put_all(queue, 1, 2, 3)
    queue.fail(queue.take(), written)
    assert not queue, "it would be tried without end"
    put_all(queue, 4)
    chunk = queue.take()
    assert chunk.data == report(lost) + lines_of(4)
    queue.fail(chunk, 0)
    put_all(queue, 5)
    assert queue.take().data == report(lost + 1) + lines_of(5), "what was not reported still is"
    assert queue.lost == lost + 1


def test_a_line_that_is_longer_than_the_queue_is_lost() -> None:
    queue = LogQueue(10, 100)
    queue.put(0, b"x" * 100 + b"\n")
    put_all(queue, 1)
    assert queue.take().data == report(1) + lines_of(1)
