"""A Kubernetes API with a simulated cluster, which the DNS server under test watches.

Path: the server under test -> here (aiohttp) -> history.py; churn.py calls changed() after each change.
Rule 1: it serves only list and watch, without access control, on the given address.
Rule 2: as with a real API server, a watch of a kind that does not change gets bookmarks.  Without them its client would
        take the connection for dead, and would list everything again from a version that is no longer stored.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from aiohttp import web

from hsdns.load.cluster.history import PATHS, ApiHistory
from hsdns.load.errors import LoadError

BOOKMARK_EVERY: Final = 60.0  # seconds, about that of kube-apiserver
_EXPIRED: Final = {
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
    "message": "too old resource version", "reason": "Expired",
}  # fmt: skip


class ClusterApi:
    """The API on an address; start and stop it on the event loop that changes the history.

    `bookmark_every` in seconds.
    """

    def __init__(
        self, history: ApiHistory, host: str, port: int, bookmark_every: float = BOOKMARK_EVERY
    ) -> None:
        self.history = history
        self._host, self._port = host, port
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._bookmark_every = bookmark_every

    @property
    def url(self) -> str:
        """The URL for `endpoint` in a Corefile."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Listen; raise LoadError."""
        app = web.Application()
        app.add_routes([web.get(path, self._answer) for path in PATHS])
        self._runner = web.AppRunner(
            app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            raise LoadError(
                f"--api: {self._host}:{self._port} cannot be listened on: {error.strerror}"
            ) from None
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close everything."""
        if self._runner is not None:
            await self._runner.cleanup()

    def changed(self) -> None:
        """Let the watches send what has been added to the history."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a list; begin a watch, and send it what has changed until the client ends it."""
        kind, query, history = PATHS[request.path], request.query, self.history
        if query.get("watch") not in ("true", "1"):
            return web.Response(body=history.listed(kind), content_type="application/json")
        is_streaming_list = query.get("sendInitialEvents") == "true"
        version = int(query.get("resourceVersion") or 0)
        lines: list[bytes] | None
        if is_streaming_list or not version:
            lines = list(history.initial(kind))
            if not is_streaming_list:
                lines.pop()  # the bookmark belongs to streaming lists
        else:
            lines = history.since(kind, version)
        if lines is None:
            return web.json_response(_EXPIRED, status=410)
        answer, time = web.StreamResponse(), asyncio.get_running_loop().time
        answer.content_type = "application/json"
        version, due = history.version, time() + self._bookmark_every
        with suppress(ConnectionError):  # the client has closed the connection
            await answer.prepare(request)
            while lines is not None:  # else the client reads too slowly: it must list again
                changed = self._changed
                if lines:
                    await answer.write(b"".join(lines))
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(due):
                            await changed.wait()
                lines, version = history.since(kind, version), history.version
                if time() >= due:
                    due = time() + self._bookmark_every
                    if lines is not None and query.get("allowWatchBookmarks") == "true":
                        lines.append(history.bookmark(kind))
        return answer
