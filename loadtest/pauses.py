"""No full collection of Python's garbage collector in a process that is a clock for others.

Path: apiserver/control.py (when an event is sent), pressure/cli.py (when an answer arrives) -> here.
Rule 1: a full one visits all objects and holds the interpreter meanwhile: 210 ms in an API server of 10,000 Services,
        which a soak then counted as the delay of the server under test.  What stays is exempted, and of the rest only
        the young are looked at.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = (2_000, 5)  # new objects, collections of the youngest
_NEVER: Final = 1 << 30


def avoid_pauses() -> None:
    """Exempt all objects that there are, and make no full collection from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG, _NEVER)
