"""Splitter of a byte stream into lines.

Path: client.py (chunks of any size) -> here -> watch_event.py (a line each).
Rule 1: an incomplete line is buffered, and dropped with the connection: part of a line is never an event.
Rule 2: a line of more than `limit` octets is skipped, so that a faulty server cannot exhaust the memory.
"""

from __future__ import annotations

from typing import Final

# etcd limits objects to 1.5 MiB by default; as JSON with escapes they may be several times larger.
MAX_LINE_LEN: Final = 16 * 1024 * 1024


class LineSplitter:
    """Buffers an incomplete line; `skipped` counts the lines above the limit."""

    def __init__(self, limit: int = MAX_LINE_LEN) -> None:
        self.skipped = 0
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the completed lines without their ends and without empty lines."""
        if b"\n" not in data:
            self._buffer_partial(data)
            return []
        first, *others = data.split(b"\n")
        rest = others.pop()
        lines = []
        self._buffer_partial(first)
        if not self._skipping and self._rest:
            lines.append(bytes(self._rest))
        self._rest.clear()
        self._skipping = False
        lines += filter(None, others)
        self._buffer_partial(rest)
        return lines

    def _buffer_partial(self, data: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(data) > self._limit:
            self._rest.clear()
            self._skipping = True
            self.skipped += 1
        else:
            self._rest += data
