"""The interface of sources, which deliver the objects of a cluster to the kubernetes plugin as events.

Path: source -> Store.apply.  Each file in hsdns/sources/ implements a source; the Corefile property `source NAME
ARGUMENT...` selects one; without it the source is the API server.
Rule 1: deliver() applies a batch in one call, event by event; a query may see the effect of the first events only.
        Only one thread calls it.
Rule 2: Synced follows the objects that existed at the start.  A source reports invalid input and delivers nothing of
        it, so that the previous state is still served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol, Self

from hsdns.cluster.objects import Event
from hsdns.cluster.reading import Lead, Reading
from hsdns.corefile.tree import Token
from hsdns.metrics import Registry

Deliver = Callable[[Sequence[Event]], None]


class Report(Protocol):
    """Passes a sentence on to the operator."""

    def __call__(self, level: int, message: str) -> None:
        """Report; `level` is a level of module logging."""


class Surroundings(Protocol):
    """The random numbers, metrics and clocks that a source uses; chain.Runtime implements it."""

    random: Random
    metrics: Registry

    def clock(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Seconds since the epoch."""


class Source(Protocol):
    """Delivers the objects of a cluster and their changes."""

    def check(self) -> list[str]:
        """Sentences about what is missing (files, for example), for -validate and the log; makes no connections."""

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver what is available without waiting, and Synced if that is everything; called before watch()."""

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver objects and their changes until cancelled."""

    async def read(self, lead: Lead) -> Reading:
        """The current objects for a question; call it on the event loop that runs watch()."""

    def silence(self, now: float) -> float:
        """Seconds since the source last knew the state, 0.0 if it always knows it; `now` in monotonic seconds."""


class NamedSource(Source, Protocol):
    """A source that the property `source NAME ARGUMENT...` can select."""

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Parse the arguments of `source`; raise CorefileError.  Opens nothing; paths are relative to `base_dir`."""
