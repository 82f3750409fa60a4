"""Interface between the watcher and the connection to the API server, and what deliberately obstructs it.

Path: watcher.py calls it; client.py implements it (as does the in-memory API server of the tests).
"""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Protocol

from hsdns.apiserver.resource import JSON

# Deliberate failures of requests to the API server: an unreachable network, a missing permission.
#
# Rule 1: everything after the request is as in a real outage: errors, pauses, metrics, what is served in the meantime.
# Rule 2: every message says that the failure is deliberate, and names the rule.
# Rule 3: without an obstacle, a request costs one check of a tuple, and a chunk of a response nothing.


FORBIDDEN: Final = 403
Cut = Callable[[Callable[[str], bool], OSError], None]


class Obstacle(Protocol):
    """A deliberate failure; `status` is the status of the refusal, 0 for an unreachable server."""

    @property
    def status(self) -> int:
        """The status, or 0."""

    @property
    def by(self) -> str:
        """The cause, as the end of a sentence."""

    def stops(self, resource: str, request: str) -> bool:
        """Whether it stops a request, a `list` or a `watch`; called once for each request."""

    def cuts(self, resource: str) -> bool:
        """Whether it ends an open response about a resource; called once for each response."""

    def next_change(self) -> float | None:
        """The seconds until cuts() may change; None for never."""


class Obstacles:
    """The obstacles of one API server."""

    def __init__(self) -> None:
        self.all: tuple[Obstacle, ...] = ()
        self._by_holder: dict[int, tuple[Obstacle, ...]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cut: Cut | None = None
        self._timer: asyncio.TimerHandle | None = None

    def put(self, holder: object, obstacles: Sequence[Obstacle]) -> None:
        """Replace the obstacles that the same holder has put before; callable from any thread."""
        others = {key: each for key, each in self._by_holder.items() if key != id(holder)}
        self._by_holder = {**others, id(holder): tuple(obstacles)} if obstacles else others
        self.all = tuple(each for found in self._by_holder.values() for each in found)
        loop = self._loop  # another thread may end it
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._look)

    def open(self, cut: Cut) -> None:
        """Begin to cut open responses, on the running loop: `cut` gets a condition about paths, and an error."""
        self._loop, self._cut = asyncio.get_running_loop(), cut
        self._look()

    def close(self) -> None:
        """Stop cutting."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = self._cut = self._timer = None

    def find(self, path: str, query: Mapping[str, str]) -> Obstacle | None:
        """The obstacle that stops a request, None if none does."""
        for each in self.all:
            if each.stops(_resource(path), "watch" if "watch" in query else "list"):
                return each
        return None

    def _look(self) -> None:
        """Cut open responses, now and whenever cuts() may change."""
        if self._cut is None or self._loop is None:
            return
        for each in self.all:
            self._cut(lambda path, each=each: each.cuts(_resource(path)), lost(each))  # type: ignore[misc]
        if self._timer is not None:
            self._timer.cancel()
        seconds = [found for each in self.all if (found := each.next_change()) is not None]
        self._timer = self._loop.call_later(min(seconds), self._look) if seconds else None


def away(obstacle: Obstacle) -> OSError:
    """The error of a failed connection attempt."""
    return OSError(errno.ENETUNREACH, f"the network is unreachable, {obstacle.by}")


def lost(obstacle: Obstacle) -> OSError:
    """The error of a response that was cut."""
    return ConnectionResetError(errno.ECONNRESET, f"the connection was lost, {obstacle.by}")


class Refusal:
    """The response by which an obstacle refuses a request, like that of an API server."""

    headers: Mapping[str, str] = {}

    def __init__(self, path: str, obstacle: Obstacle) -> None:
        self.status = obstacle.status
        resource = _resource(path)
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        message = f'cannot list or watch resource "{resource}", {obstacle.by}'
        status |= {"reason": "Forbidden", "message": message, "code": self.status}
        self._body = json.dumps(status)

    async def feed(self, take: Callable[[bytes], bool], read_timeout: Callable[[], float]) -> None:
        """Pass on the body."""
        take(self._body.encode())

    async def text(self, limit: int) -> str:
        """The body."""
        return self._body[:limit]


def _resource(path: str) -> str:
    """The plural at the end of a collection's path."""
    return path.rpartition("/")[2]


class Unreachable(Exception):
    """The server was not reached, or its response is incomplete; the message is for the operator."""


class Away(Unreachable):
    """The server accepts no connections."""


class Response(Protocol):
    """A response: a status, and a body that may take minutes."""

    status: int
    headers: Mapping[str, str]  # case-insensitive

    async def feed(self, take: Callable[[bytes], bool], read_timeout: Callable[[], float]) -> None:
        """Pass the body to `take` in chunks as they arrive, until it returns False.

        Raise Unreachable if the body is incomplete, as it is after `read_timeout()` seconds without data; it is called
        again after each chunk.  An error that `take` raises ends it.
        """

    async def text(self, limit: int) -> str:
        """Read the body, at most `limit` octets, without credentials; raise Unreachable."""


async def read_body(response: Response, limit: int, seconds: float) -> bytes:
    """The body, or its beginning once that has more than `limit` octets; raise Unreachable if it is incomplete.

    After so many seconds without data it is incomplete.
    """
    found = bytearray()

    def take(chunk: bytes) -> bool:
        found.extend(chunk)
        return len(found) <= limit

    await response.feed(take, lambda: seconds)
    return bytes(found)


class Transport(Protocol):
    """A connection to one API server."""

    server: str  # for messages and labels: https://10.96.0.1:443
    obstacles: Obstacles  # stop requests deliberately

    @property
    def redact(self) -> Callable[[str], str]:
        """A function that removes credentials from text that contains a server's text."""

    def get(
        self, path: str, query: Mapping[str, str], accept: str = JSON
    ) -> AbstractAsyncContextManager[Response]:
        """Send a GET with the current credentials; raise Unreachable.  The response is valid within the context.

        Status 401 makes the transport reload its credentials before the next call.
        """

    async def reach(self) -> None:
        """Open a connection for the next request; raise Unreachable, also if a proxy would accept it for the server."""

    def cut(self, matches: Callable[[str], bool], error: OSError) -> None:
        """End the responses to requests for paths that match with an error; `matches` is called once for each."""

    async def close(self) -> None:
        """Close all connections."""
