"""The seam between the kubernetes plugin and where the cluster comes from.

Path: source -> Store.apply.  The plugin reads a stream of events and does not know who sends it; sources stand in
hsdns/sources/, one a file, and the Corefile property `source NAME ARGUMENT...` picks one.
Rule 1: deliver() takes a batch in one step of the loop, so no query sees half of it.
Rule 2: the first Synced comes after everything that existed at the start; a source that meets bad input later reports
        it and delivers nothing, so that what was served before goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol, Self

from hsdns.cluster.objects import Event
from hsdns.corefile.tree import Token
from hsdns.metrics import Registry

Deliver = Callable[[Sequence[Event]], None]


class Report(Protocol):
    """How a source tells the operator something: a level of logging and a sentence."""

    def __call__(self, level: int, message: str) -> None:
        """Report; `level` is one of module logging's."""


class Surroundings(Protocol):
    """What a source is given of the world besides the cluster: chance, metrics and clocks.  chain.Runtime is one."""

    random: Random
    metrics: Registry

    def clock(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Seconds since the epoch."""


class Source(Protocol):
    """A cluster that can be watched."""

    def check(self) -> list[str]:
        """Sentences about what is missing (files, say), for -validate and the log; contacts nothing."""

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver what can be had at once, without waiting; Synced too where that is all.  Called before watch()."""

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver changes until cancelled."""

    def silence(self, now: float) -> float:
        """Seconds since the source was last sure of the cluster's state, 0.0 where it always is; `now` is monotonic."""


class NamedSource(Source, Protocol):
    """A source that the property `source NAME ARGUMENT...` can name."""

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Read the words after `source`; raise CorefileError.  Opens nothing; relative paths start at `base_dir`."""
