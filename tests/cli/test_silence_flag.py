"""`-config` of `hsdns lint` and `hsdns doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli.rule import is_everything

TARGET = """apiVersion: v1
kind: Service
metadata: {name: db, namespace: lab}
spec: {type: ExternalName, externalName: HTTPS://db.example.com:443/x}
"""
ADDRESS = TARGET.replace("HTTPS://db.example.com:443/x", "10.1.2.3")
ENTRY = "silences: [{{rule: {rule}, {more}}}]\n"
REASON = "object: Service lab/*, reason: why"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "a.yaml").write_text(ADDRESS)
    return tmp_path


def lint(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    cli.main(["lint", *words, "-o", "json"])
    value = json.loads(capsys.readouterr().out)
    rows = [f"{each['code']} {each['file']}" for each in value["findings"]]
    return [*rows, *(f"silenced: {each['reason']}" for each in value["silenced"])]


@pytest.mark.parametrize(
    ("rule", "more", "found"),
    [
        ("HS131", REASON, ["silenced: why"]),
        ("HS131", "path: k/*, reason: why", ["silenced: why"]),
        ("HS131", "path: k/*", ["HS004 .hsdns.yaml", "HS131 k/a.yaml"]),
        ("HS132", REASON, ["HS003 .hsdns.yaml", "HS131 k/a.yaml"]),
        ("HS999", REASON, ["HS003 .hsdns.yaml", "HS131 k/a.yaml"]),
        ("HS131", "path: x/*, reason: why", ["HS131 k/a.yaml"]),
        ("HS143", REASON, ["HS131 k/a.yaml"]),
    ],
)
def test_lint(
    rule: str, more: str, found: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".hsdns.yaml").write_text(ENTRY.format(rule=rule, more=more))
    assert lint(capsys, "k/a.yaml") == found


def test_what_matches_nothing_is_found_where_the_folder_is_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".hsdns.yaml").write_text(ENTRY.format(rule="HS131", more="path: x/*, reason: why"))
    assert lint(capsys, ".") == ["HS131 ./k/a.yaml", "HS003 .hsdns.yaml"]
    assert lint(capsys, "k") == ["HS131 k/a.yaml"]


def test_a_file_of_another_name_is_no_manifest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "k" / "own.yaml").write_text(ENTRY.format(rule="HS131", more=REASON))
    assert lint(capsys, "k", "-config", "k/own.yaml") == ["silenced: why"]


def test_what_is_silenced_is_not_repaired(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "k" / "a.yaml").write_text(TARGET)
    (folder / ".hsdns.yaml").write_text(ENTRY.format(rule="HS132", more=REASON))
    assert cli.main(["lint", "-fix", "k"]) == 0
    assert (folder / "k" / "a.yaml").read_text() == TARGET
    assert capsys.readouterr().out == "nothing found in 1 object of 1 file (1 silenced)\n"


@pytest.mark.parametrize(
    ("rule", "more", "target", "found"),
    [
        ("HS131", REASON, [], ["silenced: why"]),
        ("HS131", REASON, ["lab/db"], ["silenced: why"]),
        ("HS131", "object: Service lab/*", ["lab"], ["HS004 .hsdns.yaml:1:12", "HS131 Service lab/db"]),
        ("HS133", REASON, [], ["HS003 .hsdns.yaml:1:12", "HS131 Service lab/db"]),
        ("HS131", "object: Service x/*, reason: why", [], ["HS003 .hsdns.yaml:1:12", "HS131 Service lab/db"]),
        ("HS131", "object: Service x/*, reason: why", ["lab"], ["HS131 Service lab/db"]),
        ("HS131", "path: k/*, reason: why", [], ["HS131 Service lab/db"]),
        ("HS104", REASON, [], ["HS131 Service lab/db"]),
        ("HS101", REASON, [], ["HS131 Service lab/db"]),
    ],
)  # fmt: skip
def test_doctor(
    rule: str,
    more: str,
    target: list[str],
    found: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """There are no Pods, so HS101 is not checked; HS104 is for files only, and so are paths."""
    (folder / ".hsdns.yaml").write_text(ENTRY.format(rule=rule, more=more))
    cli.main(["doctor", *target, "-from", "k/a.yaml", "-o", "json"])
    value = json.loads(capsys.readouterr().out)
    rows = [f"{each['code']} {each['object']}" for each in value["findings"]]
    assert [*rows, *(f"silenced: {each['reason']}" for each in value["silenced"])] == found
    assert "HS131" not in value["passed"]


@pytest.mark.parametrize("command", [["lint", "k"], ["doctor", "-from", "k/a.yaml"]])
@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("none", "-config none: there is no such file; correct the path"),
        (".", ".: it cannot be read: Is a directory"),
        ("k/a.yaml", 'k/a.yaml:1:1: unknown key "apiVersion"; there is silences'),
    ],
)
def test_bad_input(
    command: list[str], config: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command, "-config", config]) == 2
    assert capsys.readouterr() == ("", f"{sentence}\n")


@pytest.mark.parametrize(
    ("paths", "found"),
    [(["."], True), (["k", ".."], True), (["k"], False), (["k/a.yaml", "-"], False)],
)
def test_is_everything(paths: list[str], *, found: bool) -> None:
    assert is_everything(paths, ".hsdns.yaml") is found
