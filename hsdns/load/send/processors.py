"""The processor that the process that sends has to itself, so that what counts does not delay it.

Path: process.py -> here -> /proc/stat (proc(5)), sched_setaffinity(2).
Rule 1: it is the one on which others ran least, and another one as soon as others run there for more than BUSY of the
        time, as they would take it for some milliseconds at once.
Rule 2: where there are at most FEW processors, the kernel places the processes better.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from hsdns.load.errors import LoadError

AUTO: Final = "auto"
NONE: Final = "none"
FEW: Final = 2
BUSY: Final = 0.1
FIRST_LOOK: Final = 0.1  # seconds
LOOK_EVERY: Final = 1.0
_STAT: Final = Path("/proc/stat")


def read_busy(text: str) -> dict[int, int]:
    """In how many ticks of the kernel processes have run on each processor: what /proc/stat says."""
    rows = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return {int(row[0][3:]): sum(map(int, row[1:4])) for row in rows if row[0] != "cpu"}


class Choice:
    """Chooses one of several processors for a process; no clock."""

    def __init__(self, allowed: Collection[int]) -> None:
        self._allowed = sorted(allowed, reverse=True)
        self._seen: tuple[Mapping[int, int], int, float] = {}, 0, 0.0
        self.chosen: int | None = None

    def look(self, busy: Mapping[int, int], own: int, ticks: float) -> bool:
        """Look at the ticks so far, those of the process among them; return whether another one is chosen."""
        before, own_before, ticks_before = self._seen
        self._seen = busy, own, ticks
        if not before:
            return False
        others = {each: busy.get(each, 0) - before.get(each, 0) for each in self._allowed}
        if self.chosen is not None:
            others[self.chosen] -= own - own_before
            if others[self.chosen] <= BUSY * (ticks - ticks_before):
                return False
        idlest = min(others, key=others.__getitem__)
        if self.chosen is not None and others[idlest] * 2 > others[self.chosen]:
            return False
        self.chosen = idlest
        return True


class OwnProcessor:
    """Gives a process the processor that -cpu says, and this process the others, until close().

    Raise LoadError for one that this process may not use.
    """

    def __init__(self, process: int, wanted: str) -> None:
        self._process = process
        self._before = os.sched_getaffinity(0) if sys.platform == "linux" else set()
        self._choice = None
        if wanted == AUTO and len(self._before) > FEW:
            self._choice = Choice(self._before)
        elif wanted.isdigit() and int(wanted) not in self._before:
            known = ", ".join(map(str, sorted(self._before))) or "none that can be chosen"
            raise LoadError(f"--cpu {wanted}: the processors of this process are {known}")
        elif wanted.isdigit():
            self._give(int(wanted))
        self._looked = 0.0

    def choose(self) -> None:
        """Choose one now that the process waits."""
        if self._choice is not None:
            self._look(self._choice)
            time.sleep(FIRST_LOOK)
            self._look(self._choice)

    def watch(self) -> None:
        """Choose another one if others run there; looks rarely."""
        if self._choice is not None and time.monotonic() - self._looked > LOOK_EVERY:
            self._look(self._choice)

    def close(self) -> None:
        """Let this process run on all that it had."""
        if self._before:
            os.sched_setaffinity(0, self._before)

    def _look(self, choice: Choice) -> None:
        self._looked = time.monotonic()
        try:
            # After the name, which may have spaces: utime and stime are the fields 14 and 15.
            fields = Path(f"/proc/{self._process}/stat").read_text().rpartition(")")[2].split()
            busy, own = read_busy(_STAT.read_text()), int(fields[11]) + int(fields[12])
        except (OSError, ValueError, IndexError):
            return  # it has ended, or this is a container without them
        ticks = self._looked * os.sysconf("SC_CLK_TCK")
        if choice.look(busy, own, ticks) and choice.chosen is not None:
            self._give(choice.chosen)

    def _give(self, processor: int) -> None:
        os.sched_setaffinity(self._process, {processor})
        os.sched_setaffinity(0, self._before - {processor} or self._before)
