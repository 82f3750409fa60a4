"""An explanation from a source and a Corefile, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cli.explain import explain_offline
from hsdns.corefile.tree import Position, Token
from hsdns.explanation.question import read_question
from tests.cli.test_explain import SHOP, WEB


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(SHOP)


def source(*paths: str) -> tuple[Token, ...]:
    return tuple(Token(word, Position("-source", 0, 0)) for word in ("manifests", *paths))


def test_all_could_be_read() -> None:
    found, is_whole = explain_offline(None, source("shop.yaml"), *read_question(WEB))
    assert (found.outcome, is_whole) == ("resolves", True)


def test_a_file_could_not_be_read() -> None:
    Path("bad.yaml").write_text("kind: [")
    found, is_whole = explain_offline(None, source("shop.yaml", "bad.yaml"), *read_question(WEB))
    assert (found.outcome, is_whole) == ("resolves", False)
