"""Lookups of a model with answers from a table."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from hsdns.resolver import MODELS
from hsdns.resolver.model import Answer, Ended, Packet, Result, Sent, steps
from hsdns.wire.iana import Rcode, RRType, type_to_text

OK = Answer(addresses=("192.0.2.1",))
NODATA = Answer()
NXDOMAIN = Answer(Rcode.NXDOMAIN)
Answers = Mapping[str, Answer | None]


def look_up(
    resolver: str, text: str, name: str, answers: Answers, *types: int
) -> tuple[list[str], Result]:
    """The queries, as "A name", and the result; `answers` are by query or by name, all others are NXDOMAIN."""

    def ask(packet: Packet) -> tuple[float, Answer] | None:
        query = f"{type_to_text(packet.rrtype)} {packet.name}"
        answer = answers.get(query, answers.get(packet.name, NXDOMAIN))
        return None if answer is None else (0.0, answer)

    found = list(
        steps(MODELS[resolver](text, Random(0)), name, types or (RRType.A, RRType.AAAA), ask)
    )
    end = found[-1]
    assert isinstance(end, Ended)
    packets = [each.packet for each in found if isinstance(each, Sent)]
    return [f"{type_to_text(each.rrtype)} {each.name}" for each in packets], end.result
