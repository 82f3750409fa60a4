"""The runtime of a configuration in memory: a clock that a test moves, seeded chance, no sockets and no reloads.

Path: a test -> ScriptedRuntime -> make_processors() of hsdns/server/instance.py -> QueryProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

from hsdns.answer_table import writer
from hsdns.assemble import Configuration
from hsdns.fastpath import Versions
from hsdns.http_page import HttpPage
from hsdns.metrics import Registry
from hsdns.plugins.prometheus import QueryCounts
from hsdns.server.instance import make_processors
from hsdns.server.runtime import ServerRuntime


class ScriptedRuntime(ServerRuntime):
    """What the plugins of a configuration get; `now` is what clock() answers.

    The processors have answer tables of the twin of the fast path that is named, and none without one.
    """

    def __init__(self, configuration: Configuration, twin: ModuleType | None = None) -> None:
        self.now = 1000.0
        versions: Any = Versions() if twin is None else twin.Versions()
        super().__init__(configuration, Registry(), versions, lambda: self.now)
        self.fail, self.random = _fail, Random(1)
        self.counts = QueryCounts(self.metrics)
        self._versions = versions
        self._twin = twin
        self.make_processors()

    def make_processors(self) -> None:
        """Make the processors, as the server does once the plugins have started."""
        twin = self._twin
        tables = patch.object(writer, "AnswerTable", twin.AnswerTable) if twin else nullcontext()
        with tables:
            made = make_processors(self, self._versions, self.counts)
        if twin is None:
            for processor in made.values():
                processor.writer = None
        self.processors = made

    def wall(self) -> float:  # type: ignore[override]  # static there, for what outlives a configuration
        """Seconds since the epoch, as scripted."""
        return 1_700_000_000.0 + self.now

    def serve_http(self, address: str, paths: dict[str, HttpPage]) -> None:
        """Serve no pages."""

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Give up at once: time does not pass while something waits."""
        return condition()

    def names_answered_first_changed(self) -> None:
        """Make the answer tables anew."""
        self.make_processors()

    async def cancel(self) -> None:
        """End all tasks."""
        await self.queries.cancel()
        await self.tasks.cancel()


def _fail(reason: str) -> None:
    raise AssertionError(reason)
