"""Serves runtime profiles over HTTP.

Path: beside the queries; server/http/pages.py calls the page.
Source: CoreDNS 1.14.7 plugin/pprof and Go's net/http/pprof, which has the same paths.
Rule 1: profiling has no cost until a profile is requested.
Rule 2: one profile can run at a time, and it ends with its configuration.

The CPU profiler samples:
Source: pprof's profile.proto (github.com/google/pprof); folded stacks as flame graph tools read them.
Rule 1: a sample of a thread is weighted with the CPU time that it has used since the last one, so a waiting thread adds
        nothing.  If the kernel does not report CPU times, each sample counts as if the thread had run.
Rule 2: compiled code has no frames: its CPU time is that of the Python line that called it.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple, Self
from urllib.parse import parse_qs

from hsdns.corefile.keys import listen_address
from hsdns.corefile.properties import only_once, read_properties
from hsdns.corefile.tree import Directive, NotInHsdns
from hsdns.http_page import TEXT, HttpPage
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.protobuf import field, varint

INTERVAL: Final = 0.01  # seconds between samples, as in Go
MAX_DEPTH: Final = 256


class Frame(NamedTuple):
    """One call: function, file, line."""

    function: str
    file: str
    line: int


Stack = tuple[Frame, ...]  # innermost first


class Profile(NamedTuple):
    """Per stack the number of samples and the CPU time in nanoseconds; the duration in seconds."""

    counts: Counter[Stack]
    nanoseconds: Counter[Stack]
    seconds: float


def sample(seconds: float, wait: Callable[[float], bool], clock: Callable[[], float]) -> Profile:
    """Sample all other threads for some seconds; `wait` pauses, and returns True to end early."""
    counts: Counter[Stack] = Counter()
    nanoseconds: Counter[Stack] = Counter()
    used = {thread: _cpu_time(thread) for thread in _native_ids().values()}
    began = clock()
    while clock() - began < seconds and not wait(INTERVAL):
        native = _native_ids()
        for ident, frame in sys._current_frames().items():
            thread = native.get(ident)
            if thread is None or ident == threading.get_ident():
                continue
            before, now = used.get(thread), _cpu_time(thread)
            used[thread] = now
            if now is None:
                spent = int(INTERVAL * 1e9)
            else:
                spent = 0 if before is None else now - before
            if spent > 0:
                stack = stack_of(frame)
                counts[stack] += 1
                nanoseconds[stack] += spent
    return Profile(counts, nanoseconds, clock() - began)


def stack_of(frame: FrameType | None) -> Stack:
    """Return the call stack of a frame."""
    found: list[Frame] = []
    while frame is not None and len(found) < MAX_DEPTH:
        code = frame.f_code
        found.append(Frame(code.co_qualname, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def folded(profile: Profile) -> str:
    """Return one line per stack, outermost call first, with its milliseconds."""
    lines: Counter[str] = Counter()
    for stack, spent in profile.nanoseconds.items():
        calls = [f"{frame.function} ({Path(frame.file).name})" for frame in reversed(stack)]
        lines[";".join(call.replace(";", ":") for call in calls)] += spent
    return "".join(f"{calls} {round(spent / 1e6)}\n" for calls, spent in lines.most_common())


def to_pprof(profile: Profile, wall: float) -> bytes:
    """Return the profile in pprof's format; `wall` is its start in seconds since the epoch."""
    return gzip.compress(_encode(profile, wall), 6, mtime=0)


def _native_ids() -> dict[int, int]:
    return {
        thread.ident: thread.native_id
        for thread in threading.enumerate()
        if thread.ident is not None and thread.native_id is not None
    }


def _cpu_time(native_id: int) -> int | None:
    """Return the CPU time of a thread in nanoseconds; None if the kernel does not report it."""
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


# --- profile.proto ---


class _Strings(dict[str, int]):
    """The string table."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def _encode(profile: Profile, wall: float) -> bytes:
    strings = _Strings({"": 0})
    functions: dict[tuple[str, str], int] = {}
    locations: dict[Frame, int] = {}
    for stack in profile.counts:
        for frame in stack:
            functions.setdefault((frame.function, frame.file), len(functions) + 1)
            locations.setdefault(frame, len(locations) + 1)
    out = bytearray()
    for kind, unit in (("samples", "count"), ("cpu", "nanoseconds")):
        out += field(1, field(1, strings[kind]) + field(2, strings[unit]))
    for stack, count in profile.counts.items():
        places = _packed(1, (locations[frame] for frame in stack))
        out += field(2, places + _packed(2, (count, profile.nanoseconds[stack])))
    for frame, number in locations.items():
        line = field(1, functions[frame.function, frame.file]) + field(2, frame.line)
        out += field(4, field(1, number) + field(4, line))
    for (function, file), number in functions.items():
        name = strings[function]
        out += field(
            5,
            field(1, number) + field(2, name) + field(3, name) + field(4, strings[file]),
        )
    period_type = field(1, strings["cpu"]) + field(2, strings["nanoseconds"])
    for text in strings:
        out += field(6, text.encode("utf-8", "replace"))
    out += field(9, int(wall * 1e9)) + field(10, int(profile.seconds * 1e9))
    out += field(11, period_type) + field(12, int(INTERVAL * 1e9))
    return bytes(out)


def _packed(number: int, values: Iterable[int]) -> bytes:
    return field(number, b"".join(map(varint, values)))


DEFAULT_ADDRESS: Final = "localhost:6053"
PATH: Final = "/debug/pprof"
PROFILE_SECONDS: Final = 30.0  # as in Go
HEAP_SECONDS: Final = 10.0
MAX_SECONDS: Final = 300.0
HEAP_LINES: Final = 100
_BINARY: Final = "application/octet-stream"
INDEX: Final = f"""\
{PATH}/

