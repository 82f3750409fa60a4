"""Standard output and standard error of a running server, written by a thread.

Path: cli/launch.py replaces both streams while it serves.
Rule 1: writing to these streams never blocks and never raises, in any thread: a pipe that no process reads, a paused
        terminal or a full disk stops only the writing thread.  The log, tracebacks, warnings and the prints of a
        `python` plugin all go through these two streams.
Rule 2: the queue is written before the process ends, but it waits at most FLUSH_TIMEOUT for this.
Rule 3: a line that was written in part is completed before the next one begins.
Rule 4: the order of lines is kept.  If the queue is full, new lines are dropped until half of it is free, so that one
        report covers all lines that are lost while a reader stalls.
Rule 5: each lost line is counted, and reported once, before the next line that is written.  A piece of a line that was
        flushed counts as a line.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TextIO

from hsdns.metrics import Registry

MAX_LINES: Final = 32_768
MAX_OCTETS: Final = 4 * 1024 * 1024
MAX_CHUNK: Final = 65_536  # octets in one write, as many as a pipe holds


class Chunk(NamedTuple):
    """The data of one write: octets of one stream, with their number of lines.

    `reported` is the number of lost lines that one of these lines reports; that line is not counted in `lines`.
    """

    stream: int
    data: bytes
    lines: int
    reported: int = 0

    @property
    def size(self) -> int:
        """The octets that count towards the limit; a report is one line, and always fits."""
        return 0 if self.reported else len(self.data)


FLUSH_TIMEOUT: Final = 1.0  # seconds
MAX_PARTIAL_LINE: Final = 65_536  # characters without an end of line that are collected

Sink = Callable[[bytes], int]
"""Writes octets and returns how many were written, which may be fewer; raises OSError or ValueError."""


class LogWriter:
    """Writes the lines of several streams to their sinks in the order in which they came; `lost` were never written.

    start() starts its thread; without it take() has what would be written.
    """

    def __init__(
        self, sinks: Sequence[Sink], max_lines: int = MAX_LINES, max_octets: int = MAX_OCTETS
    ) -> None:
        self.lost = 0
        self._sinks = sinks
        self._max_lines, self._max_octets = max_lines, max_octets
        # Unlike a Chunk, plain tuples of octets and numbers are not tracked by the garbage collector, so a full
        # collection does not visit the thousands that wait while nobody reads.
        self._chunks: deque[tuple[int, bytes, int, int]] = deque()
        self._lines = self._octets = 0
        self._unreported = 0  # of the lost lines
        self._has_overflowed = False
        # Reentrant: a finalizer that runs while the lock is held may write a warning.
        self._changed = threading.Condition(threading.RLock())
        self._is_writing = self._is_closed = False
        self._breaks_off: set[int] = set()  # streams whose last line is incomplete
        self._shown = 0

    @property
    def has_waiting(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._chunks) or self._has_overflowed

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def write(self, stream: int, data: bytes) -> None:
        """Add complete lines, or drop them."""
        lines = data.count(b"\n") or 1  # a piece of a line takes as much room
        with self._changed:
            share = 2 if self._has_overflowed else 1
            self._has_overflowed = (
                self._lines + lines > self._max_lines // share
                or self._octets + len(data) > self._max_octets // share
            )
            if self._has_overflowed:
                self._lose(lines)
            else:
                if self._unreported:
                    self._add(self._report())
                self._add(Chunk(stream, data, lines))
            self._changed.notify_all()

    def refuses(self, lines: int = 1) -> bool:
        """Count lines as lost if there is no room for any after an overflow, so that they need not be made."""
        with self._changed:
            is_full = self._has_overflowed and (
                self._lines >= self._max_lines // 2 or self._octets >= self._max_octets // 2
            )
            if is_full:
                self._lose(lines)
            return is_full

    def take(self) -> Chunk:
        """Remove the data of the next write; only if there is any."""
        if not self._chunks:
            self._has_overflowed = False
            return self._report()
        first = self._remove()
        data, lines, reported = [first.data], first.lines, first.reported
        size = len(first.data)
        while (
            self._chunks
            and self._chunks[0][0] == first.stream
            and size + len(self._chunks[0][1]) <= MAX_CHUNK
        ):
            chunk = self._remove()
            data.append(chunk.data)
            size += len(chunk.data)
            lines += chunk.lines
            reported += chunk.reported
        return Chunk(first.stream, b"".join(data), lines, reported)

    def fail(self, chunk: Chunk, written: int) -> None:
        """Count the lines of a chunk of which only the first `written` octets could be written."""
        self._lose(min(chunk.lines, chunk.data.count(b"\n", written)))
        self._unreported += chunk.reported

    def close(self, timeout: float = FLUSH_TIMEOUT) -> bool:
        """Wait until all is written, at most `timeout` seconds, and end the thread; return whether it was."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: not self.has_waiting and not self._is_writing, timeout=timeout
            )
            self._is_closed = True
            self._changed.notify_all()
        return done

    def count_in(self, metrics: Registry) -> None:
        """Add the lost lines to a metric before each scrape."""
        counter = metrics.counter("hsdns_log_drops_total")

        def count() -> None:
            lost = self.lost
            counter.inc(amount=lost - self._shown)
            self._shown = lost

        metrics.before_collect(count)

    def _report(self) -> Chunk:
        number, self._unreported = self._unreported, 0
        verb = "line of the log was" if number == 1 else "lines of the log were"
        text = f"[WARNING] {number} {verb} dropped because the output was not read or was full\n"
        return Chunk(0, text.encode(), 0, number)

    def _lose(self, lines: int) -> None:
        self.lost += lines
        self._unreported += lines

    def _add(self, chunk: Chunk) -> None:
        self._chunks.append((chunk.stream, chunk.data, chunk.lines, chunk.reported))
        self._lines += chunk.lines
        self._octets += chunk.size

    def _remove(self) -> Chunk:
        chunk = Chunk(*self._chunks.popleft())
        self._lines -= chunk.lines
        self._octets -= chunk.size
        return chunk

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self.has_waiting or self._is_closed)
                if self._is_closed:
                    return
                self._is_writing = True
                chunk = self.take()
            written = self._write(chunk)
            if written < len(chunk.data):
                with self._changed:
                    self.fail(chunk, written)

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
