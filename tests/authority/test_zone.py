from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.authority.zone import Zone, is_newer, serial_of, timers_of
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests.support.plugins.requests import rr, section

SOA = "example.org. 3600 IN SOA ns.example.org. host.example.org. 7 7200 0 1209600 300"
ORIGIN = Name.from_text("example.org.")


def make(*records: str) -> Zone:
    return Zone(ORIGIN, [rr(SOA), *map(rr, records)])


def test_soa() -> None:
    zone = Zone(ORIGIN, [rr(SOA.replace("ns.example.org. host", "NS.Example.org. Host"))])
    assert section([zone.soa]) == [SOA]
    assert (zone.serial, serial_of(zone.soa), timers_of(zone.soa)) == (7, 7, (7200, 1, 1209600))


def test_the_soa_that_ends_a_transfer_counts_once() -> None:
    zone = Zone(ORIGIN, [rr(SOA), rr(SOA)])
    assert (zone.apex.rrset(6), list(zone.records())) == ((rr(SOA),), [])


def test_empty_non_terminals_exist() -> None:
    zone = make("a.b.c.example.org. 1 IN A 192.0.2.1")
    names = [
        "example.org.",
        "c.example.org.",
        "b.c.example.org.",
        "a.b.c.example.org.",
        "x.example.org.",
        "org.",
    ]
    assert [zone.exists(Name.from_text(name).lower) for name in names] == [
        True,
        True,
        True,
        True,
        False,
        True,
    ]


def test_records_begin_with_the_apex() -> None:
    lines = [
        "www.example.org. 1 IN A 192.0.2.1",
        "example.org. 1 IN MX 1 a.",
        "example.org. 1 IN RRSIG SOA 8 2 1 20300101000000 20240101000000 1 example.org. c29h",
        "example.org. 1 IN NS ns.example.org.",
        "example.org. 1 IN RRSIG NS 8 2 1 20300101000000 20240101000000 1 example.org. bnM=",
    ]
    assert section(list(make(*lines).records())) == [lines[at] for at in (2, 3, 4, 1, 0)]


def test_covering_nsec_is_in_canonical_order() -> None:
    names = [
        "example.org.",
        "a.example.org.",
        "yljkjljk.a.example.org.",
        "z.a.example.org.",
        "z.example.org.",
    ]
    zone = make(*(f"{name} 1 IN NSEC x. A" for name in names), "y.example.org. 1 IN A 192.0.2.1")
    asked = {
        "b.a.example.org.": "a",
        "zz.z.a.example.org.": "z.a",
        "yy.example.org.": "z.a",
        "zz.example.org.": "z",
    }
    for name, expected in asked.items():
        found = zone.covering_nsec(Name.from_text(name))
        assert found is not None
        assert found.owner == Name.from_text(f"{expected}.example.org.")
    assert make().covering_nsec(ORIGIN) is None


labels = st.lists(st.sampled_from(["a", "B", "*", "c"]), max_size=4)


@given(st.lists(labels, max_size=12))
def test_all_records_come_back(owners: list[list[str]]) -> None:
    records = [
        RR(Name.from_text(".".join([*owner, "example.org."])), 16, 1, bytes((1, 48 + index)))
        for index, owner in enumerate(owners)
    ]
    zone = Zone(ORIGIN, [rr(SOA), *records])
    expected = sorted((record.owner.lower, record.rdata) for record in records)
    assert sorted((record.owner.wire, record.rdata) for record in zone.records()) == expected
    assert all(zone.exists(ancestor) for record in records for ancestor in record.owner.ancestors())


@pytest.mark.parametrize(
    ("serial", "than", "newer"),
    [
        (2, 1, True),
        (1, 2, False),
        (1, 1, False),
        (0, 2**32 - 1, True),
        (2**31, 0, False),
        (2**31 - 1, 0, True),
    ],
)
def test_serials_wrap(serial: int, than: int, newer: bool) -> None:
    assert is_newer(serial, than) is newer
