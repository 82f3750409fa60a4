"""What answers look like is in tests/scenarios/file and tests/authority; here is what the plugin itself decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.plugins.file import File
from hsdns.plugins.transfer import Transfer
from hsdns.plugins.whoami import Whoami
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

SOA = "@ 60 IN SOA ns host {} 1 2 3 4\n"
BELOW = reply(["below. 1 IN A 192.0.2.1"])


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "db"
    path.write_text(
        SOA.format(7) + "www 60 A 192.0.2.1\n*.w 60 A 192.0.2.2\naway 60 CNAME www.example.net.\n"
    )
    return path


def started(text: str, *, last: bool = False) -> File:
    plugin, runtime = set_up(File, text, ["example.org."]), FakeRuntime()
    runtime.resolver = lambda request: reply([f"{request.query.qname.to_text()} 5 IN A 192.0.2.77"])
    plugin.find_handlers([plugin] if last else [plugin, Whoami()])
    finish(plugin.start(runtime))
    for coro in runtime.spawned.values():
        coro.close()
    return plugin


def ask(plugin: File, qname: str, qtype: str = "A", flags: int = 0x100) -> Reply:
    return finish(plugin.handle(make_request(qname, qtype, flags=flags), next_with(BELOW)))


def test_the_last_plugin_refuses(db: Path) -> None:
    assert ask(started(f"file {db}", last=True), "www.example.net.") == unwritten(Rcode.REFUSED)


def test_secondaries_hear_of_changes(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(Transfer, "notify", lambda self, zone: heard.append(zone.to_text()))
    plugin = set_up(File, f"file {db} example.org example.net {{\n reload 9s\n}}")
    transfer, runtime = Transfer(()), FakeRuntime()
    plugin.find_handlers([transfer, plugin])
    finish(plugin.start(runtime))
    assert heard == ["example.org.", "example.net."]
    assert sorted(runtime.spawned) == ["file example.net.", "file example.org."]
    for coro in runtime.spawned.values():
        coro.close()


def test_a_file_with_a_fault_stops_the_start(db: Path) -> None:
    db.write_text(SOA.format(7) + "www A nonsense\n")
    with pytest.raises(CorefileError) as error:
        set_up(File, f"file {db}", ["example.org."])
    assert (
        str(error.value) == f"Corefile:2:6: cannot read the zone: {db}:2: Text input is malformed."
    )
