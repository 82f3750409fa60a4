"""What becomes of the process: its queue of misses is full, or it is killed and starts again.

Path: words.py makes them -> server/udp_listener.py asks the rules about each miss; server/restarts.py has the process
restart when the time of a rule has come.
Rule 1: a miss is known by its client and listener; what it asks has not been read yet.
Rule 2: the process restarts once for a rule, at its time, or each time when too many queries are pending.
"""

from __future__ import annotations

from typing import ClassVar, Final

from hsdns.faults.action import Action
from hsdns.faults.asked import UNKNOWN, Asked
from hsdns.faults.connection import foreign_selector
from hsdns.faults.selector import And, Period, Selector

SELECTORS: Final = ("client", "pod", "asked", "listener", "share", "nth", "after", "before")


class QueueFull(Action):
    """Shed the queries over UDP that the answer table does not know."""

    about: ClassVar[str] = "miss"
    in_corefile: ClassVar[bool] = False
    text = "queue-full"
    replaces = True

    def fits(self, asked: Asked) -> bool:
        return asked.transport in ("udp", UNKNOWN)

    def misfit(self, selector: Selector) -> str:
        return foreign_selector(self.text, "before a query is read", selector, SELECTORS)


class Restart(Action):
    """Kill the process, and start it again after so many seconds; with `pending`, each time so many queries wait."""

    about: ClassVar[str] = "process"
    in_corefile: ClassVar[bool] = False
    replaces = True

    def __init__(self, text: str, dead: float = 0.0, pending: int | None = None) -> None:
        self.text, self.dead, self.pending = text, dead, pending
        self.times = 1 if pending is None else None

    def misfit(self, selector: Selector) -> str:
        if isinstance(selector, And) and not selector.inside:
            return ""
        if isinstance(selector, Period) and selector.word == "after":
            return ""
        word = self.text.split()[0]
        return (
            f'"{word}" is about the process, so "after TIME" is the only selector that it has, once'
        )


def due_at(selector: Selector) -> float:
    """The age of its rule, in seconds, from which on a Restart is due."""
    return selector.seconds if isinstance(selector, Period) else 0.0
