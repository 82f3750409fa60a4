"""`hsdns lint -against`: two sets of files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hsdns import cli

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec: {selector: {app: db}}\n"
LINE = "a.yaml:4:18: Service db: spec.selector: here app=db, there app=pg (b/b.yaml:4:18)"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(SERVICE)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "b.yaml").write_text(SERVICE.replace("app: db", "app: pg"))
    return tmp_path


def test_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "a.yaml", "-against", "b"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        LINE,
        "",
        "1 difference in 1 Service and no StatefulSets of a.yaml (here) and b (there)",
    ]


def test_no_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "a.yaml", "-against", "a.yaml", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


def test_standard_input_on_the_other_side(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SERVICE.encode())))
    assert cli.main(["lint", "b", "-against", "-", "-stdin-filename", "old.yaml"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == (
        "b/b.yaml:4:18: Service db: spec.selector: here app=pg, there app=db (old.yaml:4:18)"
    )


def test_what_cannot_be_read_does_not_keep_the_rest_from_being_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b" / "broken.yaml").write_text("a: 'b")
    assert cli.main(["lint", "a.yaml", "-against", "b"]) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == LINE
    assert printed.out.endswith("b (there) (1 not compared)\n")
    assert printed.err.startswith("b/broken.yaml:1: not YAML")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a.yaml", "-against", "c"], "c: there is no such file or folder; correct the path"),
        (["c", "-against", "a.yaml"], "c: there is no such file or folder; correct the path"),
        (["a.yaml", "-against", "empty"], "empty: there is no manifest, so nothing was compared"),
        (["a.yaml", "-against", "b", "-o", "sarif"], "-o sarif is for findings of rules; differences are shown as text, json or github"),
        (["a.yaml", "-against", "b", "-level", "note"], "-level is for findings, and -against shows differences; leave one of them out"),
        (["a.yaml", "-against", "b", "-fix"], "-fix is for findings, and -against shows differences; leave one of them out"),
        (["-", "-against", "-"], "standard input can be read once only; name a file on one side"),
    ],
)  # fmt: skip
def test_bad_input(
    words: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    assert cli.main(["lint", *words]) == 2
    assert capsys.readouterr() == ("", f"{sentence}\n")
