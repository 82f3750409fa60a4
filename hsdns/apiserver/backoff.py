"""How long to wait before the API server is asked again.

Path: reflector.py asks it after a failure.
Source: client-go 1.36 tools/cache/reflector.go (0.8 s doubling to 30 s, jitter, forgotten after two good minutes);
unlike there the jitter never leads beyond 30 s, so that an outage of hours is noticed to be over within 30 s.
"""

from __future__ import annotations

from random import Random
from typing import Final

FIRST: Final = 0.8  # seconds
LONGEST: Final = 30.0
FACTOR: Final = 2.0
HEALTHY: Final = 120.0  # seconds without a failure after which the next one counts as the first


class Backoff:
    """The pauses of one watch."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = FIRST
        self._last_failure: float | None = None

    def pause(self, now: float) -> float:
        """Seconds to wait after a failure at monotonic time `now`."""
        if self._last_failure is not None and now - self._last_failure > HEALTHY + self._next:
            self._next = FIRST
        self._last_failure = now
        pause = min(self._next * (1.0 + self._random.random()), LONGEST)
        self._next = min(self._next * FACTOR, LONGEST)
        return pause
