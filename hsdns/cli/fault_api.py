"""A Kubernetes API for a scenario with rules about the watch: its separate cluster has one, in place of files.

Path: fault_cluster.py -> here -> load/cluster/api.py in a separate thread; the objects are those that
controllers would make.
Rule: it listens on loopback, and serves only list and watch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from hsdns.cluster.objects import Deleted, Event, Upserted
from hsdns.fault_scenarios.memory_server import Objects
from hsdns.fault_scenarios.scenario import Step
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.history import KINDS, ApiHistory

HOST: Final = "127.0.0.1"
TIMEOUT: Final = 20.0  # seconds for any call


class OwnApi:
    """The API; `url` is the URL for `endpoint` in a Corefile.  stop() ends its thread."""

    def __init__(self) -> None:
        self._objects, self._history = Objects(), ApiHistory()
        self._api = ClusterApi(self._history, HOST, 0)
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.result(TIMEOUT)
        self.url = self._api.url

    def change(self, step: Step) -> None:
        """Apply a step to its objects; raise ScenarioError."""
        events = self._objects.change(step.apply, step.delete)
        self._call(lambda: self._put(events))

    def stop(self) -> None:
        """Stop it."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(TIMEOUT)

    def _put(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Upserted | Deleted) and type(event.object) in KINDS:
                change = self._history.put if isinstance(event, Upserted) else self._history.remove
                change(event.object)
        self._api.changed()

    def _call(self, function: Callable[[], None]) -> None:
        async def call() -> None:
            function()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(TIMEOUT)

    def _run(self, started: Future[None]) -> None:
        asyncio.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._api.start()
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(None)
        try:
            await self._ended.wait()
        finally:
            await self._api.stop()
