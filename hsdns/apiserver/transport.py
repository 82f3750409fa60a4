"""Interface between the watcher and the connection to the API server.

Path: watcher.py calls it; client.py implements it (as does the in-memory API server of the tests).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hsdns.apiserver.media_type import JSON
from hsdns.apiserver.obstacle import Obstacles


class Unreachable(Exception):
    """The server was not reached, or its response is incomplete; the message is for the operator."""


class Away(Unreachable):
    """The server accepts no connections."""


class Response(Protocol):
    """A response: a status, and a body that may take minutes."""

    status: int
    headers: Mapping[str, str]  # case-insensitive

    def chunks(self, read_timeout: Callable[[], float]) -> AsyncIterator[bytes]:
        """Yield the body in chunks as they arrive; raise Unreachable if it is incomplete.

        After `read_timeout()` seconds without data it is incomplete; `read_timeout` is called again after each chunk.
        """

    async def feed(self, take: Callable[[bytes], bool], read_timeout: Callable[[], float]) -> None:
        """Pass the body to `take` in chunks as they arrive, until it returns False; otherwise as chunks().

        An error that `take` raises ends it.
        """

    async def text(self, limit: int) -> str:
        """Read the body, at most `limit` octets, without credentials; raise Unreachable."""


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
