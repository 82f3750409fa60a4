"""Gives measuring processes and threads priority over attackers, if the system allows it, and servers over others.

Path: judge.py, probes.py (threads), clients.py and cli.py (processes) -> here.
Rule 1: if two cores are fully used, a client that waits for a CPU would count its own wait as the server's.
Rule 2: Linux divides cores between sessions first, so a process with a lower priority than those of other sessions has
        a session of its own, whose priority is lowered.
Source: setpriority(2), which on Linux applies to a single thread; sched(7), autogroup.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

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
