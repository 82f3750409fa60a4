"""Exponential backoff between requests to the API server.

Path: reflector.py calls it after a failure.
Source: client-go 1.36 tools/cache/reflector.go (0.8 s doubling to 30 s, with jitter, reset after two minutes without a
failure).  Unlike there, no pause exceeds 30 s with jitter, and a server that accepted no connections gets a request as
soon as it accepts them again (watcher.py).
"""

from __future__ import annotations

from random import Random
from typing import Final

FIRST_PAUSE: Final = 0.8  # seconds
MAX_PAUSE: Final = 30.0
FACTOR: Final = 2.0
STARTING: Final = (
    15.0  # seconds after its return in which a server may still refuse what it will answer soon
)
HEALTHY: Final = 120.0  # seconds without a failure after which the backoff is reset


class Backoff:
    """The backoff of one watch."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = FIRST_PAUSE
        self._last_failure: float | None = None
        self._starting_until = 0.0

    def begin_anew(self, now: float) -> None:
        """Begin with the first pause, and keep it while a server that has returned is still starting."""
        self._next, self._starting_until = FIRST_PAUSE, now + STARTING

    def pause(self, now: float) -> float:
        """Return the seconds to wait after a failure at monotonic time `now`."""
        if self._last_failure is not None and now - self._last_failure > HEALTHY + self._next:
            self._next = FIRST_PAUSE
        self._last_failure = now
        pause = min(self._next * (1.0 + self._random.random()), MAX_PAUSE)
        if now >= self._starting_until:
            self._next = min(self._next * FACTOR, MAX_PAUSE)
        return pause
