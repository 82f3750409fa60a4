"""Reads a recording: the lines of its compressed frames, and the entry of each line.

Path: sources/replay.py, cli/source.py and users of the queries -> here -> entry.py; recording/cli.py writes with
FrameWriter.
Rule 1: open() rejects a file that is not a recording; a later error ends the entries, and `problem` says where.
        Entries before the error are valid.
Rule 2: a file is read on demand, so its length does not matter.
Rule 3: a frame has whole lines and a checksum; it ends after FRAME octets of text, and at each flush.
Rule 4: the text of a frame is returned after its checksum was verified, so nothing is returned from a truncated frame.
        A frame of more than HELD octets, written by another program, is returned while it is read.
Rule 5: an uncompressed file is read too, so that a recording can be written by hand.
Source: RFC 8878.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO, Final, NamedTuple, Self

import msgspec

from hsdns import __version__
from hsdns.cluster.objects import UNDECODED
from hsdns.recording.entry import (
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

# The module of the standard library, or its backport before Python 3.14.
if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

MAGIC: Final = b"\x28\xb5\x2f\xfd"
FRAME: Final = 256 * 1024  # octets of text
HELD: Final = 4 * FRAME  # octets of text that wait for a checksum
MAX_LINE: Final = 16 * 1024 * 1024  # octets; etcd takes objects of 1.5 MiB
CHUNK: Final = 64 * 1024  # octets that are read at a time
WINDOW: Final = 23  # log2 of the octets that a frame may refer back to: 8 MiB


class Damaged(Exception):
    """The damage of a file, as the predicate of a sentence."""


class FrameWriter:
    """Compresses lines, and passes the octets to `write`."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
        self._length = 0  # of the text in the frame

    def add(self, lines: bytes) -> None:
        """Add whole lines."""
        self._write(self._compressor.compress(lines))
        self._length += len(lines)
        if self._length >= FRAME:
            self.flush()

    def flush(self) -> None:
        """Write all added lines, so that they can be read."""
        if self._length:
            self._write(self._compressor.flush(zstd.ZstdCompressor.FLUSH_FRAME))
            self._length = 0


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the whole lines of a file, without line ends; raise Damaged when no more can be read, or OSError."""
    begin = file.read(CHUNK)
    texts = _frames(file, begin) if begin[: len(MAGIC)] == MAGIC else _plain(file, begin)
    rest, octet = b"", 0
    for octet, text in texts:
        *lines, rest = (rest + text).split(b"\n")
        yield from lines
        if len(rest) > MAX_LINE:
            raise Damaged(f"has a line of more than {MAX_LINE} octets before octet {octet}")
    if rest:
        raise Damaged(f"was cut in the middle of an entry, at octet {octet}")


def _plain(file: IO[bytes], begin: bytes) -> Iterator[tuple[int, bytes]]:
    octet = 0
    while begin:
        octet += len(begin)
        yield octet, begin
        begin = file.read(CHUNK)


def _frames(file: IO[bytes], chunk: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each frame, with the number of octets read for it."""
    began = octet = 0  # where the frame begins, and what was read
    frame: zstd.ZstdDecompressor | None = None
    held = bytearray()
    while chunk:
        octet += len(chunk)
        while chunk or (frame is not None and not frame.needs_input):
            if frame is None:
                began = octet - len(chunk)
                frame = zstd.ZstdDecompressor(
                    options={zstd.DecompressionParameter.window_log_max: WINDOW}
                )
            try:
                held += frame.decompress(chunk, max_length=FRAME)
            except zstd.ZstdError:
                raise Damaged(f"is damaged, or was changed, after octet {began}") from None
            chunk = frame.unused_data if frame.eof else b""
            if frame.eof or len(held) > HELD:
                yield octet - len(chunk), bytes(held)
                held.clear()
            if frame.eof:
                frame = None
        chunk = file.read(CHUNK)
    if frame is not None:
        raise Damaged(f"was cut at octet {octet}")


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
            raise BadRecording(f"{self.path} is empty, so it is not a recording") from None
        except Damaged as damage:
            raise BadRecording(f"{self.path} {damage}, before its first whole line") from None
        except UNDECODED:
            raise BadRecording(f"{self.path} is not a recording of hsdns record") from None
        if head.format != FORMAT:
            raise BadRecording(f"{self.path} is not a recording of hsdns record")
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
            raise BadRecording(f"{self.path} is not a recording of hsdns record")
        for word in [*found.zones, *(word for words in found.kubernetes for word in words)]:
            if not WORD.fullmatch(word):
                raise BadRecording(
                    f"{self.path} is broken at line 1: {word!r} is not a word of a Corefile"
                )
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
