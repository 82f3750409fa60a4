"""Since when the API server is there, or away: for the log, the metrics and the strict form of ready.

Path: watcher.py tells it what happened; sources/api_server.py and the operator ask.
Rule 1: an outage is one line when it begins, one a minute while it lasts or where its cause changes, and one when it is
        over; each says since when.
Rule 2: whoever is back from an outage wakes the others, so that all are back together.  An answer that begins well
        is no return yet: a server can say 200 and then that it cannot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from hsdns.apiserver.backoff import FIRST
from hsdns.apiserver.reflector import Key, Observer, Reflector
from hsdns.apiserver.resource import Scope
from hsdns.cluster.source import Report
from hsdns.metrics import Labels, Registry

REPEAT: Final = 60.0  # seconds between two lines about one outage


class _Outage(NamedTuple):
    began: float  # monotonic
    since: str  # wall time
    cause: str
    logged: float


class WatchMetrics:
    """The families `hsdns_watch_*`, each by resource and namespace ("" for all of them)."""

    def __init__(self, registry: Registry) -> None:
        labels = ("resource", "namespace")
        self.events = registry.counter(
            "hsdns_watch_events_total", "Watch events received, by type.", (*labels, "type")
        )
        self.requests = registry.counter(
            "hsdns_watch_requests_total",
            "Lists and watches asked for, by what for and HTTP status (none: not reached).",
            (*labels, "purpose", "code"),
        )
        self.failures = registry.counter(
            "hsdns_watch_failures_total", "Lists and watches that failed or broke off.", labels
        )
        self.relists = registry.counter(
            "hsdns_watch_relists_total",
            "Whole states read, by why: start, expired (history gone), errors, distrust.",
            (*labels, "reason"),
        )
        self.missed = registry.counter(
            "hsdns_watch_missed_deletions_total",
            "Deletions that no event told and a whole state did.",
            labels,
        )
        self.connected = registry.gauge(
            "hsdns_watch_connected", "1 while a watch is open, 0 while there is none.", labels
        )
        self.away = registry.gauge(
            "hsdns_watch_away_since_timestamp_seconds",
            "When the API server was lost, in seconds since the epoch; 0 while it is there.",
            labels,
        )
        self.contact = registry.gauge(
            "hsdns_watch_last_contact_timestamp_seconds",
            "When the API server was last heard of, in seconds since the epoch.",
            labels,
        )
        self.objects = registry.gauge(
            "hsdns_watch_objects", "Objects known from the API server.", labels
        )


class Contact:
    """What is known of one API server's being there; `server` names it, once its address is known."""

    def __init__(
        self,
        server: Callable[[], str],
        report: Report,
        metrics: WatchMetrics,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.metrics = metrics
        self._server = server
        self._report = report
        self._clock = clock
        self._wall = wall
        self._heard: dict[Scope, float] = {}
        self._outages: dict[Scope, _Outage] = {}
        self._reached = asyncio.Event()

    def add(self, scope: Scope) -> None:
        """Take note of a scope that will be watched."""
        self._heard[scope] = float("-inf")
        self.metrics.connected.set(0, labels_of(scope))
        self.metrics.away.set(0, labels_of(scope))

    def remove(self, scope: Scope) -> None:
        """Forget a scope that is no longer watched."""
        self._heard.pop(scope, None)
        self._outages.pop(scope, None)
        for gauge in (self.metrics.connected, self.metrics.away, self.metrics.contact):
            gauge.values.pop(labels_of(scope), None)

    def silence(self, now: float) -> float:
        """Seconds since the scope that was heard of least; infinite while one was never."""
        return now - min(self._heard.values(), default=float("-inf"))

    def heard(self, scope: Scope) -> None:
        """Take that bytes of an answer have come."""
        self._heard[scope] = self._clock()
        self.metrics.contact.set(self._wall(), labels_of(scope))

    def opened(self, scope: Scope) -> None:
        """Take that a list or watch has been answered with 200."""
        self.heard(scope)
        self.metrics.connected.set(1, labels_of(scope))

    def settled(self, scope: Scope) -> None:
        """Take that what was opened is of use: it brings events, or lasts."""
        self.metrics.away.set(0, labels_of(scope))
        outage = self._outages.pop(scope, None)
        if outage is not None:
            self._reached.set()
            self._reached = asyncio.Event()
            seconds = self._clock() - outage.began
            self._report(
                logging.INFO,
                f"{scope} can be watched at {self._server()} again, after {seconds:.0f} s",
            )

    def closed(self, scope: Scope) -> None:
        """Take that the answer is over."""
        self.metrics.connected.set(0, labels_of(scope))

    def lost(self, scope: Scope, reflector: Reflector, pause: float) -> None:
        """Take that it failed, and will be tried again in `pause` seconds."""
        labels = labels_of(scope)
        self.metrics.failures.inc(labels)
        self.metrics.connected.set(0, labels)
        now, cause = self._clock(), reflector.failure
        outage = self._outages.get(scope)
        if outage is None:
            outage = _Outage(now, _time(self._wall()), "", float("-inf"))
            self.metrics.away.set(self._wall(), labels)
        if cause != outage.cause or now - outage.logged >= REPEAT:
            state = (
                "still serving the last known state"
                if reflector.synced
                else "nothing has been read yet"
            )
            self._report(
                logging.ERROR,
                f"cannot watch {scope} at {self._server()}: {cause} "
                f"(since {outage.since}; {state}; retrying in {pause:.1f} s)",
            )
            outage = outage._replace(cause=cause, logged=now)
        self._outages[scope] = outage

    async def wait(self, seconds: float) -> None:
        """Wait, though not longer than until another scope is back, and for a moment in any case."""
        at_least = min(seconds, FIRST)
        await asyncio.sleep(at_least)
        try:
            async with asyncio.timeout(seconds - at_least):
                await self._reached.wait()
        except TimeoutError:
            pass


class ScopeObserver(Observer):
    """Counts what one reflector tells, and logs what the operator should know."""

    def __init__(
        self,
        scope: Scope,
        metrics: WatchMetrics,
        report: Report,
        reject: Callable[[str, Key, str], None],
    ) -> None:
        self._scope = scope
        self._labels = labels_of(scope)
        self._metrics = metrics
        self._report = report
        self._reject = reject

    def received(self, kind: str) -> None:
        """Count an event."""
        self._metrics.events.inc((*self._labels, kind))

    def rejected(self, key: Key, reason: str) -> None:
        """Pass on that an object could not be read."""
        self._reject(self._scope.resource.kind, key, reason)

    def relisted(self, reason: str, missed: int) -> None:
        """Count a whole state, and log one that was not the first."""
        self._metrics.relists.inc((*self._labels, reason))
        if missed:
            self._metrics.missed.inc(self._labels, missed)
        if reason != "start":
            self._report(
                logging.WARNING,
                f"{self._scope} had to be read anew ({reason}); {missed} deletions had been missed",
            )


def labels_of(scope: Scope) -> Labels:
    """The labels of a scope's metrics."""
    return scope.resource.plural, scope.namespace or ""


def _time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
