"""What set-ups make of the lines of a Corefile: setups.txt has those that are taken, setup_errors.txt those that are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hsdns.answer_table.capabilities import Cacheable
from hsdns.assemble import plugin_class
from hsdns.chain import has
from hsdns.wire.name import Name
from tests.support.plugins.setup import set_up, setup_error
from tests.support.tables import paragraphs

DATA = Path(__file__).parents[1] / "data" / "tls"
FIRST = "names answered first in "


@pytest.mark.parametrize("row", paragraphs(Path(__file__).with_name("setup_errors.txt")))
def test_refused(row: str) -> None:
    text, sentence = row.replace("TLS/", f"{DATA}/").split("\n=> ")
    assert setup_error(plugin_class(text.split()[0]), text) == sentence


@pytest.mark.parametrize(
    ("text", "package", "extra"),
    [
        ("dnssec {\n key file K\n}", "cryptography.hazmat.primitives.asymmetric", "dnssec"),
        ("sign db {\n key file K\n}", "cryptography.hazmat.primitives.asymmetric", "dnssec"),
        ("geoip db", "maxminddb", "geoip"),
    ],
)
def test_refused_without_its_extra(
    text: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "hsdns.authority.signing", raising=False)
    name = text.split()[0]
    assert setup_error(plugin_class(name), text) == (
        f'Corefile:2:1: "{name}" needs the Python package {package.partition(".")[0]}, which is not installed; install '
        f'hsdns with the extra that has it: pip install "hsdns-server[{extra}]"'
    )


def value(plugin: Any, name: str) -> str:
    """An attribute, such as `success.floor` or `routes[0].zone`, or what the answer table asks: `cacheable`, and the names of a zone."""
    if name == "cacheable":
        return str(has(plugin, Cacheable) and plugin.cacheable)
    if name.startswith(FIRST):
        found = plugin.names_answered_first(Name.from_text(name.removeprefix(FIRST)))
        return (
            "all" if found is None else " ".join(sorted(each.to_text() for each in found)) or "none"
        )
    return repr(eval(f"plugin.{name}"))


@pytest.mark.parametrize("row", paragraphs(Path(__file__).with_name("setups.txt")))
def test_taken(row: str) -> None:
    text, *expected = row.replace("TLS/", f"{DATA}/").split("\n=> ")
    names = [line.partition(" = ")[0] for line in expected if not line.startswith("Corefile:")]
    warnings: list[str] = []
    plugin = set_up(plugin_class(text.split()[0]), text, warnings=warnings)
    assert [f"{name} = {value(plugin, name)}" for name in names] + warnings == expected
