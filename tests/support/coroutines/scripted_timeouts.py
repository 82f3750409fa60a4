"""Timeouts that end when a test says so, whatever the time and however busy the machine.

Path: a test's scripted server -> expire_timeouts() -> the code under test, which waits in asyncio.timeout or for a
multiplexer of upstream/.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from hsdns.upstream import exchange
from hsdns.upstream.multiplexer import TICK, Multiplexer

_made: list[tuple[float | None, asyncio.Timeout]] = []
_multiplexers: list[ScriptedMultiplexer] = []


class ScriptedMultiplexer(Multiplexer):
    """A multiplexer whose clock a test moves on."""

    def __init__(
        self, open_socket: Any, clock: Callable[[], float], *args: Any, **more: Any
    ) -> None:
        super().__init__(open_socket, lambda: clock() + self.passed, *args, **more)
        self.passed = 0.0
        _multiplexers.append(self)

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass, and more than a tick, since a time-out may be a tick late."""
        self.passed += seconds + 2 * TICK
        self.expire()


def script_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no asyncio.timeout and no multiplexer's timeout end by the clock, as long as `monkeypatch` lasts."""
    make = asyncio.timeout
    _made.clear()
    _multiplexers.clear()

    def timeout(delay: float | None) -> asyncio.Timeout:
        made = make(None)
        _made.append((delay, made))
        return made

    monkeypatch.setattr(asyncio, "timeout", timeout)
    monkeypatch.setattr(exchange, "Multiplexer", ScriptedMultiplexer)


def expire_timeouts(seconds: float) -> None:
    """End every timeout that runs now and would last so many seconds, those of multiplexers if they last less."""
    loop = asyncio.get_running_loop()
    for each in _multiplexers:
        if len(each):
            loop.call_soon(each.pass_time, seconds)
    now = loop.time()
    for delay, timeout in _made:
        if delay == seconds:
            with contextlib.suppress(RuntimeError):  # it is over, or has not begun
                timeout.reschedule(now)


def silence_until_timeout(seconds: float) -> Callable[[bytes], list[bytes]]:
    """Make a server's script: it sends nothing, and the client's timeout ends when its query has arrived."""

    def script(wire: bytes) -> list[bytes]:
        expire_timeouts(seconds)
        return []

    return script
