"""Loop around a reflector: sends its requests, feeds it the responses, and pauses after failures.

Path: sources/api_server.py runs one for each scope; transport.py carries the requests.
Rule 1: the loop ends only when cancelled, or when `gives_up` returns True.
Rule 2: a server that is away gets a request as soon as it accepts connections (Returning); the pauses start over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Final, NamedTuple

from hsdns.apiserver.reflector import FIRST_PAUSE, Key, Observer, Purpose, Reflector
from hsdns.apiserver.resource import Scope
from hsdns.apiserver.transport import Away, Response, Transport, Unreachable
from hsdns.cluster.source import Report
from hsdns.metrics import Labels, Registry

# Detects at once that an API server that accepted no connections accepts them again.
#
# Rule 1: while watches pause, one connection for all of them is tried at random intervals of LOOK_EVERY to twice
#         LOOK_EVERY seconds.  It costs two packets if the port is closed, and a server that is away nothing.
# Rule 2: only the change from no connection to a connection ends the pauses.  A server that accepts connections but
#         does not answer gets the whole pause; so does a proxy, which always accepts connections.
# Rule 3: the first request uses this connection, so that detecting a return costs no additional one.
# Source: the pauses themselves are those of client-go (reflector.py), which has nothing like this.


LOOK_EVERY: Final = 0.5  # seconds
REACH_TIMEOUT: Final = (
    2.0  # seconds: lost packets to a host that is away are sent again at growing intervals
)


class Returning:
    """Waits for the return of one server; `reach` opens a connection, or raises Unreachable."""

    def __init__(self, reach: Callable[[], Awaitable[None]], random: Random) -> None:
        self._reach = reach
        self._random = random
        self._returned = asyncio.Event()
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Wait until the server has returned."""
        self._waiting += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look for the API server")
        try:
            await self._returned.wait()
        finally:
            self._waiting -= 1
            if not self._waiting and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY * (1.0 + self._random.random()))
            try:
                async with asyncio.timeout(REACH_TIMEOUT):
                    await self._reach()
            except (Unreachable, TimeoutError):
                continue
            self._looking = None
            self._returned.set()
            self._returned = asyncio.Event()
            return


# Reachability of the API server, for the log, the metrics and the strict form of ready.
#
# Rule 1: an outage is logged once when it begins, once a minute while it lasts or when its cause changes, and once when
#         it is over, each time with its beginning.
# Rule 2: a watch that recovers wakes the others from their pauses.  A response with status 200 is no recovery yet,
#         because an error may still follow in its body.


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
        self.events = registry.counter("hsdns_watch_events_total", (*labels, "type"))
        self.requests = registry.counter("hsdns_watch_requests_total", (*labels, "purpose", "code"))
        self.failures = registry.counter("hsdns_watch_failures_total", labels)
        self.relists = registry.counter("hsdns_watch_relists_total", (*labels, "reason"))
        self.missed = registry.counter("hsdns_watch_missed_deletions_total", labels)
        self.connected = registry.gauge("hsdns_watch_connected", labels)
        self.away = registry.gauge("hsdns_watch_away_since_timestamp_seconds", labels)
        self.contact = registry.gauge("hsdns_watch_last_contact_timestamp_seconds", labels)
        self.objects = registry.gauge("hsdns_watch_objects", labels)


