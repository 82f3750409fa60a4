"""A lookup as data."""

from __future__ import annotations

from random import Random

from hsdns.resolver import MODELS
from hsdns.resolver.model import Answer, Packet
from hsdns.resolver.report import AnswerReport, report_of
from hsdns.wire.iana import RRType
from tests.support.resolvers.lookups import steps

TEXT = "nameserver 10.0.0.1\nsearch a.test\n"


def test_report() -> None:
    unseen: dict[int, str] = {}
    packets = []  # kept, so that no two have one id()

    def ask(packet: Packet) -> tuple[float, Answer] | None:
        packets.append(packet)
        if packet.transport == "udp":
            return 0.1, Answer(tc=True)
        unseen[id(packet)] = "not seen"
        return 0.1, Answer(is_closed=True)

    found = report_of(
        MODELS["musl"](TEXT, Random(0)),
        (steps(MODELS["musl"](TEXT, Random(0)), "web", (RRType.A,), ask)),
        unseen,
    )
    assert (found.resolver, found.search, found.ndots) == ("musl", ["a.test"], 1)
    assert [each.answer for each in found.queries] == [
        AnswerReport(0.1, "NOERROR", True, []),
        AnswerReport(0.2, None, False, []),
    ]
    assert [each.unseen for each in found.queries] == ["", "not seen"]
    assert (found.error, found.seconds, found.has_reply) == ("Try again", 0.2, True)
