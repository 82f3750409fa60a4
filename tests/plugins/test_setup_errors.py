"""Each row of setup_errors.txt: the set-up of a plugin refuses these lines of a Corefile with this sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.assemble import plugin_class
from tests.support.plugins.setup import setup_error

_, *ROWS = Path(__file__).with_name("setup_errors.txt").read_text().rstrip("\n").split("\n\n")


@pytest.mark.parametrize("row", ROWS)
def test_setup_errors(row: str) -> None:
    text, sentence = row.split("\n=> ")
    assert setup_error(plugin_class(text.split()[0]), text) == sentence
