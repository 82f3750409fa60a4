"""The seam between the kubernetes plugin and where the cluster comes from.

Path: source -> Store.apply.  The plugin reads a stream of events and does not know who sends it; sources stand in
hsdns/sources/, one a file, and the Corefile property `source NAME ARGUMENT...` picks one.
Rule 1: deliver() takes a batch in one step of the loop, so no query sees half of it.
Rule 2: the first Synced comes after everything that existed at the start; a source that meets bad input later reports
        it and delivers nothing, so that what was served before goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

from hsdns.cluster.objects import Event
from hsdns.corefile.tree import Token

Deliver = Callable[[Sequence[Event]], None]


class Report(Protocol):
    """How a source tells the operator something: a level of logging and a sentence."""

    def __call__(self, level: int, message: str) -> None:
        """Report; `level` is one of module logging's."""


class Source(Protocol):
    """A cluster that can be watched."""

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Read the words after `source`; raise CorefileError.  Opens nothing; relative paths start at `base_dir`."""

    def check(self) -> list[str]:
        """Sentences about what is missing (files, say), for -validate and the log; contacts nothing."""

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver what can be had at once, without waiting; Synced too where that is all.  Called before watch()."""

    async def watch(self, deliver: Deliver, report: Report) -> None:
        """Deliver changes until cancelled."""
