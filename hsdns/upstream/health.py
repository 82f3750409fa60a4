"""Health of an upstream: after a failed query it is probed until it replies.

Path: plugins/forward.py reports failed queries; upstreams that are down are skipped.
Source: CoreDNS 1.14.7 plugin/pkg/proxy health.go, plugin/pkg/up up.go.
Rule 1: only probes count: a failed query starts them, each failed probe increments the count, and the first reply of
        any kind resets it and ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from hsdns.wire.name import ROOT, Name

PROBE_TIMEOUT: Final = 1.0  # plugin/pkg/proxy health.go defaultTimeout


class HealthCheck(NamedTuple):
    """The query to probe with, and the seconds between probes."""

    interval: float = 0.5
    recursion_desired: bool = True
    domain: Name = ROOT


class Health:
    """The failures of one upstream."""

    def __init__(self, interval: float) -> None:
        self.failures = 0
        self.is_probing = False  # a second run of probes would count failures twice
        self._interval = interval

    def is_down(self, max_fails: int) -> bool:
        """Whether more than `max_fails` consecutive probes failed; 0 means never down."""
        return max_fails > 0 and self.failures > max_fails

    def probe_until_healthy(
        self, probe: Callable[[], Awaitable[bool]]
    ) -> Coroutine[Any, Any, None]:
        """Probe until a reply comes; `probe` returns whether one did.

        The probes are running from this call on, not only once their task runs: queries may fail together.
        """
        self.is_probing = True
        return self._run(probe)

    async def _run(self, probe: Callable[[], Awaitable[bool]]) -> None:
        try:
            while not await probe():
                self.failures += 1
                await asyncio.sleep(self._interval)
            self.failures = 0
        finally:
            self.is_probing = False
