from __future__ import annotations

import pytest

from hsdns.plugins.https import Https
from tests.support.plugins.setup import set_up, setup_error


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


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("https 5", 'Corefile:2:7: "https" takes no argument, found "5"', id="argument"),
        pytest.param("https\nhttps", 'Corefile:3:1: "https" may occur only once in a server block; merge it with the first', id="twice"),
        pytest.param("https {\nmax_connections -1\n}", "Corefile:3:17: -1 is out of range, allowed is 0 or more", id="negative"),
        pytest.param("https {\nmax_connections\n}", 'Corefile:3:1: property "max_connections" takes 1 argument, found 0', id="no-number"),
        pytest.param("https {\nmax_connections 1\nmax_connections 2\n}", 'Corefile:4:1: property "max_connections" of https may be given only once', id="number-twice"),
        pytest.param("https {\nmax_streams 1\n}", 'Corefile:3:1: unknown property "max_streams" of https', id="unknown"),
    ],
)  # fmt: skip
def test_setup_errors(text: str, error: str) -> None:
    assert setup_error(Https, text) == error
