from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hsdns.plugins import auto
from hsdns.plugins.auto import Auto
from hsdns.plugins.transfer import Transfer
from hsdns.plugins.whoami import Whoami
from hsdns.wire.message import Reply
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

BELOW = reply(["below. 1 IN A 192.0.2.1"])


def write(path: Path, serial: int = 1) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"@ 60 IN SOA ns host {serial} 1 2 3 4\nwww 60 TXT {serial}\n")


def run(plugin: Auto, script: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        plugin.find_handlers([plugin, Whoami()])
        await plugin.start(runtime)
        await script()
        await runtime.stop_tasks()

    asyncio.run(main())


async def ask(plugin: Auto, qname: str, qtype: str = "TXT") -> Reply:
    return await plugin.handle(make_request(qname, qtype), next_with(BELOW))


def names(plugin: Auto) -> list[str]:
    return sorted(zone.to_text() for zone in plugin.zones)


def test_zones_come_change_and_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "db.example.org")
    plugin = set_up(Auto, f"auto {{\n directory {tmp_path}\n}}")

    async def script() -> None:
        assert names(plugin) == ["example.org."]
        write(tmp_path / "db.example.org", 2)
        write(tmp_path / "more" / "db.example.net", 5)
        (tmp_path / "db.bad.org").write_text("www A nonsense\n")
        await plugin.scan()
        assert names(plugin) == ["example.net.", "example.org."]
        assert section((await ask(plugin, "www.example.org.")).answer) == [
            'www.example.org. 60 IN TXT "2"'
        ]
        (tmp_path / "db.example.org").unlink()
        (tmp_path / "db.bad.org").unlink()
        (tmp_path / "more" / "db.example.net").write_text("www A nonsense\n")
        await plugin.scan()
        assert names(plugin) == ["example.net."]
        assert await ask(plugin, "www.example.org.") is BELOW
        assert section((await ask(plugin, "www.example.net.")).answer) == [
            'www.example.net. 60 IN TXT "5"'
        ]

    run(plugin, script)
    levels = [record.levelname for record in caplog.records if record.name == "hsdns.plugin.auto"]
    assert levels.count("WARNING") == 1  # the bad file while it was there
    assert levels.count("ERROR") == 1  # the bad file of a zone that is served


def test_a_mounted_configmap(tmp_path: Path) -> None:
    """The kubelet keeps files in a folder whose name begins with two dots, and swaps a link to it."""
    for serial in (1, 2):
        write(tmp_path / f"..data{serial}" / "db.example.org", serial)
    (tmp_path / "..data").symlink_to("..data1")
    (tmp_path / "db.example.org").symlink_to("..data/db.example.org")
    (tmp_path / "outer").symlink_to(tmp_path)
    plugin = set_up(Auto, f"auto {{\n directory {tmp_path}/outer\n}}")

    async def script() -> None:
        (tmp_path / "next").symlink_to("..data2")
        (tmp_path / "next").rename(tmp_path / "..data")
        await plugin.scan()
        assert section((await ask(plugin, "www.example.org.")).answer) == [
            'www.example.org. 60 IN TXT "2"'
        ]

    run(plugin, script)


def test_two_files_for_one_zone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "a" / "db.example.org", 1)
    write(tmp_path / "b" / "db.example.org", 2)
    plugin = set_up(Auto, f"auto {{\n directory {tmp_path}\n}}")

    async def script() -> None:
        assert section((await ask(plugin, "www.example.org.")).answer) == [
            'www.example.org. 60 IN TXT "1"'
        ]

    run(plugin, script)
    assert (
        f'plugin/auto: Multiple zone files match origin "example.org.": using "{tmp_path}/a/db.example.org" instead of '
        f'"{tmp_path}/b/db.example.org"'
    ) in caplog.messages


async def test_secondaries_hear_of_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    slept: list[float] = []
    monkeypatch.setattr(Transfer, "notify", lambda self, zone: heard.append(zone.to_text()))
    write(tmp_path / "db.example.org")
    write(tmp_path / "db.example.net")
    plugin = set_up(Auto, f"auto {{\n directory {tmp_path}\n reload 9s\n}}")

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError
        write(tmp_path / "db.example.org", 2)

    runtime = FakeRuntime()
    monkeypatch.setattr(auto, "sleep", sleep)
    plugin.find_handlers([Transfer(()), plugin])
    await plugin.start(runtime)
    with pytest.raises(asyncio.CancelledError):
        await runtime.tasks["auto"]
    assert slept == [9.0] * 3
    assert sorted(heard[:2]) == ["example.net.", "example.org."]
    assert heard[2:] == ["example.org."]
