"""A Kubernetes API server in this process: lists, watches and streaming lists of the objects that tests apply.

Path: client-go or our own client -> FakeApi (aiohttp on loopback) -> FakeCluster, which computes the responses.
Rule 1: faults of the cluster are methods of `cluster`; those of connections are in faults.py, or cut_connections() and
        stop().
Rule 2: all lines that are due are sent in one write, so that 5,000 changes a second need only some hundred writes.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from aiohttp import web

from loadtest.apiserver.fake_cluster import FakeCluster, Response
from loadtest.apiserver.faults import FaultInjector
from loadtest.apiserver.watch_cache import INITIAL_EVENTS_END, Watch

__all__ = ["INITIAL_EVENTS_END", "FakeApi"]

TOGETHER: Final = 256  # maximum of lines in one write: 700 KB of average slices


class FakeApi:
    """The server; use it as `async with FakeApi() as api:` and give `api.url` to the client.

    With `tls` it speaks HTTPS.  `streaming` is that of FakeCluster, if no `cluster` is given.
    """

    def __init__(
        self,
        cluster: FakeCluster | None = None,
        *,
        streaming: bool | str = True,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.cluster = cluster or FakeCluster(streaming=streaming)
        # What many tests need of the cluster.
        self.apply, self.delete = self.cluster.apply, self.cluster.delete
        self.requests, self.hold_sync = self.cluster.requests, self.cluster.hold_sync
        self.url = ""
        self._tls = tls
        self._host, self._port = host, port
        self._released = asyncio.Event()
        self._requests: dict[int, web.Request] = {}  # connections with a response in progress
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeApi:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self, *routes: web.AbstractRouteDef) -> None:
        """Listen, after a stop on the same port as before.  `routes` are served in addition to the API."""
        app = web.Application()
        app.add_routes([*routes, web.get("/{path:.*}", self._answer)])
        self._runner = web.AppRunner(
            app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True
        )
        await self._runner.setup()
        listener = web.TCPSite(
            self._runner, self._host, self._port, ssl_context=self._tls, reuse_address=True
        )
        await listener.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http{'s' if self._tls else ''}://{self._host}:{self._port}"

    async def stop(self) -> None:
        """Cut all connections and stop listening; the cluster does not change."""
        self.cut_connections()
        self.cluster.drop_watches()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def cut_connections(self) -> None:
        """Cut every response in progress."""
        for request in list(self._requests.values()):
            _abort(request)

    def release_sync(self) -> None:
        """End the effect of hold_sync()."""
        self.cluster.release_sync()
        self._released.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        response = self.cluster.answer(
            request.path,
            request.query,
            token if scheme == "Bearer" else None,
            request.headers.get("Accept", ""),
        )
        if not isinstance(response.body, Watch):
            while self.cluster.held:
                self._released.clear()
                await self._released.wait()
        self._requests[id(request)] = request
        try:
            return await self._send(request, response)
        finally:
            del self._requests[id(request)]

    async def _send(self, request: web.Request, response: Response) -> web.StreamResponse:
        answer = web.StreamResponse(status=response.status, headers=response.headers)
        body, fault, injector = response.body, response.fault, FaultInjector(response.fault)
        if fault.refused:
            _abort(request)
            return answer
        if fault.piece:  # each piece is sent separately
            answer.enable_chunked_encoding()
        changed = asyncio.Event()
        if isinstance(body, Watch):
            body.wake = changed.set
        try:
            await answer.prepare(request)
            while True:
                changed.clear()
                data = b"".join(body.take(TOGETHER)) if isinstance(body, Watch) else body
                for piece in injector.feed(data) if data and not injector.outcome else ():
                    await answer.write(piece)
                if injector.outcome == "cut":
                    _end(request)
                    return answer
                if injector.outcome == "silent":
                    await asyncio.Event().wait()  # until the client closes
                if injector.outcome == "ended" or not isinstance(body, Watch):
                    break
                if body.ended and not data:
                    break
                if not data:
                    await changed.wait()
            await answer.write_eof()
        except ConnectionError:
            pass  # the client closed the connection, or it was cut
        finally:
            if isinstance(body, Watch):
                body.close()
        return answer


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _end(request: web.Request) -> None:
    """Close after the written data, without the end marker of the body."""
    if request.transport is not None:
        request.transport.close()
