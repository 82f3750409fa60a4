"""SIGTERM, as a pod that is deleted gets it: a load ends as with Ctrl-C.

Path: cli/load.py -> here; load/run.py asks whether it came.
Rule 1: before a load begins it is KeyboardInterrupt, for there is nothing to report.
Rule 2: from then on it is only noted, and the run asks for it.  So none comes at a bad moment, such as while the report
        is written, and a second one, which `timeout` sends, does no harm.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Termination:
    """Notes SIGTERM; a context manager, which does nothing where this is not the main thread."""

    def __init__(self) -> None:
        self._has_begun = False
        self._came = False
        self._before: Any = None

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)

    def take(self) -> bool:
        """Whether it has come since the question before; the first question says that the load has begun."""
        self._has_begun = True
        came, self._came = self._came, False
        return came

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._has_begun:
            raise KeyboardInterrupt
        self._came = True
