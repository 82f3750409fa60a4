"""What to ask the API server next, and what its answers mean: the events that make a store equal to the cluster.

Path: watcher.py (asks, and feeds the bytes in) -> Reflector -> deliver -> Store.apply.

The contract, for one scope (a kind of object, in all namespaces or in one):
Rule 1  After finitely many answers without a fault, the objects delivered and not deleted are those of the API server.
Rule 2  Every object delivered is one that the API server sent, and none is older than what was delivered before it:
        initial states are asked for without a resourceVersion, which the server answers from its newest state.
Rule 3  `version`, from which a watch goes on, comes from events and bookmarks of a watch, or from the end of an initial
        state.  Objects of an initial state carry versions of their own, which say nothing about the others.
Rule 4  Deletions that were missed are found at the end of an initial state, and only there: what was known and has not
        been seen in it is deleted.  Before that end nothing is, so an outage makes no name disappear.
Rule 5  An initial state is streamed (a watch with sendInitialEvents), or listed in pages where the server refuses to
        stream it, or where the last stream broke off or failed.
Rule 6  A watch that ends is taken up again at `version`.  Only if that history is gone (410, or a version that the
        server does not know), or if answers at it are wrong time and again, is an initial state asked for again; what
        is served meanwhile stays.  A server that cannot be reached is no reason, so its return costs no lists.
Rule 7  Bad input costs itself alone: an object of a wrong form keeps what was served of it before, half a line counts
        as never sent, a line that is no event ends the connection.
Rule 8  resourceVersions are compared with nothing and computed with never.
Rule 9  deliver() is also called, with nothing, where an initial state is complete that held nothing.
No socket, no clock: times are handed in, in monotonic seconds.
Source: Kubernetes API concepts; client-go 1.36 tools/cache/reflector.go for numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import Enum
from random import Random
from typing import Any, Final, NamedTuple

from hsdns.apiserver.backoff import Backoff
from hsdns.apiserver.lines import MAX_LINE_LEN, LineSplitter
from hsdns.apiserver.resource import Scope
from hsdns.apiserver.watch_event import (
    Event,
    MalformedEvent,
    Status,
    decode_event,
    decode_page,
    decode_status,
)
from hsdns.cluster import objects
from hsdns.cluster.objects import Deleted, ObjectMeta, Upserted

PAGE: Final = 500  # objects in a page of a list: 3 ms of decoding
WATCH_SECONDS: Final = (300, 600)  # how long a watch is asked to live, as client-go does
# Bookmarks come about once a minute; a watch without any byte for so long has lost its peer.
WATCH_SILENCE: Final = 150.0
# The initial state comes without pauses.  A server before 1.27 sends it without ever ending it.
STATE_SILENCE: Final = 15.0
AT_ONCE: Final = 1.0  # a watch that lives shorter and brings nothing counts as a failure
MANY_ERRORS: Final = 3  # wrong answers in a row after which the whole state is asked for again

Key = tuple[str, str]


class Purpose(Enum):
    """What a request is for."""

    STREAM = "stream"  # the initial state, and the watch after it, on one connection
    LIST = "list"
    WATCH = "watch"


class Ask(NamedTuple):
    """A request to send; `silence` in seconds is the longest time between two chunks of its answer."""

    purpose: Purpose
    path: str
    query: dict[str, str]
    silence: float


class Observer:
    """What a reflector tells besides events; the watcher's counts and log lines hang here."""

    def received(self, kind: str) -> None:
        """Take the type of an event."""

    def rejected(self, key: Key, reason: str) -> None:
        """Take an object that could not be read."""

    def relisted(self, reason: str, missed: int) -> None:
        """Take that an initial state has been read, why it was, and how many deletions were missed."""


