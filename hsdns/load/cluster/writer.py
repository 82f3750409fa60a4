"""Sends requests that write to an API server, with the access of the watches.

Path: churn.py, job.py -> here -> aiohttp; the access is that of the kubernetes block (sources/api_access.py).
Rule 1: redirects are not followed, and messages contain no credentials.
Rule 2: an unreachable server is a LoadError; a refusal is returned as its status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import msgspec

from hsdns.apiserver.access import AccessSource
from hsdns.apiserver.client import TlsContexts, describe
from hsdns.apiserver.redaction import Redaction
from hsdns.apiserver.transport import Unreachable
from hsdns.load.errors import LoadError

TIMEOUT: Final = 10.0  # seconds for a response
_FAULTS: Final = (aiohttp.ClientError, OSError, TimeoutError)


class ApiWriter:
    """Writes to one API server; call close() at the end.  `flag` is the one that it is for, in messages."""

    def __init__(self, source: AccessSource, flag: str = "-churn-api") -> None:
        self._source = source
        self._flag = flag
        self._tls = TlsContexts(lambda sentence: None)
        self._session: aiohttp.ClientSession | None = None
        self._redact = Redaction()

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, str]:
        """Send a request; return status and body of the response; raise LoadError if there is none."""
        try:
            access = await self._source.current()
        except Unreachable as error:
            raise LoadError(f"{self._flag}: {error}") from None
        self._redact.remember(access.authorization)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        headers = {**dict(access.headers), "Accept": "application/json"}
        if access.authorization:
            headers["Authorization"] = access.authorization
        if body is not None:
            headers["Content-Type"] = content_type
        options: dict[str, Any] = {}
        if access.server.startswith("https:"):
            options["ssl"] = self._tls.context_for(access)
        try:
            async with self._session.request(
                method,
                f"{access.server}{path}",
                data=None if body is None else msgspec.json.encode(body),
                headers=headers,
                allow_redirects=False,
                proxy=access.proxy or None,
                server_hostname=access.tls_server_name or None,
                **options,
            ) as response:
                return response.status, self._redact(await response.text())
        except _FAULTS as error:
            told = self._redact(describe(access, error, TIMEOUT))
            raise LoadError(f"{self._flag}: {told}") from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)


def message_of(text: str) -> str:
    """The message of a Status, or the text itself."""
    try:
        return msgspec.json.decode(text, type=_Status).message or text[:200]
    except msgspec.MsgspecError:
        return text[:200]


class _Status(msgspec.Struct):
    message: str = ""