@dataclass(eq=False)
class Contact:
    """The reachability of an API server by scope; `server` returns its address once that is known.

    `on_lost` gets the time since when a scope cannot be watched, "" once all can be watched.  `returning`, if it is
    set, detects the return of a server that is away.
    """

    server: Callable[[], str]
    report: Report
    metrics: WatchMetrics
    clock: Callable[[], float]
    wall: Callable[[], float]

    def __post_init__(self) -> None:
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
        self._last_received[scope] = self.clock()
        self.metrics.contact.set(self.wall(), labels_of(scope))

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
            seconds = self.clock() - outage.began
            self.report(
                logging.INFO,
                f"{scope} can be watched at {self.server()} again, after {seconds:.0f} s",
            )

    def closed(self, scope: Scope) -> None:
        """Record that the response has ended."""
        self.metrics.connected.set(0, labels_of(scope))

    def lost(self, scope: Scope, reflector: Reflector, pause: float) -> None:
        """Record a failure; the next request follows in `pause` seconds."""
        labels = labels_of(scope)
        self.metrics.failures.inc(labels)
        self.metrics.connected.set(0, labels)
        now, cause = self.clock(), reflector.failure
        outage = self._outages.get(scope)
        if outage is None:
            outage = _Outage(now, _time(self.wall()), "", float("-inf"))
            self.metrics.away.set(self.wall(), labels)
        if cause != outage.cause or now - outage.logged >= REPEAT:
            state = (
                "still serving the last known state"
                if reflector.synced
                else "nothing has been read yet"
            )
            self.report(
                logging.ERROR,
                f"cannot watch {scope} at {self.server()}: {cause} "
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


@dataclass(eq=False)
class ScopeObserver(Observer):
    """Counts the events of a reflector and logs what the operator should know."""

    scope: Scope
    metrics: WatchMetrics
    report: Report
    reject: Callable[[str, Key, str], None]

    def __post_init__(self) -> None:
        self._labels = labels_of(self.scope)
        self._counted: dict[str, Labels] = {}  # labels by the type of an event

    def received(self, kind: str) -> None:
        """Count an event."""
        labels = self._counted.get(kind)
        if labels is None:
            labels = self._counted[kind] = (*self._labels, kind)
        self.metrics.events.inc(labels)

    def rejected(self, key: Key, reason: str) -> None:
        """Report an object that cannot be decoded."""
        self.reject(self.scope.resource.kind, key, reason)

    def relisted(self, reason: str, missed: int) -> None:
        """Count a full list; log it unless it is the first."""
        self.metrics.relists.inc((*self._labels, reason))
        if missed:
            self.metrics.missed.inc(self._labels, missed)
        if reason != "start":
            self.report(
                logging.WARNING,
                f"{self.scope} were relisted ({reason}); {missed} missed deletions found",
            )


def labels_of(scope: Scope) -> Labels:
    """Return the label values of a scope's metrics."""
    return scope.resource.plural, scope.namespace or ""


def _time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


MAX_ERROR_LEN: Final = 4096  # octets to read of the body of a refusal
MAX_RETRY_AFTER: Final = 120.0  # seconds; longer values of Retry-After are cut
ESTABLISHED_AFTER: Final = 1.0  # seconds after which a watch without events counts as established
log = logging.getLogger("hsdns.apiserver")


@dataclass(eq=False)
class Watcher:
    """Watches one scope."""

    reflector: Reflector
    transport: Transport
    contact: Contact
    clock: Callable[[], float]
    gives_up: Callable[[Reflector], bool] = lambda reflector: False

    def __post_init__(self) -> None:
        self._labels = labels_of(self.reflector.scope)
        self.contact.add(self.reflector.scope)

    async def run(self) -> None:
        """Watch until cancelled, or until `gives_up` returns True after a failure."""
        reflector, contact = self.reflector, self.contact
        while True:
            is_away = False
            try:
                await self._request()
            except Unreachable as error:
                is_away = isinstance(error, Away)
                reflector.fail(str(error))
            except Exception:
                log.exception("%s: cannot handle an event", reflector.scope)
                reflector.relist("distrust")
                reflector.fail("cannot handle an event; relisting")
            contact.metrics.objects.set(len(reflector.known), self._labels)
            if not reflector.failure:
                continue
            if self.gives_up(reflector):
                contact.remove(reflector.scope)
                return
            pause = reflector.pause(self.clock())
            contact.lost(reflector.scope, reflector, pause)
            if await contact.wait(pause, is_away=is_away):
                reflector.begin_anew(self.clock())

    async def _request(self) -> None:
        """Send one request and process its response; raise Unreachable if there is none."""
        reflector, requests = self.reflector, self.contact.metrics.requests
        request = reflector.next_request()
        purpose = request.purpose.value
        try:
            async with self.transport.get(request.path, request.query, request.accept) as response:
                requests.inc((*self._labels, purpose, str(response.status)))
                if response.status == 200:
                    await self._receive(response, request.purpose)
                    return
                text = await response.text(MAX_ERROR_LEN)
                retry_after = _retry_after(response.headers.get("Retry-After", ""))
                reflector.refuse(response.status, text, retry_after)
        except Unreachable:
            requests.inc((*self._labels, purpose, "none"))
            raise

    async def _receive(self, response: Response, purpose: Purpose) -> None:
        reflector, contact, scope = self.reflector, self.contact, self.reflector.scope
        reflector.open(self.clock(), response.headers.get("Content-Type", ""))
        contact.opened(scope)
        error = ""
        was_synced = is_established = False

        def take(chunk: bytes) -> bool:
            nonlocal was_synced, is_established
            try:
                if not reflector.receive_data(chunk):
                    return False
            finally:
                contact.received(scope)  # last, so that no event waits for it
            if not is_established and purpose is not Purpose.LIST:
                is_established = True
                contact.established(scope)
            if reflector.synced and not was_synced:
                was_synced = True
                contact.metrics.objects.set(len(reflector.known), self._labels)
            return True

        # An idle watch sends nothing for a minute, so its duration is sufficient.
        later = asyncio.get_running_loop().call_later(ESTABLISHED_AFTER, contact.established, scope)
        try:
            await response.feed(take, lambda: reflector.read_timeout)
        except Unreachable as found:
            error = str(found)
        finally:
            later.cancel()
            if purpose is not Purpose.LIST:
                contact.closed(scope)
        reflector.close(self.clock(), error)
        if purpose is Purpose.LIST and not reflector.failure:
            contact.established(scope)


def _retry_after(text: str) -> float:
    """Return the seconds of a Retry-After header; the API server sends no dates."""
    return min(float(text), MAX_RETRY_AFTER) if text.isdecimal() else 0.0
