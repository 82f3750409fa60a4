"""A sampling CPU profiler, with output for pprof and as folded stacks.

Path: plugins/pprof runs it in a thread for the duration of a profile.
Source: pprof's profile.proto (github.com/google/pprof); folded stacks as flame graph tools read them.
Rule 1: a sample of a thread is weighted with the CPU time that it has used since the last one, so a waiting thread adds
        nothing.  If the kernel does not report CPU times, each sample counts as if the thread had run.
Rule 2: compiled code has no frames: its CPU time is that of the Python line that called it.
"""

from __future__ import annotations

import gzip
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

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


class _Strings:
    """The string table, whose first string is empty."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}

    def __getitem__(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)


def _encode(profile: Profile, wall: float) -> bytes:
    strings = _Strings()
    functions: dict[tuple[str, str], int] = {}
    locations: dict[Frame, int] = {}
    for stack in profile.counts:
        for frame in stack:
            functions.setdefault((frame.function, frame.file), len(functions) + 1)
            locations.setdefault(frame, len(locations) + 1)
    out = bytearray()
    for kind, unit in (("samples", "count"), ("cpu", "nanoseconds")):
        out += _message(1, _number(1, strings[kind]) + _number(2, strings[unit]))
    for stack, count in profile.counts.items():
        places = _packed(1, (locations[frame] for frame in stack))
        out += _message(2, places + _packed(2, (count, profile.nanoseconds[stack])))
    for frame, number in locations.items():
        line = _number(1, functions[frame.function, frame.file]) + _number(2, frame.line)
        out += _message(4, _number(1, number) + _message(4, line))
    for (function, file), number in functions.items():
        name = strings[function]
        out += _message(
            5,
            _number(1, number) + _number(2, name) + _number(3, name) + _number(4, strings[file]),
        )
    period_type = _number(1, strings["cpu"]) + _number(2, strings["nanoseconds"])
    for text in strings:
        out += _message(6, text.encode("utf-8", "replace"))
    out += _number(9, int(wall * 1e9)) + _number(10, int(profile.seconds * 1e9))
    out += _message(11, period_type) + _number(12, int(INTERVAL * 1e9))
    return bytes(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))
