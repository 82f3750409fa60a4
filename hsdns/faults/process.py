"""The actions on the process: its queue of misses is full, or it is killed and restarted.

Path: words.py creates them -> server/udp.py evaluates the rules for each miss; server/restarts.py restarts the
process when a rule is due.
Rule 1: of a miss, only its client and listener are known; the query has not been decoded yet.
Rule 2: a rule restarts the process once, at its time, or whenever too many queries are pending.
"""

from __future__ import annotations

from typing import ClassVar, Final

from hsdns.faults.action import Action
from hsdns.faults.asked import UNKNOWN, Asked
from hsdns.faults.connection import foreign_selector
from hsdns.faults.selector import And, Period, Selector

SELECTORS: Final = ("client", "pod", "asked", "listener", "share", "nth", "after", "before")


class QueueFull(Action):
    """Drop the UDP queries that are misses of the answer table."""

    about: ClassVar[str] = "miss"
    in_corefile: ClassVar[bool] = False
    text = "queue-full"
    replaces = True

    def fits(self, asked: Asked) -> bool:
        return asked.transport in ("udp", UNKNOWN)

    def misfit(self, selector: Selector) -> str:
        return foreign_selector(self.text, "before a query is read", selector, SELECTORS)


class Restart(Action):
    """Kill the process, and restart it after `dead` seconds; with `pending`, whenever this number of queries wait."""

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
    """The age of the rule, in seconds, at which a Restart is due."""
    return selector.seconds if isinstance(selector, Period) else 0.0
