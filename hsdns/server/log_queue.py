"""The queue of lines for the log, bounded; without threads and files.

Path: log_writer.py adds lines from every thread, and removes them in one.
Rule 1: the order of lines is kept.  If the queue is full, new lines are dropped until half of it is free, so that one
        report covers all lines that are lost while a reader stalls.
Rule 2: each lost line is counted, and reported once, before the next line that is written.  A piece of a line that was
        flushed counts as a line.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

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


class LogQueue:
    """The lines of several streams, in order; `lost` is the number of lines that were never written."""

    def __init__(self, max_lines: int = MAX_LINES, max_octets: int = MAX_OCTETS) -> None:
        self.lost = 0
        self._max_lines = max_lines
        self._max_octets = max_octets
        # Unlike a Chunk, plain tuples of octets and numbers are not tracked by the garbage collector, so a full
        # collection does not visit the thousands that wait while nobody reads.
        self._chunks: deque[tuple[int, bytes, int, int]] = deque()
        self._lines = self._octets = 0
        self._unreported = 0  # of the lost lines
        self._has_overflowed = False

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._chunks) or self._has_overflowed

    def put(self, stream: int, data: bytes) -> None:
        """Add complete lines, or drop them."""
        lines = data.count(b"\n") or 1  # a piece of a line takes as much room
        share = 2 if self._has_overflowed else 1
        if (
            self._lines + lines > self._max_lines // share
            or self._octets + len(data) > self._max_octets // share
        ):
            self._has_overflowed = True
            self._lose(lines)
            return
        self._has_overflowed = False
        if self._unreported:
            self._add(self._report())
        self._add(Chunk(stream, data, lines))

    def refuses(self, lines: int = 1) -> bool:
        """Count lines as lost if there is no room for any after an overflow, so that they need not be made."""
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
