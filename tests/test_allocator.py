"""The policy of malloc: what is asked of the C library, and what it does in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from hsdns.memory import ARENAS, LARGE, READ, TRIM, set_up_allocator

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
READS = """
from resource import RUSAGE_SELF, getrusage
from hsdns import memory as allocator
assert allocator.set_up_allocator({})
bytes(allocator.READ)
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(200):
    found = bytearray(allocator.READ)[:10]
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_buffers_of_reads_stay_in_the_heap() -> None:
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, check=True)
    assert int(done.stdout) < 200 * READ // 4096 // 10


def _left(word: str) -> int:
    """Octets that a process still has of 400 buffers, all but the last one freed."""
    done = subprocess.run([sys.executable, "-c", CODE, word], capture_output=True, check=True)
    return int(done.stdout)
