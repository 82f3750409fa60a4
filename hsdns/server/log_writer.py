"""Standard output and standard error of a running server, written by a thread.

Path: cli/launch.py replaces both streams while it serves; log_queue.py is the queue.
Rule 1: writing to these streams never blocks and never raises, in any thread: a pipe that no process reads, a paused
        terminal or a full disk stops only the writing thread.  The log, tracebacks, warnings and the prints of a
        `python` plugin all go through these two streams.
Rule 2: the queue is written before the process ends, but it waits at most FLUSH_TIMEOUT for this.
Rule 3: a line that was written in part is completed before the next one begins.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TextIO

from hsdns.metrics import Registry
from hsdns.server.log_queue import Chunk, LogQueue

FLUSH_TIMEOUT: Final = 1.0  # seconds
MAX_PARTIAL_LINE: Final = 65_536  # characters without an end of line that are collected

Sink = Callable[[bytes], int]
"""Writes octets and returns how many were written, which may be fewer; raises OSError or ValueError."""


class LogWriter:
    """Writes lines to sinks in a thread of its own, in the order in which they came."""

    def __init__(self, sinks: Sequence[Sink], queue: LogQueue | None = None) -> None:
        self._sinks = sinks
        self._queue = LogQueue() if queue is None else queue
        # Reentrant: a finalizer that runs while the lock is held may write a warning.
        self._changed = threading.Condition(threading.RLock())
        self._is_writing = self._is_closed = False
        self._breaks_off: set[int] = set()  # streams whose last line is incomplete
        self._shown = 0

    @property
    def lost(self) -> int:
        """The number of lines that were not written."""
        return self._queue.lost

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def write(self, stream: int, data: bytes) -> None:
        """Add complete lines to the queue."""
        with self._changed:
            self._queue.put(stream, data)
            self._changed.notify_all()

    def refuses(self, lines: int = 1) -> bool:
        """Count lines as lost if there is no room for them, so that they need not be made."""
        with self._changed:
            return self._queue.refuses(lines)

    def close(self, timeout: float = FLUSH_TIMEOUT) -> bool:
        """Wait until the queue is written, at most `timeout` seconds, and end the thread; return whether it was."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: not self._queue and not self._is_writing, timeout=timeout
            )
            self._is_closed = True
            self._changed.notify_all()
        return done

    def count_in(self, metrics: Registry) -> None:
        """Add the lost lines to a metric before each scrape."""
        counter = metrics.counter(
            "hsdns_log_drops_total",
            "Lines of the log that were dropped because more came than could be written.",
        )

        def count() -> None:
            lost = self.lost
            counter.inc(amount=lost - self._shown)
            self._shown = lost

        metrics.before_collect(count)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._is_closed)
                if self._is_closed:
                    return
                self._is_writing = True
                chunk = self._queue.take()
            written = self._write(chunk)
            if written < len(chunk.data):
                with self._changed:
                    self._queue.fail(chunk, written)

    def _write(self, chunk: Chunk) -> int:
        """Write as much as possible; return the number of octets of the chunk that were written."""
        sink, data, written = self._sinks[chunk.stream], chunk.data, 0
        if chunk.stream in self._breaks_off:
            data, written = b"\n" + data, -1
        try:
            while data:
                count = sink(data)
                written += count
                data = data[count:]
        except (OSError, ValueError):  # ValueError: the stream was closed
            pass
        if written > 0:
            self._breaks_off.discard(chunk.stream)
            if not chunk.data[:written].endswith(b"\n"):
                self._breaks_off.add(chunk.stream)
        return max(written, 0)


class QueuedStream(io.TextIOBase):
    """A text stream whose lines are written by the thread; `stream` is its number."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, writer: LogWriter, stream: int, replaced: TextIO | None) -> None:
        super().__init__()
        self._writer = writer
        self._stream = stream
        self._replaced = replaced
        self._partial = ""

    def writable(self) -> bool:
        """Return that it is writable."""
        return True

    def write(self, text: str) -> int:
        """Queue the complete lines, and keep the rest."""
        held = self._partial + text
        lines, end, self._partial = held.rpartition("\n")
        if end:
            self._queue(lines + end)
        if len(self._partial) > MAX_PARTIAL_LINE:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Queue an incomplete line."""
        text, self._partial = self._partial, ""
        if text:
            self._queue(text)

    def fileno(self) -> int:
        """Return the descriptor of the stream that it replaces; raise OSError if that has none."""
        if self._replaced is None:
            raise io.UnsupportedOperation("fileno")
        return self._replaced.fileno()

    def isatty(self) -> bool:
        """Return whether the stream that it replaces is a terminal."""
        return self._replaced is not None and self._replaced.isatty()

    def _queue(self, text: str) -> None:
        self._writer.write(self._stream, text.encode(self.encoding, self.errors))


@contextlib.contextmanager
def queued_output() -> Iterator[LogWriter]:
    """Replace standard output and standard error; at the end write the queue, and restore both."""
    before = sys.stdout, sys.stderr
    writer = LogWriter([sink_of(stream) for stream in before])
    writer.start()
    out, err = (QueuedStream(writer, number, stream) for number, stream in enumerate(before))
    sys.stdout, sys.stderr = out, err
    try:
        yield writer
    finally:
        out.flush()
        err.flush()
        writer.close()
        sys.stdout, sys.stderr = before


def sink_of(stream: TextIO | None) -> Sink:
    """Return a function that writes to the descriptor of a stream, or to the stream itself if it has none."""
    if stream is None:  # the descriptor was closed when the process started
        return lambda data: len(data)
    try:
        stream.flush()
        number = stream.fileno()
    except (OSError, ValueError):

        def write_text(data: bytes) -> int:
            stream.write(data.decode("utf-8", "replace"))
            stream.flush()
            return len(data)

        return write_text

    def write(data: bytes) -> int:
        try:
            return os.write(number, data)
        except BlockingIOError:  # the parent process has made the pipe non-blocking
            poll = select.poll()
            poll.register(number, select.POLLOUT)
            poll.poll()
            return 0

    return write
