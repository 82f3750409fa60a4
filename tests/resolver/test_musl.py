"""The model of musl, where no trace is: one family, and the reasons that are given."""

from __future__ import annotations

import pytest

from hsdns.resolver.model import Answer
from hsdns.wire.iana import Rcode, RRType
from tests.support.resolvers import lookups
from tests.support.resolvers.lookups import NXDOMAIN, OK, look_up

KUBE = "nameserver 10.96.0.10\nsearch a.test b.test\noptions ndots:2\n"
MANY = Answer(addresses=tuple(f"192.0.2.{each}" for each in range(60)))


def test_one_family() -> None:
    queries, result = look_up("musl", KUBE, "web", {"web.b.test": OK}, RRType.A)
    assert queries == ["A web.a.test", "A web.b.test"]
    assert result.addresses == ("192.0.2.1",)


@pytest.mark.parametrize(
    ("name", "answers", "why"),
    [
        ("web", {}, "web A is NXDOMAIN"),
        ("x.y.z", {}, "x.y.z A is NXDOMAIN; musl tries no suffix for a name with as many dots as ndots, 2"),
        ("web.", {}, "web. A is NXDOMAIN"),
        ("web", {"web.a.test": lookups.NODATA},
         "web.a.test exists, but has no address; musl tries no other suffix then"),
        ("web", {"A web.a.test": OK, "AAAA web.a.test": None},
         "web.a.test AAAA had no usable answer in 5 seconds, though A had one"),
        ("web.", {"A web": OK, "AAAA web": NXDOMAIN},
         "web. AAAA is NXDOMAIN, which counts for musl although there are addresses"),
        ("web", {"A web.a.test": MANY, "AAAA web.a.test": lookups.NODATA},
         "web.a.test has 60 addresses, of which musl takes 48"),
        ("web.", {"web": Answer(Rcode.REFUSED)}, "web. A had no usable answer in 5 seconds"),
    ],
)  # fmt: skip
def test_reasons(name: str, answers: lookups.Answers, why: str) -> None:
    assert look_up("musl", KUBE, name, answers)[1].why == why
