"""Settings of sources."""

from __future__ import annotations

import pytest

from hsdns.corefile.properties import integer
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.sources import read_settings

SETTINGS = {"size": integer(0, 9), "seed": integer(0)}
NAME = Token("lab", Position("Corefile", 3, 9))


def token(text: str) -> Token:
    return Token(text, Position("Corefile", 3, 13))


@pytest.mark.parametrize(
    ("words", "values"),
    [([], {}), (["size=3"], {"size": 3}), (["seed=7", "size=0"], {"seed": 7, "size": 0})],
)
def test_settings(words: list[str], values: dict[str, int]) -> None:
    assert read_settings(NAME, [token(word) for word in words], SETTINGS) == values


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["sise=3"], 'Corefile:3:13: unknown setting "sise" of source "lab"; did you mean "size"?'),
        (["x"], 'Corefile:3:13: unknown setting "x" of source "lab"; known are size, seed'),
        (["size"], 'Corefile:3:13: "size" has no value; write size=VALUE'),
        (["size=1", "size=1"], 'Corefile:3:13: "size" is given twice; remove one of them'),
    ],
)
def test_what_is_refused(words: list[str], error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read_settings(NAME, [token(word) for word in words], SETTINGS)
    assert str(caught.value) == error


def test_a_value_is_refused_at_its_own_place() -> None:
    with pytest.raises(CorefileError, match=r"^Corefile:3:18: "):
        read_settings(NAME, [token("size=10")], SETTINGS)
