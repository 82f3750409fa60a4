"""Timeouts that end when a test says so, whatever the time and however busy the machine.

Path: a test's scripted server -> expire_timeouts() -> the code under test, which waits in asyncio.timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

_made: list[tuple[float | None, asyncio.Timeout]] = []


def script_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no asyncio.timeout end by the clock, as long as `monkeypatch` lasts."""
    make = asyncio.timeout
    _made.clear()

    def timeout(delay: float | None) -> asyncio.Timeout:
        made = make(None)
        _made.append((delay, made))
        return made

    monkeypatch.setattr(asyncio, "timeout", timeout)


def expire_timeouts(seconds: float) -> None:
    """End every asyncio.timeout that runs now and would last so many seconds."""
    now = asyncio.get_running_loop().time()
    for delay, each in _made:
        if delay == seconds:
            with contextlib.suppress(RuntimeError):  # it is over, or has not begun
                each.reschedule(now)


def silence_until_timeout(seconds: float) -> Callable[[bytes], list[bytes]]:
    """Make a server's script: it sends nothing, and the client's timeout ends when its query has arrived."""

    def script(wire: bytes) -> list[bytes]:
        expire_timeouts(seconds)
        return []

    return script
