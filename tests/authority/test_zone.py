from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.authority.zone import Zone, ZoneError, is_newer, serial_of, timers_of
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests.support.plugins.requests import rr, section

SOA = "example.org. 3600 IN SOA ns.example.org. host.example.org. 7 7200 0 1209600 300"
ORIGIN = Name.from_text("example.org.")


def make(*records: str) -> Zone:
    return Zone(ORIGIN, [rr(SOA), *map(rr, records)])


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        pytest.param(
            "A.Example.ORG. 1 IN NS Ns.Example.NET.",
            "a.example.org. 1 IN NS ns.example.net.",
            id="ns",
        ),
        pytest.param(
            "a.example.org. 1 IN CNAME B.c.", "a.example.org. 1 IN CNAME b.c.", id="cname"
        ),
        pytest.param("a.example.org. 1 IN MX 76 B.c.", "a.example.org. 1 IN MX 76 b.c.", id="mx"),
        pytest.param(
            'A.example.org. 1 IN HTTPS 1 B.c. alpn="H2"',
            'a.example.org. 1 IN HTTPS 1 b.c. alpn="H2"',
            id="https",
        ),
        pytest.param(
            "A.example.org. 1 IN SRV 1 2 3 B.c.",
            "A.example.org. 1 IN SRV 1 2 3 B.c.",
            id="srv-keeps-its-case",
        ),
        pytest.param(
            "A.example.org. 1 IN PTR B.c.",
            "a.example.org. 1 IN PTR B.c.",
            id="ptr-target-keeps-its-case",
        ),
        pytest.param('A.example.org. 1 IN TXT "Ab"', 'a.example.org. 1 IN TXT "Ab"', id="txt"),
    ],
)
def test_letter_case(record: str, kept: str) -> None:
    assert section(list(make(record).records())) == [kept]


def test_soa() -> None:
    zone = Zone(ORIGIN, [rr(SOA.replace("ns.example.org. host", "NS.Example.org. Host"))])
    assert section([zone.soa]) == [SOA]
    assert (zone.serial, serial_of(zone.soa), timers_of(zone.soa)) == (7, 7, (7200, 1, 1209600))


def test_the_soa_that_ends_a_transfer_counts_once() -> None:
    zone = Zone(ORIGIN, [rr(SOA), rr(SOA)])
    assert (zone.apex.rrset(6), list(zone.records())) == ((rr(SOA),), [])


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        pytest.param([], "there is no SOA record for example.org.", id="no-soa"),
        pytest.param(
            [SOA, "a.example.org. 1 IN NSEC3PARAM 1 0 0 -"],
            "a.example.org. has NSEC3PARAM; signed zones are supported with NSEC only; sign it with NSEC",
            id="nsec3",
        ),
    ],
)
def test_no_zone(records: list[str], reason: str) -> None:
    with pytest.raises(ZoneError) as error:
        Zone(ORIGIN, map(rr, records))
    assert str(error.value) == reason


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
