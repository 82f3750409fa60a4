"""`hsdns lint`: paths, formats, levels, repairs, exit status."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hsdns import cli

TARGET = """apiVersion: v1
kind: Service
metadata: {name: db, namespace: lab}
spec:
  type: ExternalName
  externalName: HTTPS://db.example.com:443/x
"""
SENTENCE = (
    'a.yaml:6:17: error HS132 Service lab/db: spec.externalName: "HTTPS://db.example.com:443/x" is not a domain name; '
    "write only the host, without scheme and path"
)
NOTE = TARGET.replace("type: ExternalName", "selector: {a: b}").replace(
    "externalName: HTTPS://db.example.com:443/x", "publishNotReadyAddresses: true"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(TARGET)
    (tmp_path / "note.yaml").write_text(NOTE)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status", "codes"),
    [
        (["a.yaml"], 1, ["HS132"]),
        (["note.yaml"], 0, []),
        (["note.yaml", "-level", "note"], 1, ["HS141"]),
        (["-level", "note", "a.yaml", "note.yaml"], 1, ["HS132", "HS141"]),
        (["-level=note", "."], 1, ["HS132", "HS141"]),
    ],
)
def test_findings(
    words: list[str], status: int, codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lint", *words, "-o", "json"]) == status
    printed = capsys.readouterr()
    assert [each["code"] for each in json.loads(printed.out)["findings"]] == codes
    assert printed.err == ""


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "a.yaml"]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last) == (SENTENCE, "1 error in 1 object of 1 file")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "hsdns lint needs a file or a folder, or - for standard input: hsdns lint PATH..."),
        (["a.yaml", "-o", "xml"], '-o needs text, json, sarif, junit or github, found "xml"'),
        (["a.yaml", "-level", "warn"], '-level needs error, warning or note, found "warn"; did you mean "warning"?'),
        (["a.yaml", "-levle", "x"], 'unknown flag -levle; did you mean "-level"?'),
        (["-", "-fix"], "-fix changes files, and standard input is none; name the files"),
        (["a.yaml", "-stdin-filename", "x"], '-stdin-filename is the name of standard input; add "-" to the paths'),
        (["b.yaml"], "b.yaml: there is no such file or folder; correct the path"),
    ],
)  # fmt: skip
def test_bad_input(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", *words]) == 2
    assert capsys.readouterr().err == f"{sentence}\n"


def test_what_cannot_be_read_does_not_keep_the_rest_from_being_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.yaml").write_text("a: 'b")
    (folder / "template.yaml").write_text("kind: {{ .Values.kind }}\n")
    assert cli.main(["lint", "."]) == 2
    printed = capsys.readouterr()
    assert "./a.yaml:6:17: error HS132" in printed.out
    assert printed.err.splitlines() == [
        "./template.yaml: it is a template that was not rendered; check what helm template prints: helm template CHART | hsdns lint -",
        "./broken.yaml:1: not YAML: found unexpected end of stream (column 6); correct the file",
    ]


def test_nothing_to_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "template.yaml").write_text("kind: {{ .Values.kind }}\n")
    for path, status in (("own", 2), ("own/template.yaml", 0)):
        assert cli.main(["lint", path]) == status
        assert (
            f"{path}: there is no manifest and no Corefile, so nothing was checked"
            in capsys.readouterr().err
        )


TAGGED = """\
AWSTemplateFormatVersion: "2010-09-09"
Resources: {Name: !Sub "${AWS::StackName}-db", Zones: !GetAZs ""}
--- !vault
token: x
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: b, namespace: lab}, spec: {type: ExternalName, externalName: !vault 10.1.2.3}}
- {apiVersion: v1, kind: Service, metadata: {name: c, namespace: lab}, spec: {type: ExternalName, externalName: 10.1.2.4}}
"""


def test_what_other_programs_write_is_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own").mkdir()
    (folder / ".gitlab-ci.yml").write_text("test: {script: [!reference [.setup, script]]}\n")
    (folder / "own" / "tagged.yaml").write_text(TAGGED)
    assert cli.main(["lint", ".gitlab-ci.yml"]) == 0
    assert cli.main(["lint", "own", ".gitlab-ci.yml"]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("HS131 Service lab/c: ") == 1
    assert printed.out.endswith("\n1 error in 1 object of 2 files\n")
    assert printed.err.splitlines()[1:] == [
        "own/tagged.yaml:9: Service lab/b is left out: !vault is a tag of another program, which writes another value "
        "there; check what it writes"
    ]


@pytest.mark.parametrize("content", ["a: !!bool x\n", "patches: 5\n", "patches: !Ref a\n"])
def test_a_kustomization_of_any_content(
    folder: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "kustomization.yaml").write_text(content)
    assert cli.main(["lint", "."]) in (1, 2)
    assert "./a.yaml:6:17: error HS132" in capsys.readouterr().out


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (
        ("standard input", TARGET),
        ("Corefile", ".:53 {\n forward . 127.0.0.1\n}\n"),
    ):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))
        words = (
            ["lint", "-"] if name == "standard input" else ["lint", "-", "-stdin-filename", name]
        )
        assert cli.main(words) == 1
        assert capsys.readouterr().out.startswith(f"{name}:")


def test_fix_repairs_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "-fix", "a.yaml", "note.yaml"]) == 0
    assert (folder / "a.yaml").read_text() == TARGET.replace(
        "HTTPS://db.example.com:443/x", "db.example.com"
    )
    assert (folder / "note.yaml").read_text() == NOTE
    assert capsys.readouterr().err == "a.yaml: 1 repaired\n"


def test_neither_a_server_nor_a_plugin_is_imported() -> None:
    code = (
        "import sys; from hsdns import cli; cli.main(['lint', 'note.yaml']); "
        "print([each for each in sys.modules if each.startswith(('hsdns.server', 'hsdns.plugins.', 'aiohttp', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
