"""The code of explanations, and their rests."""

from __future__ import annotations

import threading
from types import ModuleType

import pytest

from hsdns.server.control import explain
from hsdns.server.control.explain import LONGEST, import_explaining, resting


async def test_the_code_is_imported_once_and_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[tuple[str, bool]] = []

    def import_module(name: str) -> ModuleType:
        imported.append((name, threading.current_thread() is threading.main_thread()))
        return explain

    monkeypatch.setattr(explain, "import_module", import_module)
    monkeypatch.setattr(explain, "_imported", set())

    await import_explaining()
    await import_explaining()
    assert imported == [("hsdns.server.explaining", False)]


async def test_only_long_pieces_are_followed_by_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    pause = resting(lambda: now)

    for seconds in (LONGEST / 2, LONGEST):
        now += seconds
        await pause()
    assert rests == [explain.REST]
