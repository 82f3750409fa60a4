from __future__ import annotations

import pytest

from hsdns.plugins.multisocket import Multisocket
from tests.support.plugins.setup import set_up


@pytest.mark.parametrize(
    ("text", "sockets"),
    [("multisocket", None), ("multisocket 1", 1), ("multisocket 1024", 1024)],
)
def test_setup(text: str, sockets: int | None) -> None:
    assert set_up(Multisocket, text).sockets == sockets