class Reflector:
    """One scope's state of affairs."""

    def __init__(
        self,
        scope: Scope,
        deliver: Callable[[Sequence[objects.Event]], None],
        observer: Observer,
        random: Random,
    ) -> None:
        self.scope = scope
        self.version = ""
        self.synced = False
        self.known: set[Key] = set()
        self.failure = ""  # a sentence: why the last request came to nothing
        self.forbidden = False  # whether that was for lack of rights
        self._deliver = deliver
        self._observer = observer
        self._random = random
        self._backoff = Backoff(random)
        self._lines = LineSplitter()
        self._body = bytearray()
        self._purpose = Purpose.STREAM
        self._reason = "start"  # why an initial state is needed; "" while none is
        self._seen: set[Key] = set()
        self._following = ""  # the token of the next page
        self._paged = True
        self._refuses_streams = False
        self._broke_off = False  # the last stream, before its initial state was complete
        self._wrong_answers = 0  # in a row
        self._oversized = (
            False  # the present initial state has an object that was too long to be looked at
        )
        self._retry_after = 0.0
        self._opened = 0.0
        self._is_alive = False  # the present watch has brought something
        self._is_over = False  # the server itself has ended it, with an ERROR event

    # What the watcher calls, in this order: ask, then refused, or opened and feed... and ended, then pause.

    def ask(self) -> Ask:
        """Say what to request now."""
        scope, query = self.scope, self.scope.query
        self.failure, self.forbidden, self._retry_after = "", False, 0.0
        if not self._reason:
            self._purpose = Purpose.WATCH
            query |= {"resourceVersion": self.version, **self._watching()}
            return Ask(Purpose.WATCH, scope.path, query, WATCH_SILENCE)
        if self._refuses_streams or self._broke_off or self._following:
            self._purpose = Purpose.LIST
            if self._paged:
                query["limit"] = str(PAGE)
            if self._following:
                query["continue"] = self._following
            return Ask(Purpose.LIST, scope.path, query, STATE_SILENCE)
        self._purpose = Purpose.STREAM
        query |= {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            **self._watching(),
        }
        return Ask(Purpose.STREAM, scope.path, query, STATE_SILENCE)

    def refused(self, status: int, text: str, retry_after: float = 0.0) -> None:
        """Take an answer other than 200, with the beginning of its body and its Retry-After in seconds."""
        found = decode_status(text, status)
        self._retry_after = retry_after
        if status in (400, 422) and self._purpose is Purpose.STREAM:
            self._refuses_streams = True
        elif status == 500 and self._purpose is Purpose.STREAM:
            self._broke_off = True  # as in _take_error
        elif found.is_expired or (status in (400, 422) and self._purpose is Purpose.WATCH):
            self._expire(found)
        else:
            self.forbidden = status == 403
            self._fail(_refusal(found))

    def opened(self, now: float) -> None:
        """Take that the answer is 200; its body follows."""
        self._opened = now
        self._is_alive = self._is_over = False
        self._lines = LineSplitter()
        self._body.clear()
        if self._purpose is Purpose.STREAM:
            self._begin_state()

    @property
    def silence(self) -> float:
        """The longest time in seconds between two chunks of the present answer."""
        return STATE_SILENCE if self._reason else WATCH_SILENCE

    def feed(self, data: bytes) -> bool:
        """Take a chunk of the body; False means that the rest is not wanted."""
        if self._purpose is Purpose.LIST:
            self._body += data
            return True
        batch: list[objects.Event] = []
        wanted, was_synced = True, self.synced
        try:
            for line in self._lines.feed(data):
                if not self._take(decode_event(line, self.scope.resource), batch):
                    wanted = False
                    break
        except MalformedEvent as error:
            self._fail(
                f"the answer is no watch of {self.scope.resource.plural}: {error}", wrong=True
            )
            wanted = False
        if self._lines.skipped:
            self._lines.skipped = 0
            self._oversized = True
            self._observer.rejected(("", ""), f"it is longer than {MAX_LINE_LEN} octets")
        if batch or (not was_synced and self.synced):
            self._deliver(batch)
        return wanted

    def ended(self, now: float, error: str = "") -> None:
        """Take that the body is over; `error` says what cut it short, in a sentence."""
        if self.failure or self._is_over:
            return
        if self._purpose is Purpose.LIST:
            if error:
                self._fail(error)
            else:
                self._take_page()
        elif self._reason:
            self._broke_off = True
            self._fail(error or "the stream ended before the initial state was complete")
        elif error:
            self._fail(error)
        elif not self._is_alive and now - self._opened < AT_ONCE:
            self._fail("the watch ended as soon as it began", wrong=True)

    def pause(self, now: float) -> float:
        """Seconds to wait before the next ask(); 0 unless something failed."""
        if not self.failure:
            return 0.0
        return max(self._backoff.pause(now), self._retry_after)

    def failed(self, error: str) -> None:
        """Take that the server could not be asked at all."""
        self._fail(error)

    def distrust(self, reason: str) -> None:
        """Ask for the whole state again; what is known stays until then."""
        self._reason = reason
        self._following, self._paged = "", True

    def assume(self, key: Key) -> None:
        """Count an object as delivered that the server was not asked about; the next initial state will tell."""
        self.known.add(key)

    # How answers are understood.

    def _take(self, event: Event, batch: list[objects.Event]) -> bool:
        """Take one event into the batch; False ends the connection."""
        kind = event.type
        self._observer.received(kind)
        if event.status is not None:
            self._is_over = True
            self._take_error(event.status)
            return False
        if not self._is_alive:
            self._is_alive = True
            self._wrong_answers = 0
        if kind == "BOOKMARK":
            if self._reason:
                if event.ends_initial:
                    self._complete(event.resource_version, batch)
            elif event.resource_version:
                self.version = event.resource_version
            return True
        namespace, name = event.key
        key = sys.intern(namespace), name
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
        self, key: Key, found: objects.Object | None, fault: str, batch: list[objects.Event]
    ) -> None:
        if found is None:
            self._observer.rejected(key, fault)
            if self._reason and key in self.known:
                self._seen.add(key)
            return
        self.known.add(key)
        if self._reason:
            self._seen.add(key)
        batch.append(Upserted(found))

    def _take_page(self) -> None:
        try:
            page = decode_page(bytes(self._body), self.scope.resource)
        except MalformedEvent as error:
            self._fail(
                f"the answer is no list of {self.scope.resource.plural}: {error}", wrong=True
            )
            return
        finally:
            self._body = bytearray()
        if not self._following:
            self._begin_state()
        batch: list[objects.Event] = []
        for found in page.objects:
            meta = found.metadata
            self._upsert((sys.intern(meta.namespace), meta.name), found, "", batch)
        for key, fault in page.faults:
            self._upsert(key, None, fault, batch)
        self._following = page.following
        if not page.following:
            self._complete(page.resource_version, batch)
        self._deliver(batch)

    def _begin_state(self) -> None:
        self._seen = set()
        self._oversized = False

    def _complete(self, version: str, batch: list[objects.Event]) -> None:
        """End an initial state: what it did not hold is gone."""
        missed = self.known - self._seen
        if self._oversized:
            missed = set()  # one of them may be the object that was too long
        batch += [self._deletion(key) for key in missed]
        self.known -= missed
        self._seen = set()
        self.version = version
        self.synced = True
        self._observer.relisted(self._reason, len(missed))
        self._reason, self._paged, self._broke_off = "", True, False
        self._following = ""

    def _take_error(self, status: Status) -> None:
        if status.is_expired:
            self._expire(status)
            return
        if status.code == 500 and self._reason:
            # So it answers where its etcd is too old for streams, after a 200; the list is asked for at once.
            self._broke_off = True
            return
        if status.details is not None and status.details.retry_after_seconds:
            self._retry_after = float(status.details.retry_after_seconds)
        self._fail(_refusal(status), wrong=True)

    def _expire(self, status: Status) -> None:
        """The history, or the rest of the list, is gone: begin anew, a list of many pages all at once."""
        self._paged = not self._following
        self._following = ""
        if self._reason:
            # Even the beginning was refused: something is wrong that a pause may cure.
            self._fail(_refusal(status))
        else:
            self._reason = "expired"

    def _fail(self, sentence: str, *, wrong: bool = False) -> None:
        self.failure = sentence
        self._wrong_answers += wrong
        if self._wrong_answers >= MANY_ERRORS and not self._reason:
            self._reason = "errors"  # it may be this one version that the server cannot serve
            self._wrong_answers = 0

    def _watching(self) -> dict[str, str]:
        return {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._random.randint(*WATCH_SECONDS)),
        }

    def _deletion(self, key: Key) -> Deleted:
        kind: Any = self.scope.resource.type
        return Deleted(kind(metadata=ObjectMeta(namespace=key[0], name=key[1])))


def _refusal(status: Status) -> str:
    """A sentence: what the server says, and what the operator may do about it."""
    says = status.message or status.reason or "no reason given"
    if status.code == 401:
        return f"the server does not accept these credentials (401): {says}; look at the token or certificate"
    if status.code == 403:
        return f"the server forbids it (403): {says}; grant list and watch on it to this account"
    if status.code == 429:
        return f"the server has too much to do (429): {says}"
    return f"the server answers {status.code}: {says}"
