"""When Python looks for circles of objects that nothing leads to: one policy for the process.

Path: cli/launch.py sets it; server/lifecycle.py and sources/api_server.py say when there is much that stays.
Rule 1: a collection stops all threads for 0.3 µs for each object that it visits, so each visits few: the young are
        looked at twice, a few thousand at a time, and a full one comes when a million more have survived.
Rule 2: what stays (a configuration, a cluster) is exempted with keep() once it is there, and no full one comes while
        a configuration is made (growing()).  So a full one visits the cache and what is in work.
Rule 3: what was exempted is freed by reference counting alone, so a configuration is taken apart when it has stopped.
Rule 4: Python counts new objects less freed ones.  A server that replaces what stays, as events do, would have hundreds
        of thousands of young objects before it looks at them, so collect_young() counts what is there.
Rule 5: none of this happens before set_up(), so that tests and other programs have the collector that they know.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (1_000, 4, 250)  # new objects, collections of the youngest, of the next
_NEVER: Final = 1 << 30
_is_set_up = False
_growing = 0
_survivors = 0  # at most so many objects survived collect_young() since it last looked at the next generation
_changing = threading.Lock()


def set_up() -> None:
    """Follow the policy from now on."""
    global _is_set_up
    _is_set_up = True
    gc.set_threshold(*THRESHOLDS)


def keep() -> None:
    """Exempt all that there is from collections; circles among the youngest objects are collected before."""
    if _is_set_up:
        gc.collect(1)
        gc.freeze()


def collect_young() -> None:
    """Collect the young objects if they are many; to be called some times a second."""
    global _survivors
    if not _is_set_up:
        return
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
            gc.set_threshold(*THRESHOLDS[:2], _NEVER if _growing else THRESHOLDS[2])
