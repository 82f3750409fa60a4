"""When Python looks for circles of objects that nothing leads to: one policy for the process.

Path: cli/launch.py sets it; server/lifecycle.py and sources/api_server.py say when there is much that stays.
Rule 1: a collection stops all threads for 0.3 µs for each object that it visits, so each visits few: the young are
        looked at twice, a few thousand at a time, and a full one comes when 250,000 more have survived.
Rule 2: what stays (a configuration, a cluster) is exempted with keep() once it is there, and no full one comes while
        it is made (growing()).  So a full one visits the cache and what is in work.
Rule 3: what was exempted is freed by reference counting alone, so a configuration is taken apart when it has stopped.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (2_000, 5, 25)  # new objects, collections of the youngest, of the next
_NEVER: Final = 1 << 30
_growing = 0
_changing = threading.Lock()


def set_up() -> None:
    """Follow the policy from now on."""
    gc.set_threshold(*THRESHOLDS)


def keep() -> None:
    """Exempt all that there is from collections; circles among the youngest objects are collected before."""
    gc.collect(1)
    gc.freeze()


@contextmanager
def growing() -> Iterator[None]:
    """Have no full collection meanwhile, in any thread; what was made is exempted in the end."""
    _count(1)
    try:
        yield
    finally:
        keep()
        _count(-1)


def _count(change: int) -> None:
    global _growing  # noqa: PLW0603 - Python has one collector a process
    with _changing:
        _growing += change
        youngest, next_one, _ = gc.get_threshold()
        gc.set_threshold(youngest, next_one, _NEVER if _growing else THRESHOLDS[2])
