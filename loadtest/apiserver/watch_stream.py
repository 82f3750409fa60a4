"""One open watch of the fake API server: computes the lines that are due.

Path: FakeCluster.answer -> Watch -> fake_api.py or memory_api.py, which sends its lines.
Rule 1: lines are computed when they are taken; a watch has a position in the history, no queue.
Rule 2: a watch whose position is no longer in the history gets 410 as ERROR event, and ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from loadtest.apiserver.faults import error_line, status_body
from loadtest.apiserver.selectors import Selection
from loadtest.apiserver.watch_cache import Change, Kind, Stored, WatchCache

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Watch:
    """A watch; take() its lines.  `wake` is called when more lines may be due; none are after `ended`."""

    def __init__(
        self,
        cache: WatchCache,
        selection: Selection,
        since: int,
        *,
        bookmarks: bool = False,
        initial: Iterable[bytes] = (),
        initial_end: bytes | None = None,
        is_held: Callable[[], bool] = lambda: False,
        forget: Callable[[Watch], object] = lambda watch: None,
    ) -> None:
        self.cache = cache
        self.bookmarks = bookmarks
        self.ended = False
        self.wake: Callable[[], None] = _no_wake
        self.encode: Callable[[bytes], bytes] = bytes  # of a line, as it is sent
        self._selection = selection
        self._since = since  # nothing up to this version is sent, even if the counter was reset
        self._position = cache.position_after(since)
        self._added: deque[tuple[int, bytes | None]] = (
            deque()
        )  # position and line; None ends the watch
        self._initial_end = initial_end
        self._is_held = is_held
        self._forget = forget
        self._lines = self._due(initial)

    def take(self, count: int | None = None) -> list[bytes]:
        """Take the lines that are due now, at most `count` of them."""
        taken: list[bytes] = []
        while not self.ended and (count is None or len(taken) < count):
            try:
                line = next(self._lines)
            except StopIteration:
                self.close()
                break
            if line is None:
                break
            taken.append(self.encode(line))
        return taken

    def add(self, line: bytes | None) -> None:
        """Send these octets after the lines that are due now; None ends the watch there."""
        self._added.append((self.cache.end, line))
        self.wake()

    def close(self) -> None:
        """End the watch; lines that were not taken are lost."""
        if not self.ended:
            self.ended = True
            self._forget(self)
            self.wake()

    def seen(self, change: Change) -> bytes | None:
        """Return the event of a change for this watch, None if it gets none."""
        key, before, after = change.key, change.before, change.after
        matches = self._selection.matches
        matched = before is not None and matches(key, before)
        if after is not None and matches(key, after):
            return event_line(b"MODIFIED" if matched else b"ADDED", after.data)
        if before is None or not matched:
            return None
        return event_line(b"DELETED", _last_state(before, change.version))

    def _due(self, initial: Iterable[bytes]) -> Iterator[bytes | None]:
        """Yield lines, and None where nothing more is due for now."""
        yield from initial
        while self._is_held():
            yield None
        if self._initial_end is not None:
            yield self._initial_end
        cache = self.cache
        while True:
            stop = self._added[0][0] if self._added else cache.end
            if self._position < min(stop, cache.begin):
                message = f"too old resource version ({cache.oldest})"
                yield error_line(status_body(410, "Expired", message))
                return
            while self._position < stop:
                change = cache.change(self._position)
                self._position += 1
                line = self.seen(change) if change.version > self._since else None
                if line is not None:
                    yield line
                    if self._position < cache.begin:
                        break  # the history was cut while the line was sent
            else:
                if self._added:
                    _, added = self._added.popleft()
                    if added is None:
                        return
                    yield added
                elif self._position >= cache.end:
                    yield None


def event_line(kind: bytes, data: bytes) -> bytes:
    """Encode one watch event around an object's JSON."""
    return b'{"type":"%b","object":%b}\n' % (kind, data)


def bookmark_line(kind: Kind, version: int, *, ends_initial: bool = False) -> bytes:
    """Encode a bookmark, with the fields that a server leaves in it."""
    metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    bookmark = {
        "kind": kind.name,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        **kind.bookmark_fields,
    }
    return event_line(b"BOOKMARK", msgspec.json.encode(bookmark))


def _last_state(before: Stored, version: int) -> bytes:
    """The object as it was, stamped with the version of its end."""
    last = before.manifest
    last["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode(last)


def _no_wake() -> None:
    pass
