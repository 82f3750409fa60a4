"""What the objects say about one question."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cli.wait import expecting
from hsdns.corefile.tree import Position, Token
from hsdns.load.verify.judge import Answer
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.cli.test_names import SHOP


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("web.shop.svc.cluster.local.", Answer(0, frozenset({(int(RRType.A), bytes((10, 96, 7, 7)))}))),
        ("none.shop.svc.cluster.local.", Answer(3)),
        ("www.example.org.", None),
    ],
)  # fmt: skip
def test_what_is_right_now(
    name: str, answer: Answer | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(SHOP)
    words = tuple(Token(each, Position("-source", 0, 0)) for each in ("manifests", "shop.yaml"))
    with expecting(None, words, Name.from_text(name), RRType.A) as expected:
        assert expected() == answer
