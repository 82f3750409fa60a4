from __future__ import annotations

import pytest

from hsdns.plugins.https import Https
from tests.support.plugins.setup import set_up


@pytest.mark.parametrize(
    ("text", "connections"),
    [
        ("https", 200),
        ("https {\nmax_connections 0\n}", 0),
        ("https {\nmax_connections 7\n}", 7),
    ],
)
def test_setup(text: str, connections: int) -> None:
    assert set_up(Https, text).max_connections == connections
