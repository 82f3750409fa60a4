from __future__ import annotations

import gzip
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.plugins import pprof as profile_module
from hsdns.plugins.pprof import Frame, Profile, folded, sample, stack_of, to_pprof

INNER = Frame("inner", "/lib/a.py", 7)
OUTER = Frame("Outer.call", "/lib/b.py", 300)
PROFILE = Profile(
    Counter({(INNER, OUTER): 2, (OUTER,): 1}),
    Counter({(INNER, OUTER): 21_400_000, (OUTER,): 1_000_000}),
    0.5,
)


def fields(wire: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protocol buffers message: field number, and number or octets."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            octet = wire[at]
            at += 1
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return value

    while at < len(wire):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            yield key >> 3, wire[at : at + size]
            at += size


def read(wire: bytes) -> tuple[dict[int, list[int | bytes]], list[str]]:
    found: dict[int, list[int | bytes]] = {}
    for number, value in fields(gzip.decompress(wire)):
        found.setdefault(number, []).append(value)
    strings = [value.decode() for value in found[6] if isinstance(value, bytes)]
    return found, strings


def message(value: int | bytes) -> dict[int, int | bytes]:
    assert isinstance(value, bytes)
    return dict(fields(value))


def test_pprof_file() -> None:
    found, strings = read(to_pprof(PROFILE, wall=1_700_000_000.0))
    assert strings[0] == ""
    kinds = [message(kind) for kind in found[1]]
    assert [(strings[kind[1]], strings[kind[2]]) for kind in kinds] == [  # type: ignore[index]  # numbers, both
        ("samples", "count"), ("cpu", "nanoseconds"),
    ]  # fmt: skip
    functions = {
        each[1]: (strings[each[2]], strings[each[4]])  # type: ignore[index]  # numbers, both
        for each in map(message, found[5])
    }
    lines = {}
    for each in map(message, found[4]):
        line = message(each[4])
        lines[each[1]] = (*functions[line[1]], line[2])
    assert sorted(lines.values()) == sorted([tuple(INNER), tuple(OUTER)])
    stacks = {}
    for each in map(message, found[2]):
        places, values = each[1], each[2]
        assert isinstance(places, bytes)
        assert isinstance(values, bytes)
        numbers = [number for number, _ in _pairs(values)]
        stacks[tuple(lines[place] for place in places)] = numbers
    assert stacks == {
        (tuple(INNER), tuple(OUTER)): [2, 21_400_000],
        (tuple(OUTER),): [1, 1_000_000],
    }
    assert found[9] == [1_700_000_000_000_000_000]
    assert found[10] == [500_000_000]
    assert found[12] == [10_000_000]


def _pairs(packed: bytes) -> Iterator[tuple[int, None]]:
    value = shift = 0
    for octet in packed:
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            yield value, None
            value = shift = 0


@given(st.integers(0, 2**63 - 1))
def test_numbers(value: int) -> None:
    assert list(fields(profile_module._number(3, value))) == [(3, value)]


def test_folded() -> None:
    assert folded(PROFILE) == "Outer.call (b.py);inner (a.py) 21\nOuter.call (b.py) 1\n"


def test_folded_replaces_semicolons() -> None:
    """A semicolon in a name would separate calls."""
    odd = (Frame("a;b", "/c.py", 1),)
    assert folded(Profile(Counter({odd: 1}), Counter({odd: 2_000_000}), 1.0)) == "a:b (c.py) 2\n"


def test_stack_is_innermost_first_and_bounded() -> None:
    def deep(left: int) -> tuple[Frame, ...]:
        return deep(left - 1) if left else stack_of(sys._getframe())

    stack = deep(profile_module.MAX_DEPTH + 10)
    assert len(stack) == profile_module.MAX_DEPTH
    assert {frame.function.rpartition(".")[2] for frame in stack} == {"deep"}
    assert stack_of(None) == ()


@pytest.mark.parametrize("reported", [True, False])
def test_sample_weights_cpu_time(reported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock counts samples; the thread under test uses 3 ms of CPU time per sample."""
    used = {"ns": 0}

    def cpu_time(native_id: int) -> int | None:
        return used["ns"] if native_id == busy.native_id else 0

    monkeypatch.setattr(profile_module, "_cpu_time", cpu_time if reported else lambda _: None)
    over, begun, samples = threading.Event(), threading.Event(), 0

    def work() -> None:
        begun.set()
        over.wait(10)

    def wait(seconds: float) -> bool:
        nonlocal samples
        samples += 1
        used["ns"] += 3_000_000
        return samples > 100

    busy = threading.Thread(target=work)
    busy.start()
    begun.wait(10)
    try:
        profile = sample(5.0, wait, lambda: float(samples))
    finally:
        over.set()
        busy.join()
    found = {
        stack: profile.nanoseconds[stack]
        for stack in profile.counts
        if any(frame.function == work.__qualname__ for frame in stack)
    }
    assert sum(found.values()) == (15_000_000 if reported else 50_000_000)
    assert sum(profile.counts[stack] for stack in found) == 5
    assert profile.seconds == 5.0


def test_sample_ends_early() -> None:
    profile = sample(1000.0, lambda seconds: True, lambda: 0.0)
    assert not profile.counts


def test_cpu_time_of_a_thread_that_has_ended() -> None:
    assert profile_module._cpu_time(2**30) is None
