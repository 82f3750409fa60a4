"""The model of c-ares, where no trace is: its cache, and the time that it waits once it knows its server."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.resolver.cares import CAres
from hsdns.resolver.model import Answer, Ended, Packet, Sent
from hsdns.wire.iana import Rcode, RRType
from tests.support.resolvers.lookups import steps

BOTH = (RRType.A, RRType.AAAA)


def look_up(
    model: CAres, name: str, answer: Answer | None, delay: float = 0.0
) -> tuple[int, Ended]:
    def ask(packet: Packet) -> tuple[float, Answer] | None:
        return None if answer is None else (delay, answer)

    found = steps(model, name, BOTH, ask, model.now)
    end = found[-1]
    assert isinstance(end, Ended)
    return sum(isinstance(each, Sent) for each in found), end


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(addresses=("192.0.2.1",), ttl=30), 30),
        (Answer(Rcode.NXDOMAIN, ttl=7), 7),
        (Answer(ttl=5), 3600),
    ],
)
def test_cache(answer: Answer, seconds: int) -> None:
    model = CAres("", Random(0))
    first = look_up(model, "web.", answer)[1].result
    model.now += seconds - 1
    sent, end = look_up(model, "web.", answer)
    assert (sent, end.result.error, len(end.result.addresses)) == (
        0,
        first.error,
        len(first.addresses),
    )
    model.now += 2
    assert look_up(model, "web.", answer)[0] == 2


def test_it_waits_five_times_as_long_as_its_server_takes() -> None:
    model = CAres("", Random(0))
    for name in ("a.", "b."):
        look_up(model, name, Answer(Rcode.NXDOMAIN), 0.2)
    first = model.now
    sent, end = look_up(model, "c.", None)
    assert sent == 6
    assert 1.0 + 1.0 + 2.0 <= end.at - first <= 1.0 + 2.0 + 4.0
