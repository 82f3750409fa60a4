from __future__ import annotations

import pytest

from hsdns.plugins.multisocket import Multisocket
from tests.support.plugins.setup import set_up, setup_error


@pytest.mark.parametrize(
    ("text", "sockets"),
    [("multisocket", None), ("multisocket 1", 1), ("multisocket 1024", 1024)],
)
def test_setup(text: str, sockets: int | None) -> None:
    assert set_up(Multisocket, text).sockets == sockets


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("multisocket 0", "Corefile:2:13: 0 is out of range, allowed is 1 to 1024", id="none"),
        pytest.param("multisocket 1025", "Corefile:2:13: 1025 is out of range, allowed is 1 to 1024", id="too-many"),
        pytest.param("multisocket two", 'Corefile:2:13: "two" is not a whole number', id="word"),
        pytest.param("multisocket 1 2", 'Corefile:2:15: "multisocket" takes at most 1 argument, found 2', id="two"),
        pytest.param("multisocket {\nx\n}", 'Corefile:3:1: "multisocket" has no properties, found "x"', id="body"),
        pytest.param("multisocket\nmultisocket", 'Corefile:3:1: "multisocket" may occur only once in a server block; merge it with the first', id="twice"),
    ],
)  # fmt: skip
def test_setup_errors(text: str, error: str) -> None:
    assert setup_error(Multisocket, text) == error
