"""Policies for the order in which upstreams are tried.

Path: plugins/forward.py gets an order for each query.
Source: CoreDNS 1.14.7 plugin/forward policy.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

POLICIES: Final = ("random", "round_robin", "sequential")


class Policy:
    """Orders upstreams by one of POLICIES."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._turn = 0

    def order(self, upstreams: Sequence[T]) -> Sequence[T]:
        """Return the upstreams in the order to try them.

        `random` shuffles them and `sequential` keeps the order of the Corefile; `round_robin` moves the next one to the
        front and keeps the order of the others (no rotation).
        """
        if len(upstreams) < 2 or self._name == "sequential":
            return upstreams
        if self._name == "random":
            return self._random.sample(upstreams, len(upstreams))
        self._turn += 1
        first = self._turn % len(upstreams)
        return [upstreams[first], *upstreams[:first], *upstreams[first + 1 :]]
