"""What each signal does, on loopback; test_histories.py has them in any order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from hsdns.plugins.health import Health
from loadtest.ports import free_port
from tests.server.loopback import (
    NOERROR,
    WHOAMI,
    Lameduck,
    ReloadableServer,
    default_signals,
    is_free,
    running,
)
from tests.support.coroutines.event_loops import until

pytestmark = pytest.mark.sockets


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        pytest.param([signal.SIGTERM], 0, id="term"),
        pytest.param([signal.SIGINT], 0, id="int"),
        pytest.param([signal.SIGINT, signal.SIGINT], 2, id="int-twice"),
        pytest.param([signal.SIGTERM, signal.SIGINT], 2, id="term-then-int"),
        pytest.param([signal.SIGTERM, signal.SIGTERM], 0, id="term-twice"),
        pytest.param([signal.SIGQUIT], 0, id="quit"),
        pytest.param([signal.SIGTERM, signal.SIGQUIT], 0, id="term-then-quit"),
        pytest.param([signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM], 0, id="hup-and-usr2-are-ignored"),
    ],
)  # fmt: skip
async def test_signals(
    numbers: list[signal.Signals],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    http = free_port()
    caplog.set_level(logging.INFO, "hsdns")
    corefile = WHOAMI.replace("whoami", f"health 127.0.0.1:{http} {{\nlameduck 30s\n}}\nwhoami")
    reloadable = ReloadableServer(tmp_path, corefile)
    lameduck = Lameduck(monkeypatch)
    monkeypatch.setattr(Health, "_watch", lambda *_: asyncio.Event().wait())
    with default_signals(reloadable.server):
        await reloadable.server.start()
        served = asyncio.create_task(reloadable.server.run())
        for number in numbers:
            os.kill(os.getpid(), number)
            if number in (signal.SIGTERM, signal.SIGINT):
                await until(lambda: bool(lameduck.seconds) or served.done(), "the lameduck period")
            elif number != signal.SIGQUIT:
                assert (await reloadable.ask()).startswith(NOERROR)
        if status == 0 and signal.SIGQUIT not in numbers:
            lameduck.over.set()
        async with asyncio.timeout(30):
            assert await served == status
    assert is_free(reloadable.port)
    quits = "SIGQUIT: Quitting process immediately" in caplog.messages
    assert quits is (signal.SIGQUIT in numbers)
    assert ("SIGINT: Force quit" in caplog.messages) is (status == 2)


async def test_sigusr1_reloads(tmp_path: Path) -> None:
    reloadable = ReloadableServer(tmp_path, WHOAMI)
    with default_signals(reloadable.server):
        async with running(reloadable):
            before = reloadable.server.configuration
            os.kill(os.getpid(), signal.SIGUSR1)
            await until(lambda: reloadable.server.configuration is not before, "a reload")
            assert (await reloadable.ask()).startswith(NOERROR)
