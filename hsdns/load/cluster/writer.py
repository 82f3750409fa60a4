"""Sends requests that write to an API server, with the access of the watches.

Path: churn.py, job.py -> here -> apiserver/client.py; the access is that of the kubernetes block.
Rule: an unreachable server is a LoadError; a refusal is returned as its status.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hsdns.apiserver.access import AccessSource
from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.transport import Unreachable
from hsdns.load.errors import LoadError
from hsdns.metrics import Registry

TIMEOUT: Final = 10.0  # seconds for a response


class ApiWriter:
    """Writes to one API server; call close() at the end.  `flag` is the one that it is for, in messages."""

    def __init__(self, source: AccessSource, flag: str = "-churn-api") -> None:
        self._flag = flag
        self._client = ApiClient(
            source, Registry(), time.monotonic, lambda sentence: None, headers_timeout=TIMEOUT
        )

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, str]:
        """Send a request; return status and body of the response; raise LoadError if there is none."""
        octets = b"" if body is None else msgspec.json.encode(body)
        try:
            return await self._client.send(method, path, octets, content_type)
        except Unreachable as error:
            raise LoadError(f"{self._flag}: {error}") from None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


def message_of(text: str) -> str:
    """The message of a Status, or the text itself."""
    try:
        found = msgspec.json.decode(text)["message"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        found = ""
    return str(found or text[:200])
