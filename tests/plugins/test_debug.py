from __future__ import annotations

import pytest

from hsdns.plugins.debug import Debug
from tests.support.plugins.setup import set_up, setup_error


@pytest.mark.parametrize("text", ["debug", "debug\ndebug"])
def test_setup(text: str) -> None:
    assert isinstance(set_up(Debug, text), Debug)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("debug x", 'Corefile:2:7: "debug" takes no argument, found "x"'),
        ("debug {\n x\n}", 'Corefile:3:2: "debug" has no properties, found "x"'),
        ("debug\ndebug x", 'Corefile:3:7: "debug" takes no argument, found "x"'),
    ],
)
def test_setup_errors(text: str, error: str) -> None:
    assert setup_error(Debug, text) == error
