"""SIGTERM, which a deleted pod gets: a load ends as with Ctrl-C.

Path: cli/load.py -> here; load/run.py checks whether it arrived.
Rule 1: before a load begins it raises KeyboardInterrupt, because there is nothing to report.
Rule 2: from then on it is only recorded, and the run checks for it.  So it cannot interrupt, for example, the writing
        of the report, and a second one, which `timeout` sends, has no effect.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Termination:
    """Records SIGTERM; a context manager that does nothing outside the main thread."""

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
        """Whether it has arrived since the previous call; the first call marks the begin of the load."""
        self._has_begun = True
        came, self._came = self._came, False
        return came

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._has_begun:
            raise KeyboardInterrupt
        self._came = True
