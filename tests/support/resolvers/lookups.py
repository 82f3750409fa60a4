"""Lookups of a model with answers from a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from hsdns.resolver import MODELS
from hsdns.resolver.model import (
    Answer,
    Ended,
    Fate,
    Model,
    Packet,
    Result,
    Sent,
    Step,
    VirtualTransport,
)
from hsdns.resolver.model import look_up as run
from hsdns.wire.iana import Rcode, RRType, type_to_text
from tests.support.coroutines.eager import finish

OK = Answer(addresses=("192.0.2.1",))
NODATA = Answer()
NXDOMAIN = Answer(Rcode.NXDOMAIN)
Answers = Mapping[str, Answer | None]


def steps(
    model: Model, name: str, types: Sequence[int], ask: Callable[[Packet], Fate], at: float = 0.0
) -> list[Step]:
    """All steps of a lookup on a virtual clock."""

    async def fate(packet: Packet) -> Fate:
        return ask(packet)

    return finish(run(model, name, types, VirtualTransport(fate, at)))


def look_up(
    resolver: str, text: str, name: str, answers: Answers, *types: int
) -> tuple[list[str], Result]:
    """The queries, as "A name", and the result; `answers` are by query or by name, all others are NXDOMAIN."""

    def ask(packet: Packet) -> tuple[float, Answer] | None:
        query = f"{type_to_text(packet.rrtype)} {packet.name}"
        answer = answers.get(query, answers.get(packet.name, NXDOMAIN))
        return None if answer is None else (0.0, answer)

    found = steps(MODELS[resolver](text, Random(0)), name, types or (RRType.A, RRType.AAAA), ask)
    end = found[-1]
    assert isinstance(end, Ended)
    packets = [each.packet for each in found if isinstance(each, Sent)]
    return [f"{type_to_text(each.rrtype)} {each.name}" for each in packets], end.result
