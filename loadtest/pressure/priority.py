"""Gives measuring processes and threads priority over attackers, if the system allows it.

Path: judge.py, probes.py (threads), clients.py and run.py (processes) -> here.
Rule 1: if two cores are fully used, a client that waits for a CPU would count its own wait as the server's.
Source: setpriority(2), which on Linux applies to a single thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Final

NICE: Final = -10


def raise_priority(pid: int | None = None) -> None:
    """Raise the priority of a process with one thread, or of this thread; without the permission, do nothing."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id() if pid is None else pid, NICE)
