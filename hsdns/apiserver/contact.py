"""Reachability of the API server, for the log, the metrics and the strict form of ready.

Path: watcher.py reports what happened; sources/api_server.py and the operator read it.
Rule 1: an outage is logged once when it begins, once a minute while it lasts or when its cause changes, and once when
        it is over, each time with its beginning.
Rule 2: a watch that recovers wakes the others from their pauses.  A response with status 200 is no recovery yet,
        because an error may still follow in its body.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from hsdns.apiserver.backoff import FIRST_PAUSE
from hsdns.apiserver.reflector import Key, Observer, Reflector
from hsdns.apiserver.resource import Scope
from hsdns.apiserver.returning import Returning
from hsdns.cluster.source import Report
from hsdns.metrics import Labels, Registry

REPEAT: Final = 60.0  # seconds between two log lines about one outage


class _Outage(NamedTuple):
    began: float  # monotonic
    since: str  # wall time
    cause: str
    logged: float


class WatchMetrics:
    """The metrics `hsdns_watch_*`, each by resource and namespace ("" for all namespaces)."""

    def __init__(self, registry: Registry) -> None:
        labels = ("resource", "namespace")
        self.events = registry.counter(
            "hsdns_watch_events_total", "Watch events received, by type.", (*labels, "type")
        )
        self.requests = registry.counter(
            "hsdns_watch_requests_total",
            "Lists and watches requested, by purpose and HTTP status (none: not reached).",
            (*labels, "purpose", "code"),
        )
        self.failures = registry.counter(
            "hsdns_watch_failures_total", "Lists and watches that failed or ended early.", labels
        )
        self.relists = registry.counter(
            "hsdns_watch_relists_total",
            "Full lists read, by reason: start, expired (history gone), errors, distrust.",
            (*labels, "reason"),
        )
        self.missed = registry.counter(
            "hsdns_watch_missed_deletions_total",
            "Deletions that were found by a full list because no event reported them.",
            labels,
        )
        self.connected = registry.gauge(
            "hsdns_watch_connected", "1 while a watch is open, 0 while there is none.", labels
        )
        self.away = registry.gauge(
            "hsdns_watch_away_since_timestamp_seconds",
            "When the API server was lost, in seconds since the epoch; 0 while it is reachable.",
            labels,
        )
        self.contact = registry.gauge(
            "hsdns_watch_last_contact_timestamp_seconds",
            "When the API server last sent data, in seconds since the epoch.",
            labels,
        )
        self.objects = registry.gauge(
            "hsdns_watch_objects", "Objects known from the API server.", labels
        )


class Contact:
    """The reachability of an API server by scope; `server` returns its address once that is known.

    `on_lost` gets the time since when a scope cannot be watched, "" once all can be watched.  `returning`, if it is
    set, detects the return of a server that is away.
    """

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
        self._last_received: dict[Scope, float] = {}
        self._outages: dict[Scope, _Outage] = {}
        self._recovered = asyncio.Event()
        self.on_lost: Callable[[str], None] = lambda since: None
        self.returning: Returning | None = None

    def add(self, scope: Scope) -> None:
        """Start tracking a scope."""
        self._last_received[scope] = float("-inf")
        self.metrics.connected.set(0, labels_of(scope))
        self.metrics.away.set(0, labels_of(scope))

    def remove(self, scope: Scope) -> None:
        """Stop tracking a scope and remove its metrics."""
        self._last_received.pop(scope, None)
        if self._outages.pop(scope, None) is not None:
            self._tell_lost()
        for gauge in (self.metrics.connected, self.metrics.away, self.metrics.contact):
            gauge.values.pop(labels_of(scope), None)

    def silence(self, now: float) -> float:
        """Seconds since the oldest last data of a scope; infinite until all scopes had data."""
        return now - min(self._last_received.values(), default=float("-inf"))

    def received(self, scope: Scope) -> None:
        """Record that data arrived."""
        self._last_received[scope] = self._clock()
        self.metrics.contact.set(self._wall(), labels_of(scope))

    def opened(self, scope: Scope) -> None:
        """Record that a list or watch was answered with 200."""
        self.received(scope)
        self.metrics.connected.set(1, labels_of(scope))

    def established(self, scope: Scope) -> None:
        """Record that a list succeeded, or that a watch delivers events or has lasted; ends an outage."""
        self.metrics.away.set(0, labels_of(scope))
        outage = self._outages.pop(scope, None)
        if outage is not None:
            self._tell_lost()
            self._recovered.set()
            self._recovered = asyncio.Event()
            seconds = self._clock() - outage.began
            self._report(
                logging.INFO,
                f"{scope} can be watched at {self._server()} again, after {seconds:.0f} s",
            )

    def closed(self, scope: Scope) -> None:
        """Record that the response has ended."""
        self.metrics.connected.set(0, labels_of(scope))

    def lost(self, scope: Scope, reflector: Reflector, pause: float) -> None:
        """Record a failure; the next request follows in `pause` seconds."""
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
        is_new = scope not in self._outages
        self._outages[scope] = outage
        if is_new:
            self._tell_lost()

    def _tell_lost(self) -> None:
        self.on_lost(min((each.since for each in self._outages.values()), default=""))

    def outages(self) -> list[str]:
        """Sentences about what cannot be watched now, since when and why; callable from any thread."""
        return [
            f"{scope} have not been watched since {each.since}: {each.cause}"
            for scope, each in list(self._outages.items())
        ]

    async def wait(self, seconds: float, *, is_away: bool = False) -> bool:
        """Wait for `seconds`, or until another scope has recovered, but at least for the first backoff.

        Return whether a server that was away returned during the wait.
        """
        looking = None
        if is_away and self.returning is not None:
            looking = asyncio.create_task(self.returning.wait())
        waking = [asyncio.create_task(self._recovered.wait()), *filter(None, [looking])]
        at_least = min(seconds, FIRST_PAUSE)
        try:
            await asyncio.sleep(at_least)
            await asyncio.wait(
                waking, timeout=seconds - at_least, return_when=asyncio.FIRST_COMPLETED
            )
            return looking is not None and looking.done()
        finally:
            for task in waking:
                task.cancel()
            await asyncio.gather(*waking, return_exceptions=True)


class ScopeObserver(Observer):
    """Counts the events of a reflector and logs what the operator should know."""

    def __init__(
        self,
        scope: Scope,
        metrics: WatchMetrics,
        report: Report,
        reject: Callable[[str, Key, str], None],
    ) -> None:
        self._scope = scope
        self._labels = labels_of(scope)
        self._counted: dict[str, Labels] = {}  # labels by the type of an event
        self._metrics = metrics
        self._report = report
        self._reject = reject

    def received(self, kind: str) -> None:
        """Count an event."""
        labels = self._counted.get(kind)
        if labels is None:
            labels = self._counted[kind] = (*self._labels, kind)
        self._metrics.events.inc(labels)

    def rejected(self, key: Key, reason: str) -> None:
        """Report an object that cannot be decoded."""
        self._reject(self._scope.resource.kind, key, reason)

    def relisted(self, reason: str, missed: int) -> None:
        """Count a full list; log it unless it is the first."""
        self._metrics.relists.inc((*self._labels, reason))
        if missed:
            self._metrics.missed.inc(self._labels, missed)
        if reason != "start":
            self._report(
                logging.WARNING,
                f"{self._scope} were relisted ({reason}); {missed} missed deletions found",
            )


def labels_of(scope: Scope) -> Labels:
    """Return the label values of a scope's metrics."""
    return scope.resource.plural, scope.namespace or ""


def _time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
