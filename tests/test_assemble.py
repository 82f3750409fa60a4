"""A Corefile to listeners and plugins; nothing is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hsdns.assemble import Configuration, ListenAddress, plugin_class
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.plugin import Block
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.whoami import Whoami
from tests.support.plugins.corefiles import assembled
from tests.support.tables import Row, rows, values

TABLES = Path(__file__).with_name("tables.txt")

INTERFACES = {"lo": ["127.0.0.1", "::1"], "eth0": ["192.0.2.7"]}


DATA = Path(__file__).parent / "data" / "tls"
ERRORS = Path(__file__).with_name("assemble_errors.txt")
WARNINGS = Path(__file__).with_name("assemble_warnings.txt")
LISTENERS = Path(__file__).with_name("assemble_listeners.txt")


def build(text: str, path: str = "Corefile", **options: Any) -> Configuration:
    return assembled(text, path, **{"interfaces": lambda: INTERFACES, **options})


def listeners(configuration: Configuration) -> dict[str, list[str]]:
    return {
        listener.listen.server: [zone.to_text() for zone in listener.zones]
        for listener in configuration.listeners
    }


# --- where blocks listen ---


@pytest.mark.parametrize("row", rows(LISTENERS))
def test_listeners(row: Row) -> None:
    found = listeners(build(row.given, default_port=1053))
    assert [f"{server} {' '.join(zones)}" for server, zones in found.items()] == row.expected


@pytest.mark.parametrize(("host", "server", "is_wildcard"), values(TABLES, "listen"))
def test_listen(host: str, server: str, is_wildcard: bool) -> None:
    listen = ListenAddress(host, 53)
    assert (listen.server, listen.is_wildcard) == (server, is_wildcard)


# --- plugins ---


@pytest.mark.parametrize(("path", "folder"), values(TABLES, "block"))
def test_block(path: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a setup is told of its block."""
    told: list[Block] = []

    def setup(directives: Any, block: Block) -> Whoami:
        told.append(block)
        return Whoami()

    monkeypatch.setattr(Whoami, "setup", setup)
    source = (Token("synthetic", Position("command line", 1, 1)),)
    text = "a.org b.org:54 a.org:54 {\nbind 127.0.0.1\nwhoami\nlog\n}"
    build(text, path, validating=True, source=source)
    (block,) = told
    assert [zone.to_text() for zone in block.zones] == ["a.org.", "b.org."]
    assert block.servers == ("dns://127.0.0.1:53", "dns://127.0.0.1:54")
    assert block.plugins == {"bind", "whoami", "log"}
    assert block.corefile_dir == folder
    assert block.validating
    assert block.source == source


@pytest.mark.parametrize("name", ORDER)
def test_plugin_class(name: str) -> None:
    assert plugin_class(name).name == name


def test_source_of_the_command_line_replaces_the_blocks_own(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("")
    text = (
        "cluster.local {\nkubernetes {\nsource manifests none.yaml\n}\n}\n"
        "other.local {\nkubernetes\n}"
    )
    path = str(tmp_path / "Corefile")
    token = Token("synthetic", Position("command line", 1, 1))

    def sources(**options: Any) -> list[str]:
        return [
            type(plugin.source).__name__
            for plugin in build(text, path, **options).plugins
            if isinstance(plugin, Kubernetes)
        ]

    own = sources()
    assert own[1] == "ApiServer"
    replaced = sources(source=(token,))
    assert replaced == ["Synthetic", "Synthetic"]
    assert own[0] != replaced[0]


# --- faults ---


@pytest.mark.parametrize("row", rows(ERRORS))
def test_error(row: Row) -> None:
    with pytest.raises(CorefileError) as caught:
        build(row.given.replace("{DATA}", str(DATA)))
    assert [str(caught.value)] == row.expected


@pytest.mark.parametrize("row", rows(WARNINGS))
@pytest.mark.parametrize("validating", [False, True])
def test_warnings(
    row: Row, validating: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heard: list[str] = []
    build(row.given, warn=heard.append, validating=validating)
    assert heard == row.expected


# --- nothing is touched ---
