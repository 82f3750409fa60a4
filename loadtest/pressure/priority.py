"""Keeps measuring processes from waiting: they have priority over attackers, and make no full garbage collection.

Path: judge.py, probes.py (threads), clients.py and cli.py (processes), apiserver/control.py -> here.
Rule 1: if two cores are fully used, a client that waits for a CPU would count its own wait as the server's.  It has
        priority, if the system allows it.
Rule 2: Linux divides cores between sessions first, so a process with a lower priority than those of other sessions has
        a session of its own, whose priority is lowered.
Rule 3: a full collection visits all objects and blocks the interpreter meanwhile: 210 ms in an API server of 10,000
        Services, which a soak would count as a delay of the server under test.  In a process whose clock times others,
        objects that exist now are exempted, and of later ones only the youngest generations are collected.
Source: setpriority(2), which on Linux applies to a single thread; sched(7), autogroup.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from pathlib import Path
from typing import Final

YOUNG: Final = (2_000, 5)  # new objects, collections of the youngest generation
_NEVER: Final = 1 << 30


def avoid_pauses() -> None:
    """Exempt all existing objects, and run no full collection from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG, _NEVER)


NICE: Final = -10
LOW: Final = 15


def raise_priority(pid: int | None = None) -> None:
    """Raise the priority of a process with one thread, or of this thread; without the permission, do nothing."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id() if pid is None else pid, NICE)


def lower_priority(pid: int) -> None:
    """Let the leader of a session run when no process of another session wants its core."""
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, LOW)
    with contextlib.suppress(OSError):  # Linux may be built without
        Path(f"/proc/{pid}/autogroup").write_text(str(LOW))
