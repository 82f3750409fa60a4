"""Lookups of a model with the answers of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hsdns.resolver.model import Fate, Model, Packet, Trace, VirtualTransport, look_up
from tests.support.coroutines.eager import finish


def trace_of(
    model: Model, name: str, types: Sequence[int], ask: Callable[[Packet], Fate], at: float = 0.0
) -> Trace:
    """A lookup on a virtual clock."""

    async def fate(packet: Packet) -> Fate:
        return ask(packet)

    return finish(look_up(model, name, types, VirtualTransport(fate, at)))
