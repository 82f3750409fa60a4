"""`hsdns record FILE`: records a running server, for `--source replay FILE`.

Path: argv -> here -> running_server.py (/v1/watch, /v1/queries) -> Recorder -> RecordingWriter -> the file.
Rule 1: the file is created once the server has sent its first line, readable only by this user; an existing file is not
        overwritten.
Rule 2: the file is flushed every second, so a killed process loses at most a second.
Rule 3: a signal sets a flag that is checked between two lines: no entry is written in part.
Rule 4: the exit status is 0 if this command ended the recording, 2 if the server ended it, or could not be reached.

`hsdns replay status|pause|run|step|speed`: shows and controls the replay of a recording in a running server:
Rule: the exit status is 2 for bad input, or if no server could be reached, or it replays nothing.

The entries of a recording, made of the streams of a control API:
Rule 1: the recording begins with the first whole state; queries before it are left out.
Rule 2: the server's lines are validated as strictly as a file, so that every recording can be replayed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from typing import IO, Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import structs

from hsdns.cli.command import ANY, OUTPUT, FlagError, Progress, complain, flag, no_command, say
from hsdns.cli.running_server import STATUS, Refused, RunningServer, ServerCommand, ServerError
from hsdns.cluster.objects import UNDECODED
from hsdns.corefile.properties import duration_to_text
from hsdns.errors import OperatorError
from hsdns.recording.anonymise import Anonymiser
from hsdns.recording.entry import (
    End,
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

WATCH: Final = "/v1/watch"
QUERIES: Final = "/v1/queries"
STANDARD_OUTPUT: Final = "-"
FLUSH: Final = 1.0  # seconds
LOOK: Final = 0.1  # seconds between two checks of signals and the time
# Lines that wait to be written; then the server waits, and cuts off a slow reader.
MOST: Final = 10_000
INTERRUPTED: Final = "interrupted"
ENDED: Final = "the server stopped, or closed its control socket"


class _Line(NamedTuple):
    """A line of a stream, or why there are no more."""

    page: str
    octets: bytes | ServerError


class Record(ServerCommand):
    """Records the server, until it is ended."""

    name = "record"
    forms = "hsdns record FILE [FLAG...]  record to a file (- is standard output)"
    most_words = ANY

    zone: str | None = flag(
        None, "zone of the kubernetes block to record, if there are several", "ZONE"
    )
    duration: float | None = flag(
        None,
        "stop after this time, such as 30s or 5m (default: at Ctrl-C)",
        "DURATION",
        time="30s or 5m",
    )
    queries: bool = flag(True, "record the queries too (default; --queries=false does not)")
    anonymise: bool = flag(False, "replace names and addresses")
    o: str = flag("text", OUTPUT, help="format of the line at the end: text (default), or json")

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], list[str]]:
        """A single dash, which is standard output, is no flag."""
        if words[:1] == [STANDARD_OUTPUT]:
            return words[:1], words[1:]
        return super().split(words)

    def run(self) -> int:
        """Record; the status is 0 if the recording was ended here."""
        path = _path(self.words)
        session = _Session(self.server(), path, self.anonymise, self.duration)
        try:
            with _signals(session.stop):
                session.record(self.zone, queries=self.queries)
        except OSError as error:
            raise OperatorError(f"{path} cannot be written: {error.strerror or error}") from None
        except Refused as error:
            raise OperatorError(str(error)) from None
        finally:
            session.close()
        session.show(self.o)
        return 0 if session.was_ended_here else STATUS


class _Session:
    """One recording."""

    def __init__(
        self, server: RunningServer, path: str, anonymises: bool, duration: float | None
    ) -> None:
        self.was_ended_here = True
        self._server = server
        self._path = path
        self._duration = duration
        self._anonymises = anonymises
        self._recorder = Recorder(Anonymiser(os.urandom(32)) if anonymises else lambda entry: entry)
        self._file: IO[bytes] | None = None
        self._writer: RecordingWriter | None = None
        self._lines: SimpleQueue[_Line] = SimpleQueue()
        self._room = BoundedSemaphore(MOST)
        self._records_queries = False
        self._reason = ""
        self._began = 0.0
        self._progress = Progress()

    def stop(self, reason: str) -> None:
        """End it; a signal may call this."""
        self._reason = self._reason or reason

    def record(self, zone: object, *, queries: bool) -> None:
        """Write what the server sends, until stopped; raise ServerError if it sends nothing, or OSError."""
        chosen = "" if zone is None else urlencode({"zone": zone}, errors="surrogateescape")
        self._records_queries = queries
        self._follow(f"{WATCH}?{chosen}".rstrip("?"))
        flushed = time.monotonic()
        while not self._reason:
            with suppress(Empty):
                line = self._lines.get(timeout=LOOK)
                self._room.release()
                self._take(line)
            now = time.monotonic()
            if self._writer is not None and now - flushed >= FLUSH:
                flushed = now
                self._writer.flush()
                self._progress.show(self._counts())
            if self._duration is not None and self._began and now - self._began >= self._duration:
                self.stop(f"after {duration_to_text(self._duration)}")
        self._end()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self._file is not sys.stdout.buffer:
            with suppress(OSError):  # the last write has reported it
                self._file.close()

    def show(self, output: str) -> None:
        """Print what was recorded."""
        recorder, size = self._recorder, self._writer.size if self._writer is not None else 0
        show = complain if self._path == STANDARD_OUTPUT else say
        if output == "json":
            found = {
                "file": self._path, "seconds": recorder.seconds, "objects": recorder.objects, "events": recorder.events,
                "lost_events": recorder.lost, "queries": recorder.queries, "share": recorder.share, "octets": size,
                "reason": self._reason,
            }  # fmt: skip
            show(json.dumps(found))
            return
        where = "" if self._path == STANDARD_OUTPUT else f" into {self._path}"
        show(f"recorded{where}: {self._counts()} ({self._reason})")

    def _follow(self, page: str) -> None:
        Thread(target=self._read, args=(page,), daemon=True).start()

    def _read(self, page: str) -> None:
        """Put the lines of a page into the queue, in a thread."""
        last: bytes | ServerError = ServerError(ENDED)
        try:
            for line in self._server.octet_lines(page):
                self._room.acquire()
                self._lines.put(_Line(page, line))
        except ServerError as error:
            last = error
        self._room.acquire()
        self._lines.put(_Line(page, last))

    def _take(self, line: _Line) -> None:
        if isinstance(line.octets, ServerError):
            if self._writer is None:
                raise line.octets
            self.was_ended_here = False
            self.stop(str(line.octets))
            return
        recorder, is_query = self._recorder, line.page == QUERIES
        try:
            if self._writer is None:
                self._take_header(line.octets)
                return
            entry = recorder.queried(line.octets) if is_query else recorder.watched(line.octets)
        except ValueError as error:
            raise ServerError(
                f"the server at {self._server.path} did not answer {line.page} as this hsdns expects: {error}"
            ) from None
        if isinstance(entry, End):  # the block has changed
            self.was_ended_here = False
            self.stop(entry.reason)
        elif entry is not None:
            self._writer.add([entry])
            if recorder.has_begun and not self._began:
                self._began = time.monotonic()

    def _take_header(self, line: bytes) -> None:
        header = self._recorder.header(line)
        if self._path == STANDARD_OUTPUT:
            self._file = sys.stdout.buffer
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self._file = os.fdopen(os.open(self._path, flags, 0o600), "wb")
        self._writer = RecordingWriter(self._file, header)
        where = f"the server with process ID {self._server.pid}, at {self._server.path}"
        end = "" if self._duration is not None else "; Ctrl-C ends it"
        complain(f"recording {where}{end}")
        if self._records_queries:
            self._follow(QUERIES)

    def _end(self) -> None:
        if self._writer is None:
            raise ServerError(f"recorded nothing: {self._reason}")
        recorder = self._recorder
        if self._began:
            recorder.seconds = max(recorder.seconds, round(time.monotonic() - self._began, 6))
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        # The error about a server that has ended names its socket.
        is_hidden = self._anonymises and not self.was_ended_here
        reason = "the server ended the recording" if is_hidden else self._reason
        self._writer.add([End(recorder.seconds, now, reason)])
        self._writer.flush()
        self._progress.keep()

    def _counts(self) -> str:
        recorder, writer = self._recorder, self._writer
        size = 0 if writer is None else writer.size
        began = self._began or time.monotonic()
        seconds = max(recorder.seconds, time.monotonic() - began)
        lost = f" ({recorder.lost} more were lost)" if recorder.lost else ""
        share = " (a share of those that came)" if recorder.share < 1.0 else ""
        return (
            f"{duration_to_text(round(seconds, 1))}, {recorder.objects} objects, {recorder.events} events{lost}, "
            f"{recorder.queries} queries{share}, {max(1, round(size / 1024))} KiB"
        )


def _path(plain: list[str]) -> str:
    """The file; raise FlagError."""
    if len(plain) != 1:
        found = f', found "{plain[1]}"' if plain else ""
        raise FlagError(f"hsdns record takes one file{found}, such as: hsdns record shop.rec")
    (path,) = plain
    if path == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise FlagError("a recording is binary; name a file, or write to a pipe")
    elif os.path.lexists(path):
        raise FlagError(f"{path} exists; remove it, or name another file")
    return path


@contextmanager
def _signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the recording, in the main thread only."""
    before = {}
    with suppress(ValueError):
        for each in (signal.SIGINT, signal.SIGTERM):
            before[each] = signal.signal(each, lambda *of: stop(INTERRUPTED))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


