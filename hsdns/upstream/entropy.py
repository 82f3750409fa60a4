"""Unpredictable numbers for query IDs and the choice of ports (RFC 5452 section 9.2).

Path: upstream/multiplexer.py draws two for each query.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

_REFILL: Final = (
    4096  # octets; a call of the kernel for each number would cost more than the number
)


class Entropy:
    """Draws from the kernel's random number generator, many at a time; `draw` returns so many random octets."""

    __slots__ = ("_at", "_draw", "_octets")

    def __init__(self, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._draw = draw
        self._octets = b""
        self._at = 0

    def number(self) -> int:
        """Return a random number of 16 bits."""
        at = self._at
        if at >= len(self._octets):
            self._octets, at = self._draw(_REFILL), 0
        self._at = at + 2
        return self._octets[at] << 8 | self._octets[at + 1]
