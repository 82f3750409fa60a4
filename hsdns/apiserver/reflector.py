"""Reflector: the state machine of list and watch for one scope (sans I/O), whose events keep the store in sync.

Path: watcher.py (sends its requests, feeds it the responses) -> Reflector -> deliver -> Store.apply.

Invariants, for one scope (one resource, in all namespaces or in one): Rule 1  After finitely many responses without an
error, the objects delivered and not deleted are those of the server.  Rule 2  Every delivered object was sent by the
server, and none is older than one delivered before it: initial states are requested without a resourceVersion, which
the server answers from its most recent state.  Rule 3  `version`, at which a watch resumes, comes from the events and
bookmarks of a watch, or from the end of an initial state; the versions of the objects within an initial state say
nothing about the other objects.  Rule 4  Missed deletions are found only at the end of an initial state: known objects
that it did not contain are deleted.  Nothing is deleted before, so an outage makes no name disappear.  Rule 5  An
initial state is streamed (a watch with sendInitialEvents); it is listed in pages if the server does not support
streaming, or if the last stream failed.  Rule 6  A watch that ends is resumed at `version`.  An initial state is
requested again only if that history is gone (410, or a version unknown to the server) or if responses are repeatedly
invalid; the known state is served meanwhile.  An unreachable server is no reason, so its return causes no lists.  Rule
7  Invalid input has limited effect: for a malformed object the previous one is still served, an incomplete line is
ignored, a line that is not an event ends the connection.  Rule 8  resourceVersions are opaque: neither compared nor
computed with.  Rule 9  deliver() is also called without events when an initial state without objects is complete.  No
socket, no clock: times are passed in monotonic seconds.
Source: Kubernetes API concepts; client-go 1.36 tools/cache/reflector.go for numbers.

Exponential backoff between requests, after a failure:
Source: client-go 1.36 tools/cache/reflector.go (0.8 s doubling to 30 s, with jitter, reset after two minutes without a
failure).  Unlike there, no pause exceeds 30 s with jitter, and a server that accepted no connections gets a request as
soon as it accepts them again (watcher.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Final, NamedTuple

from hsdns.apiserver.resource import JSON, Scope, accepted, is_protobuf
from hsdns.apiserver.watch_event import (
    IS_READ,
    MAX_LINE_LEN,
    Event,
    JsonEvents,
    MalformedEvent,
    ProtobufEvents,
    Status,
    decode_page,
    decode_status,
    read_protobuf_page,
)
from hsdns.cluster import objects
from hsdns.cluster.objects import Deleted, ObjectMeta
from hsdns.cluster.read_object import ReadObject, upserted

FIRST_PAUSE: Final = 0.8  # seconds
MAX_PAUSE: Final = 30.0
FACTOR: Final = 2.0
# Seconds after its return in which a server may still refuse what it will answer soon.
STARTING: Final = 15.0
HEALTHY: Final = 120.0  # seconds without a failure after which the backoff is reset


class Backoff:
    """The backoff of one watch."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = FIRST_PAUSE
        self._last_failure: float | None = None
        self._starting_until = 0.0

    def begin_anew(self, now: float) -> None:
        """Begin with the first pause, and keep it while a server that has returned is still starting."""
        self._next, self._starting_until = FIRST_PAUSE, now + STARTING

    def pause(self, now: float) -> float:
        """Return the seconds to wait after a failure at monotonic time `now`."""
        if self._last_failure is not None and now - self._last_failure > HEALTHY + self._next:
            self._next = FIRST_PAUSE
        self._last_failure = now
        pause = min(self._next * (1.0 + self._random.random()), MAX_PAUSE)
        if now >= self._starting_until:
            self._next = min(self._next * FACTOR, MAX_PAUSE)
        return pause


