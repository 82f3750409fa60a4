"""The memory of the process: when Python looks for circles of objects, and what glibc's malloc keeps.

Path: cli/launch.py sets it; server/lifecycle.py and sources/api_server.py say when there is much that stays.
Rule 1: a collection stops all threads for 0.3 µs for each object that it visits, so each visits few: the young are
        looked at twice, a few thousand at a time, and a full one comes when a million more blocks are allocated.
Rule 2: what stays (a configuration, a cluster) is exempted with keep() once it is there, and no full one comes while
        a configuration is made (growing()).  So a full one visits the cache and what is in work.
Rule 3: what was exempted is freed by reference counting alone, so a configuration is taken apart when it has stopped.
Rule 4: events replace long-lived objects: as many are freed as made.  Python counts new objects less freed ones, and
        would find hundreds of thousands of young ones too late.  Of the old ones it counts those that become old, not
        those that are freed later, and would visit all of them in vain.  So collect_due() counts what is there.
Rule 5: none of this happens before set_up_collector(), so that tests and other programs have the collector that they
        know.
Rule 6: what has LARGE octets or more is a mapping of its own, which goes back to the kernel when it is freed.  Alone,
        glibc raises that bound up to 32 MiB as soon as something larger has been freed, such as the text of a
        Corefile or the answer table of a listener that has stopped.  From then on all buffers share a heap that only
        grows: docs/contributing/benchmarks.md has what that costs in a soak.
        LARGE and TRIM are above READ, the buffer that uvloop has made and shortened for each record of TLS: as a
        mapping, or where the heap is trimmed each time, it costs more than to decrypt what is in it.
Rule 7: threads share ARENAS heaps, as what one has freed is of no use to another with a heap of its own.
Rule 8: who has set glibc's own variables knows better.
Source: mallopt(3).
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

READ: Final = 256 * 1024  # octets
LARGE: Final = READ + 64 * 1024  # octets
TRIM: Final = 4 * READ  # octets that may be free at the end of a heap
ARENAS: Final = 2
_PARAMETERS: Final = {
    -3: LARGE,  # M_MMAP_THRESHOLD
    -1: TRIM,  # M_TRIM_THRESHOLD
    -8: ARENAS,  # M_ARENA_MAX
}
_VARIABLES: Final = ("MALLOC_", "GLIBC_TUNABLES")

Mallopt = Callable[[int, int], int]


def set_up_allocator(
    environ: Mapping[str, str] = os.environ, mallopt: Mallopt | None = None
) -> bool:
    """Follow the policy from now on; tell whether the C library has done all of it."""
    if any(name.startswith(_VARIABLES) for name in environ):
        return False
    mallopt = mallopt or _find_mallopt()
    if mallopt is None:
        return False
    done = [mallopt(*each) for each in _PARAMETERS.items()]
    return all(done)


def _find_mallopt() -> Mallopt | None:
    """That of the C library; musl and macOS have none."""
    import ctypes  # noqa: PLC0415 - takes 2 ms, which only a server needs

    found: Mallopt | None = getattr(ctypes.CDLL(None), "mallopt", None)
    return found


THRESHOLDS: Final = (1_000, 4, 250)  # new objects, collections of the youngest, of the next
# Blocks of Python's allocator more than after the last full collection, for the next one.  An object has one or two.
# To count the objects themselves takes as long as to collect them; this takes 0.2 ms.
MORE: Final = 1_000_000
LOOK: Final = 100  # calls of collect_due() from one count of the blocks to the next
_NEVER: Final = 1 << 30
_is_set_up = False
_growing = 0
# At most so many objects survived collect_due() since it last looked at the next generation.
_survivors = 0
_blocks = 0  # after the last full collection
_calls = 0
_changing = threading.Lock()


def set_up_collector() -> None:
    """Follow the policy from now on."""
    global _is_set_up
    _is_set_up = True
    gc.set_threshold(*THRESHOLDS)


def begin() -> None:
    """Collect nothing until keep(), as nearly all that a start makes stays: that takes a tenth of its time."""
    gc.disable()


def keep() -> None:
    """Exempt all that there is from collections; circles among the youngest objects are collected before.

    Not those of a start: of the 140,000 objects that there are when 15,000 Services have been read, 234 are in circles.
    """
    global _blocks
    if _is_set_up:
        if gc.isenabled():
            gc.collect(1)
        gc.enable()
        gc.freeze()
        _blocks = sys.getallocatedblocks()


def collect_due() -> None:
    """Collect the young objects if they are many, all if they have become many; to be called ten times a second."""
    global _calls
    if not _is_set_up:
        return
    _calls += 1
    if _calls == 1:
        _count(0)  # from now on, full collections come from here alone
    _collect_young()
    if _calls % LOOK == 0 and not _growing:
        _collect_all()


def _collect_all() -> None:
    global _blocks
    if sys.getallocatedblocks() > _blocks + MORE:
        gc.collect()
        _blocks = sys.getallocatedblocks()


def _collect_young() -> None:
    global _survivors
    found = len(gc.get_objects(generation=0))
    if found < THRESHOLDS[0]:
        return
    _survivors += found
    if _survivors < THRESHOLDS[0] * THRESHOLDS[1]:
        gc.collect(0)
    else:
        _survivors = 0
        gc.collect(1)


@contextmanager
def growing() -> Iterator[None]:
    """Have no full collection meanwhile, in any thread; keep() is for the caller, if what was made stays."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    global _growing
    with _changing:
        _growing += change
        if _is_set_up:
            is_automatic = not _growing and not _calls
            gc.set_threshold(*THRESHOLDS[:2], THRESHOLDS[2] if is_automatic else _NEVER)
