from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.authority import file_zone
from hsdns.authority.file_zone import FileZone
from hsdns.authority.lookup import Result, answer, find
from hsdns.authority.master_file import SameSerial, read_zone
from hsdns.authority.outgoing import BATCH_LEN, TooLong, ZoneTransfer, batches, client_serial
from hsdns.authority.zone import Zone, ZoneError, is_newer, serial_of, timers_of
from hsdns.chain import Request
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.wire.decode import decode
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import RRType, type_from_text
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, reply, rr, section
from tests.support.tables import Row, rows

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


HEAD = "@ 3600 IN SOA ns host 7 1 2 3 4\n"


def records(folder: Path, text: str) -> list[str]:
    path = folder / "db"
    path.write_text(text)
    zone = read_zone(str(path), ORIGIN)
    return section(list(zone.records()))


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("master_files.txt")))
def test_records(tmp_path: Path, row: Row) -> None:
    try:
        found = records(tmp_path, f"{row.given}\n")
    except ZoneError as error:
        found = [f"! {error}".replace(f"{tmp_path / 'db'}", "DB")]
    assert found == row.expected


def test_include(tmp_path: Path) -> None:
    (tmp_path / "more").write_text("www 1 A 192.0.2.1\n")
    assert records(tmp_path, f"{HEAD}$INCLUDE {tmp_path / 'more'} sub\n") == [
        "www.sub.example.org. 1 IN A 192.0.2.1"
    ]


def test_octets_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(HEAD.encode() + b"\xff\xfe A 192.0.2.1\n")
    with pytest.raises(ZoneError):
        read_zone(str(path), ORIGIN)


