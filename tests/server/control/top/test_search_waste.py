"""Which queries a search list asks in vain, and who asks them."""

from __future__ import annotations

import pytest

from hsdns.server.control.top import MOST_WASTED, search_waste, wasted
from tests.server.control.top.seen import TURN, ZONES, seen
from tests.support.coroutines.eager import finish

SEARCH = "shop.svc.cluster.local", "svc.cluster.local", "cluster.local"


@pytest.mark.parametrize(
    ("queries", "vain"),
    [
        pytest.param([*(f"www.example.org.{each} NXDOMAIN" for each in SEARCH), "www.example.org NOERROR"], [0, 1, 2], id="outside"),
        pytest.param(["db.prod.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [0], id="other namespace"),
        pytest.param(["db.prod.svc.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [0, 1], id="with svc"),
        pytest.param(["db.prod.svc.cluster.local.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [0], id="in full"),
        pytest.param(["WWW.example.org.shop.svc.cluster.local NXDOMAIN", "www.EXAMPLE.org NOERROR"], [0], id="case"),
        pytest.param(["www.example.org NOERROR", "www.example.org.shop.svc.cluster.local NXDOMAIN"], [1], id="in any order"),
        pytest.param(["www.example.org.shop.svc.cluster.local NXDOMAIN AAAA", "www.example.org NOERROR A"], [0], id="another type"),
        pytest.param([*(f"gone.example.org.{each} NXDOMAIN" for each in SEARCH), "gone.example.org NXDOMAIN"], [], id="fails in every form"),
        pytest.param(["db.shop.svc.cluster.local NXDOMAIN", "db.prod.svc.cluster.local NOERROR"], [], id="same Service elsewhere"),
        pytest.param(["www.example.org.shop.svc.cluster.local SERVFAIL", "www.example.org NOERROR"], [], id="another rcode"),
        pytest.param(["www.example.org.corp.example NXDOMAIN", "www.example.org NOERROR"], [], id="not of the cluster"),
        pytest.param(["cluster.local NXDOMAIN", "a.svc.cluster.local NXDOMAIN", "svc.cluster.local NOERROR"], [], id="short names"),
    ],
)  # fmt: skip
def test_wasted(queries: list[str], vain: list[int]) -> None:
    found = [seen(each) for each in queries]
    assert finish(wasted(found, ZONES, TURN)) == {id(found[at]) for at in vain}


def test_the_worst_askers_come_first() -> None:
    found = [
        seen("a.shop.svc.cluster.local NXDOMAIN", client="10.0.0.1"),
        seen("a NOERROR", client="10.0.0.1"),
        seen("a.svc.cluster.local NXDOMAIN", client="10.0.0.2", weight=2.5),
        seen("b.svc.cluster.local NXDOMAIN", client="10.0.0.2", weight=2.5),
        seen("c NOERROR", client="10.0.0.3"),
    ]
    vain = {id(found[at]) for at in (0, 2, 3)}
    assert finish(search_waste(found, vain, TURN)) == [
        {"client": "10.0.0.2", "queries": 5, "wasted": 5, "example": "b.svc.cluster.local."},
        {"client": "10.0.0.1", "queries": 2, "wasted": 1, "example": "a.shop.svc.cluster.local."},
    ]
    many = [seen("a NXDOMAIN", client=f"10.0.0.{number}") for number in range(MOST_WASTED + 1)]
    assert len(finish(search_waste(many, {id(each) for each in many}, TURN))) == MOST_WASTED