PAGE: Final = 500  # objects per page of a list: 3 ms of decoding
# Octets of such a page: 500 EndpointSlices of the largest size have 25 MB, each with 100 endpoints.
MAX_PAGE_LEN: Final = 64 * 1024 * 1024
_FEWER: Final = 8  # a page above the limit is requested again with 1/_FEWER of the objects
WATCH_SECONDS: Final = (300, 600)  # requested lifetime of a watch, as in client-go
# Bookmarks come about once a minute, so a watch without data for this long is dead.
WATCH_READ_TIMEOUT: Final = 150.0
# An initial state comes without pauses; a server before 1.27 never marks its end.
STATE_READ_TIMEOUT: Final = 15.0
VERY_SHORT: Final = 1.0  # a watch that ends earlier without events counts as a failure
# Consecutive invalid responses after which the whole state is requested again.
MAX_ERRORS: Final = 3

Key = tuple[str, str]


class Purpose(Enum):
    """The purpose of a request."""

    STREAM = "stream"  # the initial state, followed by a watch on the same connection
    LIST = "list"
    WATCH = "watch"


class Request(NamedTuple):
    """A request to send; `read_timeout` is the longest time between two chunks of the response, in seconds.

    `accept` is the Accept header.
    """

    purpose: Purpose
    path: str
    query: dict[str, str]
    read_timeout: float
    accept: str


class Observer:
    """Receives what a reflector reports besides events; does nothing by default."""

    def received(self, kind: str) -> None:
        """Receive the type of an event."""

    def rejected(self, key: Key, reason: str) -> None:
        """Receive an object that cannot be decoded."""

    def relisted(self, reason: str, missed: int) -> None:
        """Receive the reason for a complete initial state and the number of missed deletions."""


