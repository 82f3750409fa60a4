"""Rules that can never match."""

from __future__ import annotations

import pytest

from hsdns.faults import dry_run
from hsdns.faults.dry_run import never_matches
from hsdns.faults.selector import Zone
from hsdns.faults.words import read_rule
from hsdns.wire.name import Name
from tests.faults.queries import SERVERS

ZONES = [
    Zone(server, Name.from_text(apex), [])
    for server in SERVERS[:2]
    for apex in ("cluster.local", "10.in-addr.arpa")
]
NO_ZONE = "no server block has a zone for its names; the zones are cluster.local., 10.in-addr.arpa."
NONE = ", or there is no such listener; there is"
STREAMS = f"{NONE} tcp at dns://:53, dot at tls://:853"
DATAGRAMS = f"{NONE} udp at dns://:53, dot at tls://:853"
LATE = 'it ends before it is due; give it a longer time with "for"'
EXCLUDE = "its action and its selectors exclude each other"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("drop", ""),
        ("drop name web.cluster.local", ""),
        ("drop name below local", ""),
        ("drop name *.*.svc.cluster.local", ""),
        ("drop name web.example.com", NO_ZONE),
        ("drop name below example.com", NO_ZONE),
        ("drop name *.example.com type A", NO_ZONE),
        ("drop name web.example.com or type A", ""),
        ("drop not name web.example.com", ""),
        ("drop not name below local name below cluster.local", EXCLUDE),
        ("drop name a.cluster.local name b.cluster.local", EXCLUDE),
        ("drop name below a.cluster.local name x.a.cluster.local", ""),
        ("drop type A type AAAA", EXCLUDE),
        ("drop type A or type AAAA", ""),
        ("drop transport udp transport tcp", EXCLUDE),
        ("drop listener dns://:53 listener tls://:853", EXCLUDE),
        ("drop listener dns://:53", ""),
        ("drop client 10.0.0.0/8 client 192.168.0.0/16", EXCLUDE),
        ("drop client 10.0.0.0/8 client 10.1.0.0/16", ""),
        ("drop pod shop/web-0 pod shop/web-1", EXCLUDE),
        ("drop pod shop/web-0 pod shop/*", ""),
        ("truncate transport tcp", EXCLUDE),
        ("truncate transport udp", ""),
        ("answer 192.0.2.1 type AAAA", EXCLUDE),
        ("answer 192.0.2.1", ""),
        ("endpoints 1 type TXT", EXCLUDE),
        ("drop after 5s before 2s", EXCLUDE),
        ("drop after 2s before 5s", ""),
        ("drop after 10m for 5m", LATE),
        ("drop after 5m for 10m", ""),
        ("drop flow first nth 1 share 0.5", ""),
        ("hang", ""),
        ("hang transport dot nth 2", ""),
        ("hang transport doh", EXCLUDE + STREAMS),
        ("hang transport udp", EXCLUDE + STREAMS),
        ("hang transport dot listener dns://:53", EXCLUDE + STREAMS),
        ("hang client 10.0.0.0/8 pod shop/web-0", ""),
        ("hang after 10m for 5m", LATE),
        ("queue-full listener dns://:53", ""),
        ("queue-full listener tls://:853", EXCLUDE + DATAGRAMS),
        ("restart after 5m for 10m", ""),
        ("restart after 10m for 5m", LATE),
        ("die 1s times 2", "die 1s is done once, not 2 times"),
        ("die 1s pending 5 times 2", ""),
    ],
)  # fmt: skip
def test_rules(text: str, why: str) -> None:
    assert never_matches(read_rule(text.split(), SERVERS), ZONES) == why


HOSTS = [
    Zone(f"dns://{host}:53", Name.from_text("cluster.local"), [])
    for host in ("10.0.0.10", "[fd00::10]")
]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("drop asked 10.0.0.10", ""),
        ("drop asked fd00:0::10", ""),
        ("drop not asked 10.0.0.10", ""),
        ("drop asked 10.0.0.11 or type A", ""),
        ("drop asked 10.0.0.11", "no listener has the address 10.0.0.11; they have 10.0.0.10, fd00::10"),
        ("refuse asked 10.0.0.10", ""),
        ("refuse asked 10.0.0.11", "no listener has the address 10.0.0.11; they have 10.0.0.10, fd00::10"),
        ("drop asked 10.0.0.10 asked fd00::10", EXCLUDE),
    ],
)  # fmt: skip
def test_addresses_of_listeners(text: str, why: str) -> None:
    assert never_matches(read_rule(text.split()), HOSTS) == why
    if why != EXCLUDE:
        assert never_matches(read_rule(text.split()), [*HOSTS, *ZONES]) == "", "a wildcard has any"


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "MAX_TRIES", 2)
    assert never_matches(read_rule("drop type A type AAAA".split()), ZONES) == ""
