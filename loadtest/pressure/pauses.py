"""Prevents full garbage collections in a process whose clock times others.

Path: apiserver/control.py (when an event is sent), pressure/cli.py (when an answer arrives) -> here.
Rule 1: a full collection visits all objects and blocks the interpreter meanwhile: 210 ms in an API server of 10,000
        Services, which a soak would count as a delay of the server under test.  Objects that exist now are exempted,
        and of later ones only the youngest generations are collected.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = (2_000, 5)  # new objects, collections of the youngest generation
_NEVER: Final = 1 << 30


def avoid_pauses() -> None:
    """Exempt all existing objects, and run no full collection from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG, _NEVER)
