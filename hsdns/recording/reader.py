"""Reads a recording.

Path: sources/replay.py, cli/source.py and users of the queries -> here -> frames.py, entry.py.
Rule 1: open() rejects a file that is not a recording; a later error ends the entries, and `problem` says where.
        Entries before the error are valid.
Rule 2: a file is read on demand, so its length does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import IO, Final, NamedTuple, Self

import msgspec

from hsdns import __version__
from hsdns.recording.entry import (
    FAULTS,
    FORMAT,
    QUERY_LINE,
    VERSION,
    End,
    Entry,
    Gap,
    Header,
    ObjectEvent,
    RecordedObject,
    RecordedQuery,
    State,
    read_line,
)
from hsdns.recording.frames import Damaged, read_lines

WORD: Final = re.compile(r"[\w.:/*-]+", re.ASCII)  # of a header, which becomes part of a Corefile
NO_END: Final = "its recorder was killed, or the file was cut"


class BadRecording(ValueError):
    """Why a file cannot be replayed at all, as a sentence."""


class _Head(msgspec.Struct, frozen=True):
    """The members of the first line that exist in all versions."""

    format: str
    version: int


class Recording(AbstractContextManager["Recording"]):
    """An open recording; iterating over it gives the entries after the header.

    `problem` is a sentence if they have ended early, "" if the recording is complete; `end` is then its last entry.
    """

    def __init__(self, path: str, file: IO[bytes]) -> None:
        """Read the header; raise BadRecording or OSError."""
        self.path = path
        self.problem = ""
        self.end: End | None = None
        self.line = 0  # of the last entry, from 1
        self._file = file
        self._lines = read_lines(file)
        self.header = self._read_header()

    @classmethod
    def open(cls, path: str) -> Self:
        """Open a file; raise BadRecording or OSError."""
        file = open(path, "rb")  # noqa: SIM115 - close() closes it
        try:
            return cls(path, file)
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries after the header."""
        return self._entries(b"")

    def without_queries(self) -> Iterator[Entry]:
        """Iterate over the entries without queries; skipping a query takes a hundredth of the time of reading it."""
        return self._entries(QUERY_LINE)

    def _entries(self, passed_over: bytes) -> Iterator[Entry]:
        try:
            for line in self._lines:
                self.line += 1
                if passed_over and line.startswith(passed_over):
                    continue
                try:
                    entry = read_line(line)
                except ValueError as error:
                    self.problem = f"{self.path} is broken at line {self.line}: {error}"
                    return
                if isinstance(entry, End):
                    self.end = entry
                    yield entry
                    return
                if entry is not None:
                    yield entry
            self.problem = f"{self.path} has no end after line {self.line}: {NO_END}"
        except Damaged as damage:
            self.problem = f"{self.path} {damage}; line {self.line} is the last whole one"
        except OSError as error:
            self.problem = f"{self.path} cannot be read after line {self.line}: {error.strerror}"

    def _read_header(self) -> Header:
        try:
            line = next(self._lines)
            head = msgspec.json.decode(line, type=_Head)
        except StopIteration:
            raise BadRecording(f"{self.path} is empty, so it is no recording") from None
        except Damaged as damage:
            raise BadRecording(f"{self.path} {damage}, before its first whole line") from None
        except FAULTS:
            raise BadRecording(f"{self.path} is no recording of hsdns record") from None
        if head.format != FORMAT:
            raise BadRecording(f"{self.path} is no recording of hsdns record")
        if head.version != VERSION:
            raise BadRecording(
                f"{self.path} is a recording of version {head.version}, and hsdns {__version__} reads "
                f"version {VERSION}; use the hsdns that recorded it"
            )
        self.line = 1
        try:
            found = read_line(line)
        except ValueError as error:
            raise BadRecording(f"{self.path} is broken at line 1: {error}") from None
        if not isinstance(found, Header):
            raise BadRecording(f"{self.path} is no recording of hsdns record")
        for word in [*found.zones, *(word for words in found.kubernetes for word in words)]:
            if not WORD.fullmatch(word):
                raise BadRecording(f"{self.path} is broken at line 1: {word!r} is no word of a Corefile")  # fmt: skip
        return found


def read_queries(path: str) -> Iterator[RecordedQuery]:
    """Read the queries of a recording up to the first error; raise BadRecording or OSError."""
    with Recording.open(path) as recording:
        for entry in recording:
            if isinstance(entry, RecordedQuery):
                yield entry


# Summarises a recording: it is read once, so that a replay can show its length.


class Summary(NamedTuple):
    """The start, the place of the last entry that is not a query (seconds), and the numbers of changes and gaps."""

    began: str
    seconds: float
    changes: int
    gaps: int
    problem: str


def summarise(path: str) -> Summary:
    """Read a recording to its end; raise BadRecording or OSError."""
    seconds, changes, gaps, is_first = 0.0, 0, 0, True
    with Recording.open(path) as recording:
        for entry in recording.without_queries():
            if isinstance(entry, RecordedObject):
                continue
            seconds = max(seconds, getattr(entry, "at", 0.0))
            if isinstance(entry, ObjectEvent):
                changes += 1
            elif isinstance(entry, State):
                changes += not is_first
                is_first = False
            elif isinstance(entry, Gap):
                gaps += entry.events
        return Summary(recording.header.began, seconds, changes, gaps, recording.problem)
