"""The policies of the garbage collector and of malloc."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from hsdns import memory
from hsdns.memory import (
    ARENAS,
    LARGE,
    THRESHOLDS,
    TRIM,
    collect_due,
    growing,
    keep,
    set_up_allocator,
    set_up_collector,
)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(memory, "_is_set_up", False)
    monkeypatch.setattr(memory, "_calls", 0)
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
    if frozen:  # tests/conftest.py exempts what was collected
        gc.freeze()


class Circle:
    """Something that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


def test_no_full_collection_comes_while_something_is_made() -> None:
    set_up_collector()
    assert gc.get_threshold() == THRESHOLDS
    with growing():
        with pytest.raises(KeyError), growing():
            raise KeyError
        assert gc.get_threshold()[:2] == THRESHOLDS[:2]
        assert gc.get_threshold()[2] > 1_000_000
    assert gc.get_threshold() == THRESHOLDS


def test_what_is_kept_is_not_visited_and_what_is_garbage_is_not_kept() -> None:
    set_up_collector()
    gc.unfreeze()
    kept, garbage = Circle(), Circle()
    freed = weakref.ref(garbage)
    del garbage
    keep()
    assert freed() is None
    assert gc.get_freeze_count() > 0
    assert not any(each is kept for each in gc.get_objects())


def test_the_young_are_few_although_as_many_are_freed() -> None:
    """What events replace is freed, so Python does not count it; the survivors are looked at after some rounds."""
    set_up_collector()
    kept = [[number] for number in range(30_000)]
    keep()
    circle = Circle()
    freed = weakref.ref(circle)
    del circle
    for start in range(0, len(kept), 3_000):
        for number in range(start, start + 3_000):
            kept[number] = [number]
        assert len(gc.get_objects(generation=0)) > THRESHOLDS[0]
        collect_due()
        assert len(gc.get_objects(generation=0)) < THRESHOLDS[0]
    assert len(gc.get_objects(generation=1)) < (THRESHOLDS[1] + 2) * THRESHOLDS[0]
    assert freed() is None
    before = len(gc.get_objects(generation=0))
    collect_due()
    assert len(gc.get_objects(generation=0)) >= before, "there are few"


@pytest.mark.parametrize("grows", [False, True])
def test_a_full_one_comes_for_what_is_there_and_not_for_what_survived(
    monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    """Objects that are replaced do not become more, however many of the new ones survive."""
    monkeypatch.setattr(memory, "MORE", 20_000)
    monkeypatch.setattr(memory, "LOOK", 2)
    full: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            full.append(phase)

    gc.callbacks.append(note)
    set_up_collector()
    kept: list[list[int]] = []
    keep()
    for turn in range(100):
        new = [[number] for number in range(2_000)]
        kept = [*kept, *new] if grows and turn < 20 else [*kept, *new][-4_000:]
        collect_due()
    gc.callbacks.remove(note)
    assert gc.get_threshold()[2] > 1_000_000
    assert (1 <= len(full) < 8) if grows else not full


# Buffers, every second of which is freed again, after a larger one was: the kernel has back what they had.
CODE = """
import os, sys
from hsdns import memory as allocator
if sys.argv[1] == "set":
    assert allocator.set_up_allocator({})
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
bytearray(1 << 24)
before = resident()
buffers = [bytearray(allocator.LARGE) for _ in range(400)]
del buffers[::2]
del buffers[:-1]
print(resident() - before)
"""


@pytest.mark.parametrize(
    ("environ", "result", "done", "asked"),
    [
        pytest.param({}, 1, True, [(-3, LARGE), (-1, TRIM), (-8, ARENAS)], id="all"),
        pytest.param({"PATH": "/bin"}, 1, True, [(-3, LARGE), (-1, TRIM), (-8, ARENAS)], id="other-variables"),
        pytest.param({}, 0, False, [(-3, LARGE), (-1, TRIM), (-8, ARENAS)], id="refused"),
        pytest.param({"MALLOC_ARENA_MAX": "4"}, 1, False, [], id="variable-of-malloc"),
        pytest.param({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}, 1, False, [], id="tunables"),
    ],
)  # fmt: skip
def test_what_is_asked(
    environ: dict[str, str], result: int, done: bool, asked: list[tuple[int, int]]
) -> None:
    calls: list[tuple[int, int]] = []

    def mallopt(parameter: int, value: int) -> int:
        calls.append((parameter, value))
        return result

    assert set_up_allocator(environ, mallopt) is done
    assert calls == asked


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_freed_buffers_are_given_back() -> None:
    left = {each: _left(each) for each in ("set", "unset")}
    assert left["set"] < 16 * LARGE < left["unset"]


# Sizes that do not stay in the C library cost a call of the kernel each time: 200 reads, of 10 octets at most.
def _left(word: str) -> int:
    """Octets that a process still has of 400 buffers, all but the last one freed."""
    done = subprocess.run([sys.executable, "-c", CODE, word], capture_output=True, check=True)
    return int(done.stdout)