def test_reading_stops_at_the_serial_that_is_served(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_text(HEAD + "this is not read\n")
    with pytest.raises(SameSerial):
        read_zone(str(path), ORIGIN, served=7)
    with pytest.raises(ZoneError):
        read_zone(str(path), ORIGIN, served=6)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_zone(str(tmp_path / "none"), ORIGIN)


# What neither tests/scenarios/file nor tests/plugins/dialogues/file.txt can say.

SOA_TEXT = "example.org. 60 IN SOA ns. host. 7 7200 3600 1209600 300"
ZONE = Zone(
    ORIGIN,
    map(
        rr,
        [
            SOA_TEXT,
            "away.example.org. 60 IN CNAME www.example.net.",
            "*.w.example.org. 60 IN A 192.0.2.2",
        ],
    ),
)


async def outside(request: Request) -> Reply:
    return reply(["www.example.net. 5 IN A 192.0.2.9"], fresh=True)


def test_what_an_alias_leads_to_in_the_cluster_is_not_for_the_answer_table() -> None:
    dependencies = Dependencies(NoCounters())
    request = make_request("away.example.org.").replace(dependencies=dependencies)
    found, _ = finish(answer(ZONE, request, outside))
    assert found.fresh
    assert not dependencies.is_cacheable


def test_the_wildcard_is_metadata() -> None:
    request = make_request("x.w.example.org.").replace(metadata={})
    finish(answer(ZONE, request, outside))
    assert request.metadata is not None
    assert {label: value() for label, value in request.metadata.items()} == {
        "zone/wildcard": "*.w.example.org."
    }


owners = st.lists(st.sampled_from(["a", "b", "*", "c"]), max_size=3)


@given(st.lists(st.tuples(owners, st.sampled_from(["A", "TXT"])), max_size=8), owners)
def test_a_wildcard_stands_only_for_what_does_not_exist(
    records: list[tuple[list[str], str]], asked: list[str]
) -> None:
    """RFC 4592 section 3.3.1 by another algorithm: search the closest encloser from below."""
    rdata = {"A": bytes(4), "TXT": b"\1x"}
    made = [
        RR(
            Name.from_text(".".join([*labels, "example.org."])),
            type_from_text(rrtype),
            1,
            rdata[rrtype],
        )
        for labels, rrtype in records
    ]
    zone = Zone(ORIGIN, [rr(SOA_TEXT), *made])
    qname = Name.from_text(".".join([*asked, "example.org."]))
    existing = {ancestor for record in made for ancestor in record.owner.ancestors()} | {
        ORIGIN.lower
    }
    source = qname.lower
    if source not in existing:
        encloser = next(each for each in qname.ancestors() if each in existing)
        source = b"\1*" + encloser
    expected = [
        record.rdata
        for record in made
        if record.owner.lower == source and record.rrtype == RRType.A
    ]
    found = find(zone, qname, RRType.A, do=False)
    assert [record.rdata for record in found.answer] == expected
    assert all(record.owner == qname for record in found.answer)
    if not expected:
        assert (found.result == Result.NXDOMAIN) == (source not in existing)


SOA_RECORD = rr("example.org. 60 IN SOA ns. host. 7 1 1 1 1")
SOA_OWNER = SOA_RECORD.owner


@given(st.lists(st.integers(0, 40_000), max_size=20))
def test_everything_is_sent_once_and_every_message_fits(sizes: list[int]) -> None:
    records = [RR(SOA_OWNER, 65280, index, bytes(size)) for index, size in enumerate(sizes)]
    made = list(batches(ZoneTransfer(SOA_RECORD, iter(records))))
    assert [record for batch in made for record in batch] == [SOA_RECORD, *records, SOA_RECORD]
    query = Query.ask(SOA_OWNER, RRType.AXFR)
    for batch in made:
        out = encode(query, Reply(answer=batch), MAX_TCP_LEN)
        assert out[6:8] == len(batch).to_bytes(2, "big")
        assert not out[2] & 2


def test_batches_are_small() -> None:
    records = [RR(SOA_OWNER, 16, 1, b"\7abcdefg")] * 5000
    assert (
        max(
            sum(len(record.rdata) + 23 for record in batch)
            for batch in batches(ZoneTransfer(SOA_RECORD, iter(records)))
        )
        <= BATCH_LEN + 60
    )


def test_a_record_that_fits_no_message() -> None:
    records = iter([RR(SOA_OWNER, 65280, 1, bytes(65_500))])
    with pytest.raises(TooLong, match=r"a record of example\.org\. has 65523 octets"):
        list(batches(ZoneTransfer(SOA_RECORD, records)))


HEADER = bytes.fromhex("0001 0000 0001 0000 0001 0000")
QUESTION = SOA_OWNER.wire + bytes.fromhex("00fb 0001")
FIXED = bytes.fromhex("0006 0001 00000000")
RDATA = bytes.fromhex("00 00 0000002a 00000001 00000001 00000001 00000001")


@pytest.mark.parametrize(
    ("wire", "serial"),
    [
        pytest.param(HEADER + QUESTION + b"\xc0\x0c" + FIXED + b"\0\x16" + RDATA, 42, id="pointer"),
        pytest.param(HEADER + QUESTION + SOA_OWNER.wire + FIXED + b"\0\x16" + RDATA, 42, id="name"),
        pytest.param(
            HEADER + QUESTION + b"\xc0\x0c" + bytes.fromhex("0010 0001 00000000 0002 0141"),
            None,
            id="txt",
        ),
        pytest.param(HEADER[:8] + bytes(4) + QUESTION, None, id="no-authority"),
    ],
)
def test_client_serial(wire: bytes, serial: int | None) -> None:
    assert client_serial(decode(wire)) == serial


@given(st.binary(max_size=60))
def test_any_octets_are_read_or_not(tail: bytes) -> None:
    query = Query.ask(SOA_OWNER, RRType.IXFR).replace(whole=HEADER + QUESTION + tail)
    assert client_serial(query) is None or len(tail) >= 32


log = logging.getLogger("test")


def write(path: Path, serial: int, mtime: int) -> None:
    path.write_text(f"@ 60 IN SOA ns host {serial} 1 2 3 4\n")
    os.utime(path, ns=(0, mtime))


def serial_after(zone: FileZone) -> tuple[bool, int]:
    changed = asyncio.run(zone.reload())
    assert zone.current is not None
    return changed, zone.current.serial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "db"
    write(path, 1, 1)
    return path


@pytest.mark.parametrize(
    ("by_mtime", "serial", "mtime", "expected"),
    [
        pytest.param(False, 2, 1, (True, 2), id="serial"),
        pytest.param(False, 1, 2, (False, 1), id="time-alone"),
        pytest.param(False, 0, 2, (True, 0), id="serial-goes-back"),
        pytest.param(True, 1, 2, (True, 1), id="by-mtime"),
        pytest.param(True, 2, 1, (False, 1), id="by-mtime-serial-alone"),
    ],
)
def test_change(
    path: Path, by_mtime: bool, serial: int, mtime: int, expected: tuple[bool, int]
) -> None:
    zone = FileZone(ORIGIN, str(path), log, by_mtime=by_mtime)
    zone.load()
    write(path, serial, mtime)
    assert serial_after(zone) == expected
    assert serial_after(zone) == (False, expected[1])


def test_an_invalid_file_keeps_the_last_version(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    zone = FileZone(ORIGIN, str(path), log)
    zone.load()
    path.write_text("@ 60 IN SOA ns host 2 1 2 3 4\nwww A nonsense\n")
    assert serial_after(zone) == (False, 1)
    path.unlink()
    assert serial_after(zone) == (False, 1)
    assert [record.getMessage() for record in caplog.records] == [
        f"plugin/file: zone example.org.: {path}:2: Text input is malformed.; still serving the previous version",
        f"plugin/file: zone example.org.: cannot read {path}: No such file or directory; still serving the previous version",
    ]


def test_watch_tells_of_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    heard: list[Name] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError
        write(path, 2, 2)

    monkeypatch.setattr(file_zone, "sleep", sleep)
    zone = FileZone(ORIGIN, str(path), log)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(zone.watch(30.0, heard.append))
    assert (slept, heard) == ([30.0] * 3, [ORIGIN])