WORDS: Final = ("status", "pause", "run", "step", "speed")
PAGE: Final = "/v1/replay"


class Replay(ServerCommand):
    """Shows the replay after it has carried out the command."""

    name = "replay"
    forms = """hsdns replay status [FLAG...]        show the position of the replay
       hsdns replay pause [FLAG...]         pause it
       hsdns replay run [FLAG...]           continue
       hsdns replay step [NUMBER] [FLAG...] pause, and apply the next change, or the next NUMBER
       hsdns replay speed NUMBER [FLAG...]  continue NUMBER times as fast; 0 does not wait"""
    most_words = ANY
    suggested = WORDS

    o: str = flag("text", OUTPUT, help="format: text (default), or json, a line for each replay")

    def run(self) -> int:
        """Send it, and print a line for each replay."""
        command = _command(self.words)
        server = self.server()
        body = b"" if command is None else json.dumps(command).encode()
        for course in server.lines(PAGE, "POST" if body else "GET", body):
            say(*([json.dumps(course)] if self.o == "json" else _text(course)))
        return 0


def _command(plain: list[str]) -> dict[str, Any] | None:
    """The body of a POST, None for `status`; raise FlagError."""
    name, *arguments = plain or [""]
    if name not in WORDS:
        raise no_command("hsdns replay", name, WORDS)
    most = 1 if name in ("step", "speed") else 0
    if len(arguments) > most:
        raise FlagError(
            f'hsdns replay {name} takes {"one number" if most else "no arguments"}, found "{arguments[most]}"'
        )
    if name == "status":
        return None
    if name == "speed":
        if not arguments:
            raise FlagError("hsdns replay speed needs a number, such as 2, or 0 for no waiting")
        return {"command": name, "speed": _number(name, arguments[0], float)}
    if arguments:
        return {"command": name, "count": _number(name, arguments[0], int)}
    return {"command": name}


def _number(name: str, text: str, kind: type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise FlagError(f'hsdns replay {name} needs a number, found "{text}"') from None


def _text(course: dict[str, Any]) -> list[str]:
    place = f"{duration_to_text(course['at'])} of {duration_to_text(course['end'])}"
    speed = "no waiting" if course["speed"] == 0 else f"speed {course['speed']:g}"
    problem = [f"  {course['problem']}"] if course["problem"] else []
    return [
        f"{course['file']}: {course['state']} at {place}, {speed}, "
        f"{course['applied']} of {course['changes']} changes, {course['objects']} objects",
        *problem,
    ]


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
            raise ValueError(f"it is not a query: {error}") from None
        self.queries += found is not None
        return found

    def _placed(self, entry: Entry) -> Entry | None:
        """Return the entry with its place in the recording."""
        if self._began is None or isinstance(entry, Header | RecordedObject):
            return None
        at = round(max(entry.at - self._began, 0.0), 6)
        self.seconds = max(self.seconds, at)
        return self._hide(structs.replace(entry, at=at))