cmdline                    the command line
goroutine                  the stacks of all tasks and threads
heap?seconds={HEAP_SECONDS:g}            memory allocated in that time and still in use, by source line
profile?seconds={PROFILE_SECONDS:g}         CPU profile for: go tool pprof http://ADDRESS{PATH}/profile
profile?seconds={PROFILE_SECONDS:g}&debug=1 the same as folded stacks in milliseconds
"""

Page = tuple[int, str, bytes]
_missing: Final[Page] = (404, TEXT, b"Unknown profile\n")


class Pprof(Plugin):
    """Serves the pages below /debug/pprof/."""

    def __init__(self, address: str = DEFAULT_ADDRESS) -> None:
        self.address = address
        self._stacks = ""
        self._stopped = threading.Event()
        self._in_use = threading.Lock()

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `pprof [ADDRESS]`."""
        directive = only_once(directives)
        address = listen_address(directive, DEFAULT_ADDRESS)
        for line in directive.lines:
            if line.name.text == "block":
                raise NotInHsdns(
                    line.name.position,
                    'property "block" of pprof is not supported: Python does not record which threads wait; remove it',
                )
        read_properties(directives, cls.PROPERTIES)
        return cls(address)

    async def start(self, runtime: Runtime) -> None:
        """Serve the pages."""
        self._runtime = runtime
        page = HttpPage(self.answer, is_slow=True, prepare=self.prepare)
        runtime.serve_http(self.address, {PATH: page, f"{PATH}/": page})

    async def stop(self) -> None:
        """End a running profile; its client gets what was collected."""
        self._stopped.set()

    def prepare(self) -> None:
        """Collect the stacks, in the event loop's thread, because asyncio.all_tasks() needs the running loop."""
        self._stacks = _stacks()

    def answer(self, path: str) -> Page:
        """Answer `/debug/pprof/NAME?OPTION=VALUE`; blocks for the `seconds` of a profile."""
        path, _, query = path.partition("?")
        options = {name: values[-1] for name, values in parse_qs(query).items()}
        name = path.removeprefix(PATH).removeprefix("/")
        if name == "":
            return 200, TEXT, INDEX.encode()
        if name == "cmdline":
            return 200, TEXT, "\0".join(sys.orig_argv).encode()
        if name == "goroutine":
            return 200, TEXT, self._stacks.encode()
        take = {"profile": self._profile, "heap": self._heap}.get(name)
        return _missing if take is None else self._take(take, options)

    def _take(self, take: Callable[[dict[str, str]], Page], options: dict[str, str]) -> Page:
        if not self._in_use.acquire(blocking=False):
            return 500, TEXT, b"another profile is running; retry later\n"
        try:
            return take(options)
        except ValueError as error:
            return 400, TEXT, f"{error}\n".encode()
        finally:
            self._in_use.release()

    def _profile(self, options: dict[str, str]) -> Page:
        seconds = _seconds(options, PROFILE_SECONDS)
        began = self._runtime.wall()
        profile = sample(seconds, self._stopped.wait, self._runtime.clock)
        if options.get("debug", "0") != "0":
            return 200, TEXT, folded(profile).encode()
        return 200, _BINARY, to_pprof(profile, began)

    def _heap(self, options: dict[str, str]) -> Page:
        seconds = _seconds(options, HEAP_SECONDS)
        if tracemalloc.is_tracing():
            return 500, TEXT, b"tracemalloc is already in use\n"
        tracemalloc.start()
        try:
            self._stopped.wait(seconds)
            gc.collect()
            found = tracemalloc.take_snapshot().statistics("lineno")
        finally:
            tracemalloc.stop()
        lines = [f"{sum(each.size for each in found)} bytes in {seconds:g} s\n"]
        for each in found[:HEAP_LINES]:
            place = each.traceback[0]
            lines.append(f"{each.size:>12} bytes {each.count:>8} blocks {place}\n")
        return 200, TEXT, "".join(lines).encode()


def _seconds(options: dict[str, str], default: float) -> float:
    text = options.get("seconds", "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f'invalid seconds "{text}"; give more than 0 and at most {MAX_SECONDS:g}')
    return seconds


def _stacks() -> str:
    """Return the stacks of all tasks and threads as text."""
    lines = []
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        frames = task.get_stack()
        lines.append(f"task {task.get_name()}:\n")
        lines += [
            f"    {frame.f_code.co_qualname} {frame.f_code.co_filename}:{frame.f_lineno}\n"
            for frame in reversed(frames)
        ]
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        lines.append(f"thread {names.get(ident, ident)}:\n")
        lines += [f"    {call.function} {call.file}:{call.line}\n" for call in stack_of(frame)]
    return "".join(lines)