@dataclass(eq=False)
class Reflector:
    """The state of one scope; see the rules above."""

    scope: Scope
    deliver: Callable[[Sequence[objects.Event]], None]
    observer: Observer
    random: Random

    def __post_init__(self) -> None:
        self.version = ""
        self.synced = False
        self.known: set[Key] = set()
        self.failure = ""  # why the last request failed, as a sentence
        self.forbidden = False  # whether it failed for lack of permissions
        scope, self._backoff = self.scope, Backoff(self.random)
        self._events: JsonEvents | ProtobufEvents = JsonEvents(scope.resource)
        self._body = bytearray()
        self._is_protobuf = False
        self._accept = accepted(scope.resource, is_compiled=IS_READ)
        self._purpose = Purpose.STREAM
        self._reason = "start"  # why an initial state is needed; "" while watching
        self._seen: set[Key] = set()
        self._following = ""  # the continue token of the next page
        self._paged = True
        self._page = PAGE
        self._refuses_streams = False
        self._broke_off = False  # the last stream ended before its initial state was complete
        self._invalid_responses = 0  # consecutive
        # The initial state contains an object above the size limit, which was not decoded.
        self._oversized = False
        self._retry_after = 0.0
        self._opened = 0.0
        self._is_alive = False  # this watch has delivered an event
        self._is_over = False  # the server has ended this watch with an ERROR event

    # Called by the watcher in this order: next_request, then refuse, or open, receive_data... and close, then pause.

    def next_request(self) -> Request:
        """Return the next request to send."""
        query = self.scope.query
        self.failure, self.forbidden, self._retry_after = "", False, 0.0
        if not self._reason:
            self._purpose = Purpose.WATCH
            query |= {"resourceVersion": self.version, **self._watch_options()}
            return self._request(query, WATCH_READ_TIMEOUT)
        if self._refuses_streams or self._broke_off or self._following:
            self._purpose = Purpose.LIST
            if self._paged:
                query["limit"] = str(self._page)
            if self._following:
                query["continue"] = self._following
            return self._request(query, STATE_READ_TIMEOUT)
        self._purpose = Purpose.STREAM
        query |= {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            **self._watch_options(),
        }
        return self._request(query, STATE_READ_TIMEOUT)

    def refuse(self, status: int, text: str, retry_after: float = 0.0) -> None:
        """Process a response other than 200; `text` is the beginning of its body, `retry_after` in seconds."""
        found = decode_status(text, status)
        self._retry_after = retry_after
        if status == 406 and self._accept != JSON:
            self._accept = JSON  # from now on, starting at once
        elif status in (400, 422) and self._purpose is Purpose.STREAM:
            self._refuses_streams = True
        elif status == 500 and self._purpose is Purpose.STREAM:
            self._broke_off = True  # as in _handle_error
        elif found.is_expired or (status in (400, 422) and self._purpose is Purpose.WATCH):
            self._expire(found)
        else:
            self.forbidden = status == 403
            self.fail(_refusal(found))

    def open(self, now: float, content_type: str = JSON) -> None:
        """Begin a response with status 200 and this Content-Type."""
        self._opened = now
        self._is_alive = self._is_over = False
        self._is_protobuf = is_protobuf(content_type)
        self._events = (ProtobufEvents if self._is_protobuf else JsonEvents)(self.scope.resource)
        self._body.clear()
        if self._purpose is Purpose.STREAM:
            self._begin_state()

    @property
    def read_timeout(self) -> float:
        """The longest time between two chunks of the current response, in seconds."""
        return STATE_READ_TIMEOUT if self._reason else WATCH_READ_TIMEOUT

    def receive_data(self, data: bytes) -> bool:
        """Process a chunk of the body; return False if the rest is not needed."""
        if self._purpose is Purpose.LIST:
            if len(self._body) + len(data) > MAX_PAGE_LEN:
                self._reduce_page()
                return False
            self._body += data
            return True
        batch: list[objects.Event] = []
        kinds: list[str] = []
        wanted, was_synced = True, self.synced
        try:
            for event in self._events.feed(data):
                kinds.append(event.type)
                if not self._handle(event, batch):
                    wanted = False
                    break
        except MalformedEvent as error:
            self.fail(
                f"the response is not a watch of {self.scope.resource.plural}: {error}",
                invalid=True,
            )
            wanted = False
        if self._events.skipped:
            self._events.skipped = 0
            self._oversized = True
            self.observer.rejected(("", ""), f"it is longer than {MAX_LINE_LEN} octets")
        if batch or (not was_synced and self.synced):
            self.deliver(batch)
        for kind in kinds:  # last, so that no event waits for it
            self.observer.received(kind)
        return wanted

    def close(self, now: float, error: str = "") -> None:
        """End the response; `error` says why it is incomplete."""
        if self.failure or self._is_over:
            return
        if self._purpose is Purpose.LIST:
            if error:
                self.fail(error)
            else:
                self._handle_page()
        elif self._reason:
            self._broke_off = True
            self.fail(error or "the stream ended before the initial state was complete")
        elif error:
            self.fail(error)
        elif not self._is_alive and now - self._opened < VERY_SHORT:
            self.fail("very short watch: it ended within a second without events", invalid=True)

    def pause(self, now: float) -> float:
        """Return the seconds to wait before the next request; 0 after success."""
        if not self.failure:
            return 0.0
        return max(self._backoff.pause(now), self._retry_after)

    def begin_anew(self, now: float) -> None:
        """Start the pauses over: the server was away, and has returned."""
        self._backoff.begin_anew(now)

    def fail(self, sentence: str, *, invalid: bool = False) -> None:
        """Process a request without a response, or with an `invalid` one."""
        self.failure = sentence
        self._invalid_responses += invalid
        if self._invalid_responses >= MAX_ERRORS and not self._reason:
            self._reason = "errors"  # the server may be unable to serve this one version
            self._invalid_responses = 0

    def relist(self, reason: str) -> None:
        """Request the whole state again; the known state stays until then."""
        self._reason = reason
        self._following, self._paged = "", True

    # Decoding of the responses.

    def _handle(self, event: Event, batch: list[objects.Event]) -> bool:
        """Add one event to the batch; return False if the connection must end."""
        kind = event.type
        if event.status is not None:
            self._is_over = True
            self._handle_error(event.status)
            return False
        if not self._is_alive:
            self._is_alive = True
            self._invalid_responses = 0
        if kind == "BOOKMARK":
            if self._reason:
                if event.ends_initial:
                    self._complete(event.resource_version, batch)
            elif event.resource_version:
                self.version = event.resource_version
            return True
        key = event.key
        if kind == "DELETED":
            self.known.discard(key)
            self._seen.discard(key)
            batch.append(self._deletion(key))
        else:
            self._upsert(key, event.object, event.fault, batch)
        if not self._reason and event.resource_version:
            self.version = event.resource_version
        return True

    def _upsert(
        self,
        key: Key,
        found: objects.Object | ReadObject | None,
        fault: str,
        batch: list[objects.Event],
    ) -> None:
        if found is None:
            self.observer.rejected(key, fault)
            if self._reason and key in self.known:
                self._seen.add(key)
            return
        self.known.add(key)
        if self._reason:
            self._seen.add(key)
        batch.append(upserted(found))

    def _handle_page(self) -> None:
        try:
            read = read_protobuf_page if self._is_protobuf else decode_page
            page = read(bytes(self._body), self.scope.resource)
        except MalformedEvent as error:
            self.fail(
                f"the response is not a list of {self.scope.resource.plural}: {error}", invalid=True
            )
            return
        finally:
            self._body = bytearray()
        if not self._following:
            self._begin_state()
        batch: list[objects.Event] = []
        for event in page.events:
            self._upsert(event.key, event.object, event.fault, batch)
        self._following = page.following
        if not page.following:
            self._complete(page.resource_version, batch)
        self.deliver(batch)

    def _reduce_page(self) -> None:
        """Request fewer objects at a time, because a page has too many octets."""
        self._body = bytearray()
        if self._paged:
            self._page = max(1, self._page // _FEWER)
        self._paged = True
        self.fail(
            f"a page of {self.scope.resource.plural} is longer than {MAX_PAGE_LEN} octets; "
            f"asking for {self._page} objects at a time",
            invalid=True,
        )

    def _begin_state(self) -> None:
        self._seen = set()
        self._oversized = False

    def _complete(self, version: str, batch: list[objects.Event]) -> None:
        """End an initial state: delete the known objects that it did not contain."""
        missed = self.known - self._seen
        if self._oversized:
            missed = set()  # each may be the object above the size limit
        batch += [self._deletion(key) for key in missed]
        self.known -= missed
        self._seen = set()
        self.version = version
        self.synced = True
        self.observer.relisted(self._reason, len(missed))
        self._reason, self._paged, self._broke_off = "", True, False
        self._following = ""

    def _handle_error(self, status: Status) -> None:
        if status.is_expired:
            self._expire(status)
            return
        if status.code == 500 and self._reason:
            # A server whose etcd is too old for streams sends this after a 200; list at once.
            self._broke_off = True
            return
        if status.details is not None and status.details.retry_after_seconds:
            self._retry_after = float(status.details.retry_after_seconds)
        self.fail(_refusal(status), invalid=True)

    def _expire(self, status: Status) -> None:
        """Start over, because the history or the rest of the list is gone; a paged list is then read at once."""
        self._paged = not self._following
        self._following = ""
        if self._reason:
            # Even the first page was refused; retry after a pause.
            self.fail(_refusal(status))
        else:
            self._reason = "expired"

    def _request(self, query: dict[str, str], read_timeout: float) -> Request:
        return Request(self._purpose, self.scope.path, query, read_timeout, self._accept)

    def _watch_options(self) -> dict[str, str]:
        return {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self.random.randint(*WATCH_SECONDS)),
        }

    def _deletion(self, key: Key) -> Deleted:
        kind: Any = self.scope.resource.type
        return Deleted(kind(metadata=ObjectMeta(namespace=key[0], name=key[1])))


def _refusal(status: Status) -> str:
    """Return the server's message, with a remedy if one is known."""
    message = status.message or status.reason or "no reason given"
    if status.code == 401:
        return (
            f"the server rejects these credentials (401): {message}; check the token or certificate"
        )
    if status.code == 403:
        return f"the server denies access (403): {message}; grant this account list and watch on it"
    if status.code == 429:
        return f"the server is overloaded (429): {message}"
    return f"the server responds {status.code}: {message}"
