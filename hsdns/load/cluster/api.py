"""A Kubernetes API with a simulated cluster, which the DNS server under test watches.

Path: the server under test -> here (aiohttp) -> history.py; churn.py calls changed() after each change.
Rule 1: it serves only list and watch, without access control, on the given address.
Rule 2: as with a real API server, a watch of a kind that does not change gets bookmarks.  Without them its client would
        take the connection for dead, and would list everything again from a version that is no longer stored.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from hsdns.cluster.objects import Object
from hsdns.load.cluster.history import PATHS, ApiHistory
from hsdns.load.errors import LoadError

BOOKMARK_EVERY: Final = 60.0  # seconds, about that of kube-apiserver
_EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version",
    "reason": "Expired",
    "code": 410,
}


class ClusterApi:
    """The API on an address; start and stop it on the event loop that changes the history.

    `bookmark_every` in seconds.
    """

    def __init__(
        self, history: ApiHistory, host: str, port: int, bookmark_every: float = BOOKMARK_EVERY
    ) -> None:
        self.history = history
        self.watches = 0  # open ones
        self._host, self._port = host, port
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._bookmark_every = bookmark_every
        self._bookmarks = 0  # that each watch has been due
        self._timer: asyncio.TimerHandle | None = None

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
                f"-api: {self._host}:{self._port} cannot be listened on: {error.strerror}"
            ) from None
        self._port = self._runner.addresses[0][1]
        self._next_bookmark()

    async def stop(self) -> None:
        """Close everything."""
        if self._timer is not None:
            self._timer.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    def changed(self) -> None:
        """Let the watches send what has been added to the history."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _next_bookmark(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._bookmark_every, self._send_bookmarks)

    def _send_bookmarks(self) -> None:
        self._bookmarks += 1
        self.changed()
        self._next_bookmark()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        kind, query = PATHS[request.path], request.query
        if query.get("watch") in ("true", "1"):
            return await self._watch(request, kind)
        return web.Response(body=self.history.listed(kind), content_type="application/json")

    async def _watch(self, request: web.Request, kind: type[Object]) -> web.StreamResponse:
        history, query = self.history, request.query
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        version = int(query.get("resourceVersion") or 0)
        is_initial = query.get("sendInitialEvents") == "true" or not version
        lines = list(history.initial(kind)) if is_initial else history.since(kind, version)
        if lines is None:
            return web.json_response(_EXPIRED, status=410)
        if is_initial and query.get("sendInitialEvents") != "true":
            lines.pop()  # the bookmark belongs to streaming lists
        version, bookmarks = history.version, self._bookmarks
        takes_bookmarks = query.get("allowWatchBookmarks") == "true"
        self.watches += 1
        try:
            await answer.prepare(request)
            while True:
                changed = self._changed
                if lines:
                    await answer.write(b"".join(lines))
                else:
                    await changed.wait()
                lines = history.since(kind, version)
                if lines is None:  # the client reads too slowly: it must list again
                    break
                version = history.version
                if takes_bookmarks and bookmarks != self._bookmarks:
                    bookmarks = self._bookmarks
                    lines.append(history.bookmark(kind))
        except ConnectionError:
            pass  # the client has closed the connection
        finally:
            self.watches -= 1
        return answer
