"""The seam between what is asked of the API server and the connection that carries it.

Path: watcher.py asks, client.py answers (and the tests' in-memory API server does).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Unreachable(Exception):
    """The server could not be asked, fell silent, or cut its answer short; the message is for the operator."""


class Answer(Protocol):
    """What came back: a status, and a body that may go on for minutes."""

    status: int
    headers: Mapping[str, str]  # looked up without regard to case

    def chunks(self, silence: Callable[[], float]) -> AsyncIterator[bytes]:
        """Yield the body as it comes; raise Unreachable after `silence()` seconds without any, or if it is cut.

        `silence` is asked again after each chunk.
        """

    async def text(self, limit: int) -> str:
        """Read the body, at most `limit` octets of it; raise Unreachable."""


class Transport(Protocol):
    """A way to one API server."""

    server: str  # for sentences and labels: https://10.96.0.1:443

    def get(self, path: str, query: Mapping[str, str]) -> AbstractAsyncContextManager[Answer]:
        """Send GET with credentials as they are now; raise Unreachable.  Leaving the context ends the connection's use.

        An answer 401 has made the transport read its credentials anew before the next call.
        """

    async def close(self) -> None:
        """End all connections."""
