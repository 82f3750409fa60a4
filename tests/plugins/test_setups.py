"""What set-ups make of the lines of a Corefile: setups.txt has those that are taken, setup_errors.txt those that are refused."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest

from hsdns.assemble import plugin_class
from tests.support.plugins.setup import set_up, setup_error
from tests.support.tables import paragraphs


@pytest.mark.parametrize("row", paragraphs(Path(__file__).with_name("setup_errors.txt")))
def test_refused(row: str) -> None:
    text, sentence = row.split("\n=> ")
    assert setup_error(plugin_class(text.split()[0]), text) == sentence


@pytest.mark.parametrize("row", paragraphs(Path(__file__).with_name("setups.txt")))
def test_taken(row: str) -> None:
    text, *expected = row.split("\n=> ")
    settings = [line.partition(" = ")[0] for line in expected if not line.startswith("Corefile:")]
    warnings: list[str] = []
    plugin = set_up(plugin_class(text.split()[0]), text, warnings=warnings)
    assert [f"{name} = {attrgetter(name)(plugin)!r}" for name in settings] + warnings == expected
