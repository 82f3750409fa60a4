"""Which queries meet a condition, in order; and to which zones they may come."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.faults import selector
from hsdns.faults.selector import Nth, Zone
from hsdns.faults.words import read_rule
from hsdns.wire.name import Name
from tests.faults.queries import asked, marks

SERVERS = ("dns://:53", "tls://:853")


@pytest.mark.parametrize(
    ("text", "queries", "expected"),
    [
        ("name web.test", "web.test | WEB.test. | a.web.test | test", "1100"),
        ("name *.test", "web.test | a.web.test | test | B.TEST", "1001"),
        ("name a.*.test", "a.b.test | a.test | b.a.test | a.c.test", "1001"),
        ("name below web.test", "web.test | a.web.test | xweb.test | test", "1100"),
        ("type AAAA", "a. A | a. AAAA | a. TYPE28", "011"),
        ("transport udp", "a. | a. tcp | a. dot | a. doh", "1000"),
        ("transport dot", "a. | a. tcp | a. dot | a. doh", "0010"),
        ("transport doh", "a. | a. tcp | a. dot | a. doh", "0001"),
        ("client 10.0.0.0/30", "a. 10.0.0.1 | a. 10.0.0.4 | a. 2001:db8::1", "100"),
        ("client 2001:db8::/32", "a. 10.0.0.1 | a. 2001:db8::1", "01"),
        ("client fe80::1", "a. fe80::1%eth0 | a. fe80::2", "10"),
        ("pod shop/web-0", "a. 10.0.0.1 | a. 10.0.0.2 | a. 10.0.0.3", "100"),
        ("pod Shop/*", "a. 10.0.0.1 | a. 10.0.0.2 | a. 10.0.0.3", "110"),
        ("asked 10.96.0.10", "a. to=10.96.0.10 | a. to=10.96.0.11", "10"),
        ("listener tls://:853", "a. | a. dot", "01"),
        ("nth 1", "a. A | a. A | a. AAAA | b. A | A. A", "10110"),
        ("nth 2", "a. A | a. A | a. AAAA | b. A | A. A", "01000"),
        ("type A nth 2", "a. AAAA | a. A | a. AAAA | a. A", "0001"),
        ("not nth 1", "a. A | a. A | a. A", "011"),
        ("after 5s", "a. @4.9 | a. @5 | a. @6", "011"),
        ("before 5s", "a. @4.9 | a. @5 | a. @6", "100"),
        ("after 2s before 5s", "a. @1 | a. @3 | a. @6", "010"),
        ("share 1", "a. | a. | a.", "111"),
        ("type A or type AAAA", "a. A | a. AAAA | a. SRV", "110"),
        ("not type A", "a. A | a. AAAA | a. SRV", "011"),
        ("not ( type A or type AAAA )", "a. A | a. AAAA | a. SRV", "001"),
        ("transport udp ( type A or type AAAA )", "a. A | a. A tcp | a. SRV", "100"),
    ],
)
def test_queries(text: str, queries: str, expected: str) -> None:
    assert marks(text, queries) == expected


def test_share_is_drawn_for_what_comes_so_far() -> None:
    """The queries of another type do not change which ones are chosen."""
    alone = marks("type AAAA share 0.5", " | ".join(["a. AAAA"] * 40), seed=7)
    mixed = marks("type AAAA share 0.5", " | ".join(["a. AAAA | a. A"] * 40), seed=7)
    assert mixed[::2] == alone
    assert set(mixed[1::2]) == {"0"}
    assert 10 < alone.count("1") < 30
    assert marks("type AAAA share 0.5", " | ".join(["a. AAAA"] * 40), seed=8) != alone


def test_names_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector, "MAX_REMEMBERED", 2)
    nth = Nth(1)
    found = [nth.matches(asked(name), 0.0, Random(1)) for name in ("a.", "b.", "c.", "b.", "a.")]
    assert found == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("type A", "a. A", True),
        ("type A", "a. SRV", False),
        ("type A share 0.5", "a. A", None),
        ("type A share 0.5", "a. SRV", False),
        ("type A or share 0.5", "a. A", True),
        ("not share 0.5", "a. A", None),
        ("nth 1", "a. A", None),
        ("flow first", "a. A", None),
        ("transport udp", "a. ?", None),
        ("asked 10.96.0.10", "a. to=?", None),
    ],
)
def test_foreseen(text: str, query: str, expected: bool | None) -> None:
    selector = read_rule(f"drop {text}".split(), SERVERS).selector
    assert selector.foresee(asked(query), 0.0) is expected


ROOT_ZONE = Zone("dns://:53", Name.from_text("."), [Name.from_text("cluster.local.")])
CLUSTER = Zone("dns://:53", Name.from_text("cluster.local."), [])
OF_TLS = Zone("tls://:853", Name.from_text("."), [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "root cluster tls"),
        ("type A", "root cluster tls"),
        ("name web.cluster.local.", "cluster tls"),
        ("name cluster.local.", "root cluster tls"),  # for DS, the root zone's block
        ("name example.com.", "root tls"),
        ("name below local.", "root cluster tls"),
        ("name below shop.svc.cluster.local.", "cluster tls"),
        ("name *.svc.cluster.local.", "cluster tls"),
        ("name web.*.svc.cluster.local.", "cluster tls"),
        ("name *.local.", "root cluster tls"),
        ("name *.svc.*.local.", "root cluster tls"),
        ("listener tls://:853", "tls"),
        ("name below cluster.local. listener dns://:53", "root cluster"),  # the same
        ("name example.com. or name web.cluster.local.", "root cluster tls"),
        ("not name web.cluster.local.", "root cluster tls"),
        ("name web.cluster.local. not type A", "cluster tls"),
        ("name web.cluster.local. flow first", "root cluster tls"),
        ("share 0.5 ( name web.cluster.local. or name api.cluster.local. )", "cluster tls"),
    ],
)
def test_zones(text: str, expected: str) -> None:
    selector = read_rule(f"drop {text}".split(), SERVERS).selector
    zones = {"root": ROOT_ZONE, "cluster": CLUSTER, "tls": OF_TLS}
    assert " ".join(name for name, zone in zones.items() if selector.touches(zone)) == expected
