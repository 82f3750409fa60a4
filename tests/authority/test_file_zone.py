from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from hsdns.authority import file_zone
from hsdns.authority.file_zone import FileZone
from hsdns.wire.name import Name

ORIGIN = Name.from_text("example.org.")
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
