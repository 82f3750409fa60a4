from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.authority.master_file import SameSerial, read_zone
from hsdns.authority.zone import ZoneError
from hsdns.wire.name import Name
from tests.support.plugins.requests import section

ORIGIN = Name.from_text("example.org.")
HEAD = "@ 3600 IN SOA ns host 7 1 2 3 4\n"


def records(folder: Path, text: str) -> list[str]:
    path = folder / "db"
    path.write_text(text)
    zone = read_zone(str(path), ORIGIN)
    return section(list(zone.records()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "www A 192.0.2.1",
            ["www.example.org. 3600 IN A 192.0.2.1"],
            id="ttl-of-the-record-before",
        ),
        pytest.param(
            "$TTL 5\nwww A 192.0.2.1", ["www.example.org. 5 IN A 192.0.2.1"], id="ttl-directive"
        ),
        pytest.param(
            "www 1h30m IN A 192.0.2.1",
            ["www.example.org. 5400 IN A 192.0.2.1"],
            id="ttl-with-units",
        ),
        pytest.param(
            'www IN 5 A 192.0.2.1\n  6 TXT ("a" ; b\n "c")',
            ["www.example.org. 5 IN A 192.0.2.1", 'www.example.org. 6 IN TXT "a" "c"'],
            id="lines",
        ),
        pytest.param(
            "$ORIGIN sub\n@ 1 A 192.0.2.1", ["sub.example.org. 1 IN A 192.0.2.1"], id="origin"
        ),
        pytest.param(
            "$GENERATE 1-2 h$ A 192.0.2.$",
            ["h1.example.org. 3600 IN A 192.0.2.1", "h2.example.org. 3600 IN A 192.0.2.2"],
            id="generate",
        ),
        pytest.param(
            "www 1 A 192.0.2.1\nwww 2 A 192.0.2.2\nwww 1 A 192.0.2.1",
            [
                "www.example.org. 1 IN A 192.0.2.1",
                "www.example.org. 2 IN A 192.0.2.2",
                "www.example.org. 1 IN A 192.0.2.1",
            ],
            id="ttls-and-repetitions-stay",
        ),
        pytest.param(
            "a 1 CNAME b\na 1 TXT x",
            ["a.example.org. 1 IN CNAME b.example.org.", 'a.example.org. 1 IN TXT "x"'],
            id="cname-beside-others",
        ),
        pytest.param("www.example.net. 1 A 192.0.2.1", [], id="outside-of-the-zone"),
        pytest.param(
            "has\\046dot 1 A 192.0.2.1", ["has\\.dot.example.org. 1 IN A 192.0.2.1"], id="escapes"
        ),
        pytest.param(
            "a 1 TYPE65280 \\# 2 0102",
            ["a.example.org. 1 IN TYPE65280 \\# 2 0102"],
            id="unknown-type",
        ),
    ],
)
def test_records(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert records(tmp_path, f"{HEAD}{text}\n") == expected


def test_include(tmp_path: Path) -> None:
    (tmp_path / "more").write_text("www 1 A 192.0.2.1\n")
    assert records(tmp_path, f"{HEAD}$INCLUDE {tmp_path / 'more'} sub\n") == [
        "www.sub.example.org. 1 IN A 192.0.2.1"
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "{path}: there is no SOA record for example.org.", id="empty"),
        pytest.param(
            f"{HEAD}www A 192.0.2.300\n", "{path}:2: Text input is malformed.", id="address"
        ),
        pytest.param(f"{HEAD}www WHAT 1\n", "{path}:2: unknown rdatatype 'WHAT'", id="type"),
        pytest.param("www A 192.0.2.1\n", "{path}:1: Missing default TTL value", id="no-ttl"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "db"
    path.write_text(text)
    with pytest.raises(ZoneError) as error:
        read_zone(str(path), ORIGIN)
    assert str(error.value) == reason.format(path=path)


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
