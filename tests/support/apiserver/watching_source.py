"""A source that watches an API server, and the store that it fills.

Path: tests/apiserver/test_contract.py -> WatchingSource -> TcpProxy -> the API server under test.
Rule 1: nothing is waited for by the clock: a condition is checked again after every event and every log line.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from hsdns.apiserver.access import HOST, PORT, Access, InCluster, TokenFile
from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.reflector import Key
from hsdns.apiserver.transport import Transport
from hsdns.cluster.objects import Event, Namespace, Object, ObjectMeta
from hsdns.cluster.source import Report, Surroundings
from hsdns.cluster.store import Store, StoreSettings
from hsdns.metrics import Registry
from hsdns.sources.api_access import WatchOptions
from hsdns.sources.api_server import ApiServer
from tests.support.apiserver.api_under_test import ApiUnderTest, objects_of
from tests.support.apiserver.fixed_access import FixedAccess
from tests.support.apiserver.tcp_proxy import TcpProxy
from tests.support.cluster.differences import differences

DEADLINE: Final = 60.0  # seconds until a state is reached; the longest pause of the source is 30
ALL: Final = WatchOptions(pods=True)


def around() -> Any:
    """The surroundings of a source: clocks and metrics."""
    return SimpleNamespace(
        random=Random(1), metrics=Registry(), clock=time.monotonic, wall=time.time
    )


class PlainAccess(FixedAccess):
    """Access to a server without TLS, with a token from a file."""

    def __init__(self, server: str, token: TokenFile) -> None:
        super().__init__(Access(server))
        self._token = token

    async def current(self) -> Access:
        """Give the access with the token as it was read."""
        return Access(self.server, authorization=self._token.authorization())

    def invalidate(self, access: Access) -> None:
        """Read the token again."""
        self._token.invalidate()


class Connect:
    """Access to the server under test, as in a pod if the server speaks TLS."""

    is_in_cluster = True

    def __init__(self, api: ApiUnderTest, port: int, folder: Path) -> None:
        self._api, self._port, self._folder = api, port, folder
        self.write()

    def write(self) -> None:
        """Write the files of a pod's service account."""
        (self._folder / "token").write_text(self._api.token)
        if self._api.authority:
            (self._folder / "ca.crt").write_bytes(self._api.authority)

    def __call__(self, around: Surroundings, report: Report) -> Transport:
        def warn(sentence: str) -> None:
            report(logging.WARNING, sentence)

        access: InCluster | PlainAccess
        if self._api.authority:
            environment = {HOST: "127.0.0.1", PORT: str(self._port)}
            access = InCluster(environment, around.clock, warn, str(self._folder))
        else:
            token = TokenFile(str(self._folder / "token"), around.clock, warn)
            access = PlainAccess(f"http://127.0.0.1:{self._port}", token)
        return ApiClient(access, around.metrics, around.clock, warn)

    def check(self) -> list[str]:
        """Report no problems."""
        return []


class WatchingSource:
    """A source that watches an API server through a proxy, and the store that it fills."""

    def __init__(self, api: ApiUnderTest, proxy: TcpProxy, folder: Path) -> None:
        self.api = api
        self.proxy = proxy
        self.log: list[str] = []
        self.rejected: list[str] = []
        self.store = Store(StoreSettings(), wall=time.time, warn=self.log.append)
        self.connect = Connect(api, proxy.port, folder)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, wanted: WatchOptions = ALL) -> None:
        """Start to watch; return when the store is synced."""
        source = ApiServer(self.connect, wanted, settle=lambda: None)
        source.reject = self._reject
        self._task = asyncio.create_task(source.watch(self._deliver, self._report, around()))
        await self.until(lambda: self.store.synced, "the store is synced")

    async def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition that events or lines of the log bring about."""
        try:
            async with asyncio.timeout(DEADLINE):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(
                "\n".join([f"not within {DEADLINE:g} s: {what}", *self.log])
            ) from None

    async def until_logged(self, pattern: str) -> str:
        """Wait for a line of the log."""

        def found() -> list[str]:
            return [line for line in self.log if re.search(pattern, line)]

        await self.until(lambda: bool(found()), f"a line with {pattern}")
        return found()[-1]

    async def until_equal(self, *, within: Sequence[str] = ()) -> None:
        """Wait until the store equals a new one with the API server's objects."""
        objects = await objects_of(self.api)
        if within:
            objects = [each for each in objects if each.metadata.namespace in within]
            objects += [Namespace(ObjectMeta(name=name)) for name in within]
        await self.until_holds(objects)

    async def until_holds(self, objects: Sequence[Object]) -> None:
        """Wait until the store equals a new one with these objects."""
        assert objects, "nothing to compare with"

        def equal() -> bool:
            return not differences(self.store, objects)

        try:
            await self.until(equal, "the store equals the API server's state")
        except AssertionError as error:
            raise AssertionError(
                "\n".join([*differences(self.store, objects), *error.args])
            ) from None

    def has(self, name: str) -> bool:
        """Whether a Service of namespace `one` is served."""
        return (b"one", name.encode()) in self.store.services.values

    def _deliver(self, events: Sequence[Event]) -> None:
        self.store.apply(events)
        self._changed.set()

    def _report(self, level: int, message: str) -> None:
        self.log.append(message)
        self._changed.set()

    def _reject(self, kind: str, key: Key, fault: str) -> None:
        self.rejected.append(f"{kind} {'/'.join(key)}: {fault}")
        self._changed.set()
