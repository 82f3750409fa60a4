"""The loop that gives models a virtual clock, and what models share."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.resolver import MODELS, USUAL
from hsdns.resolver.model import Answer, Ended, Packet, Received, Sent, candidates, within
from hsdns.resolver.resolv_conf import Reader, read_resolv_conf
from hsdns.wire.iana import Rcode, RRType
from tests.support.resolvers.lookups import steps

BOTH = (RRType.A, RRType.AAAA)
KUBE = "nameserver 10.96.0.10\nsearch a.test b.test\noptions ndots:2\n"


@pytest.mark.parametrize(
    ("name", "tried"),
    [
        ("web", ["web.a.test", "web.b.test", "web"]),
        ("web.shop", ["web.shop.a.test", "web.shop.b.test", "web.shop"]),
        ("web.shop.svc", ["web.shop.svc", "web.shop.svc.a.test", "web.shop.svc.b.test"]),
        ("web.", ["web."]),
    ],
)
def test_candidates(name: str, tried: list[str]) -> None:
    assert candidates(read_resolv_conf(KUBE, Reader("any", {})), name) == tried


@pytest.mark.parametrize("resolver", USUAL)
def test_a_slow_answer_takes_virtual_time(resolver: str) -> None:
    """The steps are in the order of their times, and end with the answer."""
    answer = Answer(addresses=("192.0.2.1",))
    found = steps(
        MODELS[resolver](KUBE, Random(0)), "web.", BOTH, lambda packet: (0.7, answer), 10.0
    )
    assert [type(each) for each in found] == [Sent, Sent, Received, Received, Ended]
    assert found[0].packet.at == 10.0  # type: ignore[union-attr]  # it is Sent
    last = found[-1]
    assert isinstance(last, Ended)
    assert last.at == pytest.approx(10.7)
    assert set(last.result.addresses) == {"192.0.2.1"}


@pytest.mark.parametrize("resolver", USUAL)
def test_an_answer_that_comes_too_late_is_not_used(resolver: str) -> None:
    nothing = steps(MODELS[resolver](KUBE, Random(0)), "web.", BOTH, lambda packet: None)
    end = nothing[-1]
    assert isinstance(end, Ended)
    assert end.result.error
    late = Answer(Rcode.NOERROR, ("192.0.2.1",))
    end = (steps(MODELS[resolver](KUBE, Random(0)), "web.", BOTH, lambda packet: (60.0, late)))[-1]
    assert isinstance(end, Ended)
    assert end.result.error


def test_a_wait_without_end() -> None:
    model = MODELS["glibc"]("options use-vc\n", Random(0))
    end = (steps(model, "web.", BOTH, lambda packet: None))[-1]
    assert isinstance(end, Ended)
    assert end.result.error == "no result: still waiting"


def test_within() -> None:
    answer = Answer(addresses=tuple(f"192.0.2.{each}" for each in range(60)))
    packet = Packet(0.0, "udp", 0, "u1", 1, RRType.A, "h.example.com")
    assert len(within(answer, packet, 512)) == 30  # as many as fit, 31 + 30 * 16 octets
    assert len(within(answer, packet, 510)) == 29
    assert len(within(answer, packet, 65535)) == 60
