"""Lines out of a stream of bytes.

Path: client.py (chunks of any size) -> here -> watch_event.py (a line each).
Rule 1: what has not ended yet is kept, whole, and dropped with the connection: half a line is never an event.
Rule 2: a line of more than `limit` octets is passed over, so that a broken server cannot fill the memory.
"""

from __future__ import annotations

from typing import Final

# etcd takes objects of 1.5 MiB by default; as JSON with its escapes one may be some times longer.
MAX_LINE_LEN: Final = 16 * 1024 * 1024


class LineSplitter:
    """A buffer; `skipped` counts the lines that were too long."""

    def __init__(self, limit: int = MAX_LINE_LEN) -> None:
        self.skipped = 0
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes, give the lines that have ended, without their ends and without empty ones."""
        if b"\n" not in data:
            self._keep(data)
            return []
        first, *others = data.split(b"\n")
        rest = others.pop()
        lines = []
        self._keep(first)
        if not self._skipping and self._rest:
            lines.append(bytes(self._rest))
        self._rest.clear()
        self._skipping = False
        lines += filter(None, others)
        self._keep(rest)
        return lines

    @property
    def is_amid_line(self) -> bool:
        """Whether a line has begun that has not ended."""
        return self._skipping or bool(self._rest)

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(data) > self._limit:
            self._rest.clear()
            self._skipping = True
            self.skipped += 1
        else:
            self._rest += data
