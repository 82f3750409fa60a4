"""The tables of docs/contributing/compatibility.md: they name every plugin and every option, and tests that exist."""

import re
from pathlib import Path

import pytest

from hsdns.assemble import plugin_class
from hsdns.plugins import NOT_YET, ORDER
from tests.stock.test_corefiles import ALL

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "contributing" / "compatibility.md").read_text()
STOCK, _, PLUGINS = PAGE.partition("## Plugins and their options")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PLUGINS.splitlines()
    if line.startswith("| ")
][2:]
STATES = re.compile(r"(same|differs|missing|hsdns only)\b")


def rows_of(plugin: str) -> list[list[str]]:
    """The rows about a plugin."""
    return [row for row in ROWS if plugin in re.split(r",\s*", row[0])]


@pytest.mark.parametrize("plugin", [*ORDER, *sorted(NOT_YET), "import"])
def test_every_plugin_has_rows(plugin: str) -> None:
    found = rows_of(plugin)
    assert found
    for _, _, state, _ in found:
        assert STATES.match(state), state
    if plugin in NOT_YET:
        assert all(state.startswith("missing: ") for _, _, state, _ in found)


@pytest.mark.parametrize("plugin", ORDER)
def test_every_option_is_named(plugin: str) -> None:
    named = " ".join(option for _, option, _, _ in rows_of(plugin))
    missing = [
        word
        for word in plugin_class(plugin).PROPERTIES
        if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", named)
    ]
    assert missing == []


def test_the_tests_exist() -> None:
    missing = []
    for place in (place for row in ROWS for place in re.findall(r"`([^`]+)`", row[3])):
        path, *names = place.split("::")
        found = list(ROOT.glob(path.rstrip("/")))
        if not found or not all(f"def {name}(" in found[0].read_text() for name in names):
            missing.append(place)
    assert missing == []


def test_every_stock_corefile_is_named() -> None:
    named = re.findall(r"`test_starts_and_answers\[(.+)-hsdns\]`", STOCK)
    assert sorted(named) == sorted(stock.name for stock in ALL)
