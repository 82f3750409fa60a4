"""Which lines are kept, which are lost, and how that is reported."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from hsdns.metrics import Registry
from hsdns.server.query_log import LogWriter, QueuedStream, queued_output, sink_of


def report(number: int) -> bytes:
    verb = "line of the log was" if number == 1 else "lines of the log were"
    return (
        f"[WARNING] {number} {verb} dropped because the output was not read or was full\n".encode()
    )


def lines_of(*numbers: int) -> bytes:
    return b"".join(b"%d\n" % number for number in numbers)


def put_all(queue: LogWriter, *numbers: int) -> None:
    for number in numbers:
        queue.write(0, lines_of(number))


@pytest.mark.parametrize(
    ("max_lines", "max_octets"),
    [pytest.param(4, 1000, id="lines"), pytest.param(1000, 8, id="octets")],
)
def test_a_line_is_refused_before_it_is_made_until_half_of_the_queue_is_free(
    max_lines: int, max_octets: int
) -> None:
    queue = LogWriter((), max_lines, max_octets)
    put_all(queue, 1, 2, 3, 4)
    assert (queue.refuses(), queue.lost) == (False, 0), "nothing was lost so far"
    put_all(queue, 5)
    assert (queue.refuses(), queue.lost) == (True, 2)
    assert (queue.refuses(0), queue.refuses(7), queue.lost) == (True, True, 9)
    queue.take()
    assert (queue.refuses(), queue.lost) == (False, 9)
    put_all(queue, 6)
    assert queue.take().data == report(9) + lines_of(6)


@pytest.mark.parametrize(
    ("written", "lost"),
    [pytest.param(0, 3, id="nothing"), pytest.param(2, 2, id="a-line"), pytest.param(3, 2, id="within-a-line")],
)  # fmt: skip
def test_lines_that_could_not_be_written_are_reported_with_the_next(
    written: int, lost: int
) -> None:
    queue = LogWriter(())
    put_all(queue, 1, 2, 3)
    queue.fail(queue.take(), written)
    assert not queue.has_waiting, "it would be tried without end"
    put_all(queue, 4)
    chunk = queue.take()
    assert chunk.data == report(lost) + lines_of(4)
    queue.fail(chunk, 0)
    put_all(queue, 5)
    assert queue.take().data == report(lost + 1) + lines_of(5), "what was not reported still is"
    assert queue.lost == lost + 1


TIMEOUT = 10.0  # seconds; only a test that fails takes them


class Stalling:
    """A sink that takes nothing until it is told to."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.called = threading.Event()
        self.written = b""

    def __call__(self, data: bytes) -> int:
        self.called.set()
        self.goes_on.wait(TIMEOUT)
        self.written += data
        return len(data)


class Failing:
    """A sink with a script: how many octets it takes, or the error that it raises; after that it takes all."""

    def __init__(self, *script: int | Exception) -> None:
        self.script = list(script)
        self.written = b""

    def __call__(self, data: bytes) -> int:
        step = self.script.pop(0) if self.script else len(data)
        if isinstance(step, Exception):
            raise step
        self.written += data[:step]
        return len(data[:step])


@contextlib.contextmanager
def started(sink: Callable[[bytes], int], *bounds: int) -> Iterator[LogWriter]:
    writer = LogWriter([sink], *bounds)
    writer.start()
    yield writer
    assert writer.close(TIMEOUT)


def test_a_sink_that_stalls_holds_up_no_other_thread() -> None:
    sink = Stalling()
    with started(sink, 10, 1000) as writer:
        writer.write(0, b"first\n")
        assert sink.called.wait(TIMEOUT)
        for number in range(100):
            writer.write(0, b"%d\n" % number)
        assert writer.lost == 90
        sink.goes_on.set()
    lines = sink.written.decode().splitlines()
    assert lines == [
        "first",
        *map(str, range(10)),
        "[WARNING] 90 lines of the log were dropped because the output was not read or was full",
    ]


@pytest.mark.parametrize(
    ("sink", "written"),
    [
        pytest.param(Failing(3, 1), b"[INFO] a\n[INFO] b\n", id="in-pieces"),
        pytest.param(Failing(OSError(28, "No space left on device")), b"[WARNING] 1 line", id="full-disk"),
        pytest.param(Failing(BrokenPipeError(32, "Broken pipe")), b"[WARNING] 1 line", id="closed-pipe"),
        pytest.param(Failing(ValueError("I/O operation on closed file")), b"[WARNING] 1 line", id="closed-stream"),
        pytest.param(Failing(3, OSError(28, "No space left on device")), b"[IN\n[WARNING] 1 line", id="full-within-a-line"),
    ],
)  # fmt: skip
def test_errors_of_a_sink(sink: Failing, written: bytes) -> None:
    metrics = Registry()
    with started(sink) as writer:
        writer.count_in(metrics)
        writer.write(0, b"[INFO] a\n")
        assert writer._changed.acquire(timeout=TIMEOUT)
        writer._changed.wait_for(lambda: not writer.has_waiting and not writer._is_writing, TIMEOUT)
        writer._changed.release()
        writer.write(0, b"[INFO] b\n")
    assert sink.written.startswith(written)
    assert sink.written.endswith(b"\n[INFO] b\n")
    metrics.fold()
    metrics.fold()
    assert metrics.counter("hsdns_log_drops_total").values == {(): writer.lost}
    assert writer.lost == (b"WARNING" in written)


async def test_all_that_python_writes_goes_through_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    def fail() -> None:
        raise ValueError("of a thread")

    with queued_output() as writer:
        assert type(sys.stdout) is type(sys.stderr) is QueuedStream
        sys.stdout.write("printed")
        sys.stdout.write(" in pieces\n")
        sys.stdout.write("without an end")
        sys.stdout.flush()
        monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        monkeypatch.setattr(logging.getLogger("asyncio"), "propagate", False)
        asyncio.get_running_loop().call_exception_handler({"message": "of the loop"})
        sys.excepthook(ValueError, ValueError("of all"), None)
        assert writer.lost == 0
    assert not any(isinstance(stream, QueuedStream) for stream in (sys.stdout, sys.stderr))
    assert out.getvalue() == "printed in pieces\nwithout an end"
    for part in ("ValueError: of a thread", "of the loop", "ValueError: of all"):  # fmt: skip
        assert part in err.getvalue()


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(writing, "w") as stream, open(reading, "rb") as reader:
        filled = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                filled += os.write(writing, b"\n" * 4096)
        with started(sink_of(stream)) as writer:
            writer.write(0, b"the last line\n")
            assert reader.read(filled) == b"\n" * filled
            assert reader.readline() == b"the last line\n"


def test_a_stream_of_a_process_without_that_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with queued_output():
        sys.stdout.write("to nothing\n")
        assert not sys.stdout.isatty()
        with pytest.raises(OSError, match="fileno"):
            sys.stdout.fileno()
