"""A mutating fuzzer for code in Python, guided by the lines that an input reaches.

Path: run.py -> here -> targets.py.
Rule 1: an input that goes from one line to another as none before it did is kept, and mutated further.
Rule 2: the cost of an input is the number of lines that it executes, not seconds: it is the same on every machine.
Rule 3: randomness is handed in, so that a run can be repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from random import Random
from types import FrameType
from typing import Any, Final, NamedTuple

_INTERESTING: Final = (0, 1, 2, 4, 12, 16, 63, 64, 127, 128, 191, 192, 193, 254, 255)
_LONGEST_PIECE = 32  # octets that are inserted, deleted or copied at once
_CHANGES: Final = (1, 1, 1, 2, 2, 4)  # to one input

Edge = tuple[int, int, int]  # which code, from line, to line


class Target(NamedTuple):
    """What is fuzzed.

    `check` raises on a finding, whatever it raises.  `traced`: parts of the paths of the files whose lines guide and
    count.  An input of n octets may execute `lines + n * lines_an_octet` lines.  `tokens` are inserted into inputs.
    """

    name: str
    check: Callable[[bytes], None]
    traced: tuple[str, ...]
    tokens: tuple[bytes, ...]
    longest: int  # octets
    lines: int
    lines_an_octet: int


class TooCostly(AssertionError):
    """An input executes more lines than its length allows."""


class Finding(NamedTuple):
    """An input and what it raises."""

    octets: bytes
    error: BaseException


def execute(target: Target, octets: bytes) -> set[Edge]:
    """Check one input; return the edges that it takes.  Raises what the check raises, or TooCostly."""
    edges: set[Edge] = set()
    add, allowed = edges.add, target.lines + len(octets) * target.lines_an_octet
    left = allowed
    known: dict[str, bool] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        path = frame.f_code.co_filename
        is_traced = known.get(path)
        if is_traced is None:
            is_traced = known[path] = any(part in path for part in target.traced)
        if not is_traced:
            return None
        code, before = id(frame.f_code), 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before, left
            del argument
            if event == "line":
                number = frame.f_lineno
                add((code, before, number))
                before = number
                left -= 1
                if left < 0:
                    raise TooCostly(f"more than {allowed:,} lines for {len(octets):,} octets")
            return line

        return line

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        target.check(octets)
    finally:
        sys.settrace(outer)
    return edges


def mutate(octets: bytes, other: bytes, target: Target, random: Random) -> bytes:
    """Change an input in a few places; `other` is another input to take pieces from."""
    data = bytearray(octets)
    for _ in range(random.choice(_CHANGES)):
        at = random.randrange(len(data) + 1)
        length = random.randint(1, _LONGEST_PIECE)
        match random.randrange(9):
            case 0 if data:
                data[at % len(data)] ^= 1 << random.randrange(8)
            case 1 if data:
                data[at % len(data)] = random.choice(_INTERESTING)
            case 2 if data:
                data[at % len(data)] = random.randrange(256)
            case 3:
                del data[at : at + length]
            case 4:
                data[at:at] = random.randbytes(length)
            case 5 if other:
                start = random.randrange(len(other))
                data[at:at] = other[start : start + length]
            case 6 if other:
                start = random.randrange(len(other))
                data[at:] = other[start:]
            case 7:
                token = random.choice(target.tokens)
                data[at : at + (len(token) if random.getrandbits(1) else 0)] = token
            case _ if data:
                piece = data[at % len(data) :][:length]
                data[at:at] = piece * random.randint(1, 8)
    return bytes(data[: target.longest])


class Fuzzer:
    """Fuzzes one target from some seeds."""

    def __init__(self, target: Target, seeds: Sequence[bytes], random: Random) -> None:
        self.executed = 0
        self._target = target
        self._random = random
        self._seen: set[Edge] = set()
        self._kept: list[bytes] = []
        self._seeds = [*seeds, b""]

    @property
    def kept(self) -> int:
        """The number of inputs that reached something new."""
        return len(self._kept)

    @property
    def edges(self) -> int:
        """The number of edges taken so far."""
        return len(self._seen)

    def step(self) -> Finding | None:
        """Try one more input; return it if it is a finding."""
        if self._seeds:
            octets = self._seeds.pop(0)
        else:
            octets, other = self._random.choice(self._kept), self._random.choice(self._kept)
            octets = mutate(octets, other, self._target, self._random)
        self.executed += 1
        try:
            edges = execute(self._target, octets)
        except Exception as error:  # any exception is a finding
            return Finding(octets, error)
        if not edges <= self._seen or not self._kept:
            self._seen |= edges
            self._kept.append(octets)
        return None


def shorten(finding: Finding, target: Target) -> Finding:
    """Remove what a finding does not need, as long as it raises an error of the same type."""
    found, size = finding, len(finding.octets)
    while size := size // 2:
        at = 0
        while at < len(found.octets):
            shorter = found.octets[:at] + found.octets[at + size :]
            try:
                execute(target, shorter)
            except Exception as error:  # as above
                if type(error) is type(finding.error):
                    found = Finding(shorter, error)
                    continue
            at += size
    return found
