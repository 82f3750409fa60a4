"""Turns the streams of a control door into the entries of a recording.

Path: recording/cli.py, which reads the streams -> Recorder -> RecordingWriter.
Rule 1: the recording begins with the first whole state; queries before it are left out.
Rule 2: the server's lines are validated as strictly as a file, so that every recording can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

import msgspec
from msgspec import structs

from hsdns.cluster.objects import UNDECODED
from hsdns.recording.entry import (
    Entry,
    Gap,
    Header,
    ObjectEvent,
    RecordedObject,
    RecordedQuery,
    Share,
    State,
    read_line,
    to_line,
)
from hsdns.recording.reader import FrameWriter

# Writes a recording.
#
# Rule 1: entries added before flush() can be read, even if the process is killed.
# Rule 2: the header has a separate frame, so that it can be read even if other frames are damaged.


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


class Recorder:
    """Turns the lines of the streams into entries, and counts them; `hide` anonymises an entry.

    `share` is the smallest share of the queries that was shown.
    """

    def __init__(self, hide: Callable[[Entry], Entry] = lambda entry: entry) -> None:
        self.objects = 0  # of the first state
        self.events = 0
        self.lost = 0
        self.queries = 0
        self.share = 1.0
        self.seconds = 0.0  # the place of the last entry
        self._hide = hide
        self._began: float | None = None
        self._share = 1.0

    @property
    def has_begun(self) -> bool:
        """Whether there is a state."""
        return self._began is not None

    def header(self, line: bytes) -> Header:
        """The entry of the first line of /v1/watch; raise ValueError."""
        entry = read_line(line)
        found = None if entry is None else self._hide(entry)
        if not isinstance(found, Header):
            raise ValueError("it is no header")
        return found

    def watched(self, line: bytes) -> Entry | None:
        """The entry of a later line of /v1/watch, None if it is not recorded; raise ValueError."""
        entry = read_line(line)
        if entry is None or isinstance(entry, RecordedObject):
            return None if entry is None else self._hide(entry)
        if isinstance(entry, State) and self._began is None:
            self._began, self.objects = entry.at, entry.objects
        elif isinstance(entry, ObjectEvent):
            self.events += 1
        elif isinstance(entry, Gap):
            self.lost += entry.events
        return self._placed(entry)

    def queried(self, line: bytes) -> Entry | None:
        """The entry of a line of /v1/queries, None if it is not recorded; raise ValueError."""
        try:
            if b'"share":' in line:
                share = msgspec.json.decode(line, type=Share)
                is_new = share.share != self._share
                self._share = share.share
                self.share = min(self.share, share.share)
                return self._placed(share) if is_new else None
            found = self._placed(msgspec.json.decode(line, type=RecordedQuery))
        except UNDECODED as error:
            raise ValueError(f"it is no query: {error}") from None
        self.queries += found is not None
        return found

    def _placed(self, entry: Entry) -> Entry | None:
        """Return the entry with its place in the recording."""
        if self._began is None or isinstance(entry, Header | RecordedObject):
            return None
        at = round(max(entry.at - self._began, 0.0), 6)
        self.seconds = max(self.seconds, at)
        return self._hide(structs.replace(entry, at=at))
