"""Timeouts that end when a test says so, whatever the time and however busy the machine.

Path: a test's scripted server -> ScriptedTimeouts.expire -> the code under test, which waits in asyncio.timeout.
"""

from __future__ import annotations

import asyncio

import pytest


class ScriptedTimeouts:
    """In place of asyncio.timeout, as long as `monkeypatch` lasts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._make = asyncio.timeout
        self._newest: asyncio.Timeout | None = None
        monkeypatch.setattr(asyncio, "timeout", self._timeout)

    def expire(self) -> None:
        """Let the timeout that began last end now."""
        assert self._newest is not None, "nothing waits"
        self._newest.reschedule(asyncio.get_running_loop().time())

    def _timeout(self, delay: float | None) -> asyncio.Timeout:
        self._newest = self._make(None)
        return self._newest
