"""The part of a load test that follows changes until each server shows them.

Path: cli/load.py -> here -> load/prober_process.py, load/follower.py (in the cluster's thread), load/propagation.py.
Rule: without -verify, or with -probes 0, no change is followed, and no process is started.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hsdns.load.follower import Follower
from hsdns.load.prober_process import Place, ProberProcess
from hsdns.load.propagation import Propagation
from hsdns.load.propagation_report import propagation_report
from hsdns.wire.encode import encode_query

if TYPE_CHECKING:
    from hsdns.cli.load_cluster import LoadCluster
    from hsdns.cli.load_flags import LoadSettings
    from hsdns.load.propagation_counts import PropagationReport
    from hsdns.load.questions import Question
    from hsdns.wire.message import Query


class Following:
    """Processes the messages of the prober; without one it does nothing."""

    def __init__(
        self,
        prober: ProberProcess | None = None,
        follower: Follower | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        self._prober = prober
        self._follower = follower
        self._propagation = propagation

    def take(self) -> None:
        """Process new messages."""
        if self._prober is not None and self._propagation is not None:
            for kind, content in self._prober.messages():
                self._propagation.take(kind, content)

    def report(
        self, server: int, questions: Sequence[Question], begin: float, seconds: float
    ) -> PropagationReport | None:
        """The report of a server, given by its index, in a run that began at `begin`; None if nothing was followed."""
        if self._propagation is None or self._follower is None:
            return None
        shown = self._propagation.shown(server, begin, begin + seconds)
        followed = [each for each in self._follower.events if begin <= each.seen <= begin + seconds]
        return propagation_report(shown, questions, len(followed), begin)


@contextlib.contextmanager
def following_changes(
    settings: LoadSettings,
    cluster: LoadCluster | None,
    places: Sequence[Place],
    queries: Sequence[Query],
) -> Iterator[Following]:
    """Follow changes at the rate of -probes until the context ends; raise LoadError."""
    truth = cluster.truth if cluster is not None else None
    if cluster is None or truth is None or not settings.probes:
        yield Following()
        return
    octets = [encode_query(each, 0)[2:] for each in queries]
    with ProberProcess(places, octets) as prober:
        follower = cluster.follow(settings.probes, prober.follow)

        def done(event: int, left: int) -> None:
            prober.done(event)
            follower.done(left)

        propagation = Propagation(
            truth, queries, follower.events, len(places), settings.slack, done
        )
        yield Following(prober, follower, propagation)
        truth.follow = lambda key, state, time, version: None
