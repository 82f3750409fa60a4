"""Shares of kinds, as flags give them."""

from __future__ import annotations

import pytest

from hsdns.load.errors import LoadError
from hsdns.load.questions import read_shares

KNOWN = ("glibc", "musl", "go")


@pytest.mark.parametrize(
    ("text", "alone", "shares"),
    [
        ("glibc=60,musl=20", False, {"glibc": 60, "musl": 20}),
        ("go=0, musl=3", False, {"go": 0, "musl": 3}),
        ("go", True, {"go": 1}),
        ("go=2,musl", True, {"go": 2, "musl": 1}),
    ],
)
def test_shares(text: str, alone: bool, shares: dict[str, int]) -> None:
    assert read_shares(text, KNOWN, "resolvers", "resolver", alone=alone) == shares


@pytest.mark.parametrize(
    ("text", "alone", "sentence"),
    [
        ("glib=1", False, '-resolvers: "glib" is no resolver; did you mean "glibc"?'),
        ("x=1", False, '-resolvers: "x" is no resolver; there are glibc, musl, go'),
        ("rust=1", False, '-resolvers: "rust" is no resolver that is modelled'),
        ("go", False, '-resolvers: go needs a share, such as go=20; found ""'),
        ("go=", True, '-resolvers: go needs a share, such as go=20; found ""'),
        ("go=x", True, '-resolvers: go needs a share, such as go=20; found "x"'),
        ("go=-1", False, '-resolvers: go needs a share, such as go=20; found "-1"'),
        ("go=1000000000", False, '-resolvers: go needs a share, such as go=20; found "1000000000"'),
        ("go=1,go=2", False, "-resolvers: go is given twice; remove one of them"),
        ("go=0", False, '-resolvers: the shares of "go=0" are all 0, so nobody asks'),
    ],
)  # fmt: skip
def test_bad_shares(text: str, alone: bool, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_shares(
            text,
            KNOWN,
            "resolvers",
            "resolver",
            alone=alone,
            nothing=", so nobody asks",
            unknown=lambda kind: " that is modelled" if kind == "rust" else "",
        )
    assert str(error.value) == sentence
