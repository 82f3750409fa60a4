"""The fake API server without sockets, as a Transport: for tests of the code above the connection.

Path: hsdns/apiserver/watcher.py -> MemoryApi -> FakeCluster.
Rule 1: no clock: a silent peer is noticed at once, and a healthy watch waits for the next change without a limit.
Rule 2: the lines that are due come in one chunk, or as the fault of the request cuts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from multidict import CIMultiDict

from hsdns.apiserver.redaction import Redaction
from hsdns.apiserver.resource import JSON, is_protobuf
from hsdns.apiserver.transport import Away, Obstacles, Refusal, Unreachable, away, read_body
from hsdns.apiserver.watch_event import status_text
from loadtest.apiserver.fake_cluster import FakeCluster, Response
from loadtest.apiserver.faults import FaultInjector
from loadtest.apiserver.watch_cache import Watch

SERVER = "https://192.0.2.1:6443"


class MemoryApi:
    """A Transport to a cluster.  `read_token` reads the token, again after each 401; without `up` connections are refused."""

    def __init__(self, cluster: FakeCluster, read_token: Callable[[], str] | None = None) -> None:
        self.cluster = cluster
        self.server = SERVER
        self.redact = Redaction()
        self.obstacles = Obstacles()
        self.up = True
        self.closed = False
        self._read_token = read_token
        self._token: str | None = None
        self._answers: set[MemoryAnswer] = set()

    @asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], accept: str = JSON
    ) -> AsyncGenerator[MemoryAnswer | Refusal]:
        """Send a request to the cluster."""
        if not self.up:
            raise Away(f"{SERVER}: connection refused")
        obstacle = self.obstacles.find(path, query)
        if obstacle is not None and not obstacle.status:
            raise Unreachable(f"{SERVER}: {away(obstacle).strerror}")
        if obstacle is not None:
            yield Refusal(path, obstacle)
            return
        if self._token is None and self._read_token is not None:
            self._token = self._read_token()
            self.redact.remember(self._token)
        response = self.cluster.answer(path, query, self._token, accept)
        if response.fault.refused:
            raise Unreachable(f"{SERVER}: the connection was closed before an answer came")
        if response.status == 401:
            self._token = None
        answer = MemoryAnswer(response, path)
        self._answers.add(answer)
        try:
            yield answer
        finally:
            self._answers.discard(answer)
            answer.close()

    async def close(self) -> None:
        """End all connections."""
        self.closed = True
        self.cut_connections()

    async def reach(self) -> None:
        """Do nothing if connections are accepted."""
        if not self.up:
            raise Away(f"{SERVER}: connection refused")

    def cut(self, matches: Callable[[str], bool], error: OSError) -> None:
        """Cut the responses to requests for paths that match."""
        for answer in list(self._answers):
            if not answer.is_cut() and matches(answer.path):
                answer.cut()

    def cut_connections(self) -> None:
        """Cut every response in progress."""
        for answer in list(self._answers):
            answer.cut()

    def is_idle(self) -> bool:
        """Whether every response in progress waits for a change, with no line due."""
        return all(answer.is_waiting for answer in self._answers)


class MemoryAnswer:
    """One answer, a Transport's Response."""

    def __init__(self, response: Response, path: str) -> None:
        self.path = path
        self.status = response.status
        self.headers: Mapping[str, str] = CIMultiDict(response.headers)
        self.is_waiting = False
        self._body = response.body
        self._injector = FaultInjector(response.fault)
        self._cut = False
        self._changed = asyncio.Event()
        if isinstance(self._body, Watch):
            self._body.wake = self._wake

    async def feed(self, take: Callable[[bytes], bool], read_timeout: Callable[[], float]) -> None:
        """Pass on what is due, then wait; `read_timeout()` is only quoted in the error."""
        injector, body = self._injector, self._body
        while not self.is_cut():
            self._changed.clear()
            data = b"".join(body.take()) if isinstance(body, Watch) else body
            for piece in injector.feed(data) if data and not injector.outcome else ():
                if not take(piece):
                    return
                if self.is_cut():
                    break
            if self.is_cut() or injector.outcome == "cut":
                break
            if injector.outcome == "silent":
                raise Unreachable(f"{SERVER}: nothing came for {read_timeout():g} s")
            if injector.outcome == "ended" or not isinstance(body, Watch) or body.ended:
                return
            self.is_waiting = not self._changed.is_set()
            await self._changed.wait()
        raise Unreachable(f"{SERVER}: the connection was cut")

    async def text(self, limit: int) -> str:
        """Read the body."""
        data = await read_body(self, limit, 1.0)
        if is_protobuf(self.headers.get("Content-Type", "")):
            return status_text(data[:limit])
        return data[:limit].decode("utf-8", "replace")

    def cut(self) -> None:
        """Cut the connection; lines that were not taken are lost."""
        self._cut = True
        self._wake()

    def close(self) -> None:
        """Close the response."""
        if isinstance(self._body, Watch):
            self._body.close()

    def is_cut(self) -> bool:
        """Whether the connection is cut."""
        return self._cut

    def _wake(self) -> None:
        self._changed.set()
        self.is_waiting = False
