"""Writes a recording.

Path: cli/record.py -> here -> frames.py.
Rule 1: entries added before flush() can be read, even if the process is killed.
Rule 2: the header has a separate frame, so that it can be read even if other frames are damaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from hsdns.recording.entry import Entry, Header, to_line
from hsdns.recording.frames import FrameWriter


class RecordingWriter:
    """Writes a header, and the entries that are added, to a file that the caller closes; `size` is in octets."""

    def __init__(self, file: IO[bytes], header: Header) -> None:
        self._file = file
        self._frames = FrameWriter(self._write)
        self.size = 0
        self._frames.add(to_line(header))
        self.flush()

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries."""
        if lines := b"".join(map(to_line, entries)):
            self._frames.add(lines)

    def flush(self) -> None:
        """Write all added entries to the file."""
        self._frames.flush()
        self._file.flush()

    def _write(self, octets: bytes) -> None:
        self._file.write(octets)
        self.size += len(octets)
