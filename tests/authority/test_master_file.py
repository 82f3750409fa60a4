from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.authority.master_file import SameSerial, read_zone
from hsdns.authority.zone import ZoneError
from hsdns.wire.name import Name
from tests.support.plugins.requests import section
from tests.support.tables import Row, rows

ORIGIN = Name.from_text("example.org.")
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
