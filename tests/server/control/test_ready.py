"""/ready."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.plugin import Plugin
from hsdns.server.control.routes import ready
from tests.server.control.served import served
from tests.support.coroutines.event_loops import run


class Waits(Plugin):
    name = "kubernetes"

    def __init__(self, is_ready: bool) -> None:
        self.is_ready = is_ready

    def ready(self) -> bool:
        return self.is_ready


async def answer(*plugins: Waits) -> list[bytes]:
    instance = SimpleNamespace(configuration=SimpleNamespace(plugins=plugins))
    door: Any = SimpleNamespace(serving=lambda: instance)
    return [piece async for piece in ready(door, PageRequest())]


def test_it_waits_for_all_plugins() -> None:
    assert run(answer(Waits(True), Waits(True))) == [b"OK\n"]
    with pytest.raises(HttpRefusal, match=r"^not ready yet: kubernetes$") as raised:
        run(answer(Waits(True), Waits(False)))
    assert raised.value.status == 503


@pytest.mark.sockets
async def test_a_server_that_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async with served() as server:
        found = await server.get("/ready")
        assert found == (200, "text/plain", b"OK\n")
