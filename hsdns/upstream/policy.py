"""In which order upstreams are tried.

Path: plugins/forward.py asks for an order for every query.
Source: CoreDNS 1.14.7 plugin/forward policy.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

POLICIES: Final = ("random", "round_robin", "sequential")


class Policy:
    """Orders upstreams, by one of POLICIES."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._turn = 0

    def order(self, upstreams: Sequence[T]) -> Sequence[T]:
        """The upstreams, the one to try first in front.

        `random` draws an order, `sequential` keeps the given one; `round_robin` puts each in front in turn, and behind
        it the others keep their order (they are not rotated).
        """
        if len(upstreams) < 2 or self._name == "sequential":
            return upstreams
        if self._name == "random":
            return self._random.sample(upstreams, len(upstreams))
        self._turn += 1
        first = self._turn % len(upstreams)
        return [upstreams[first], *upstreams[:first], *upstreams[first + 1 :]]
