"""Reports that were kept, beside each other or merged; test_load.py does both with those of a run."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from hsdns.load.cli.load import Load
from hsdns.load.cluster.job import Job, config_map
from hsdns.load.report import encode, read_report
from tests.load.test_merge import part
from tests.load.test_report import report, results


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        Path(f"{number}.json").write_bytes(encode(part(number, 2)))
    Path("stale.json").write_bytes(encode(part(1, 2, results(stale=True))))
    Path("x").mkdir()
    for name in ("a.json", "b.json", "x/a.json"):
        Path(name).write_bytes(encode(report(results())))


def test_files(capsys: pytest.CaptureFixture[str]) -> None:
    words = "merge 0.json 1.json -json all.json -html all.html -junit cases.xml"
    assert Load.main(words.split()) == 0
    printed = capsys.readouterr().out
    assert "400 due, 400 sent, 400 answered, 0 lost" in printed
    assert "seed 7, by 2 generators\n" in printed
    assert read_report(Path("all.json").read_bytes(), "").generators == 2
    assert Path("all.html").read_text().startswith("<!doctype html>")
    assert 'failures="0"' in Path("cases.xml").read_text()


@pytest.mark.parametrize(
    ("words", "status", "printed"),
    [
        ("merge 0.json stale.json", 1, "limit      stale>0: FAILED, 10 (2.500%)"),
        ("merge 0.json", 2, "NOT WHOLE  missing: part 1/2 after 2.0 s"),
    ],
)
def test_status(words: str, status: int, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Load.main(words.split()) == status
    assert printed in capsys.readouterr().out


def test_config_maps_from_kubectl(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("load", "4711", 0.0, 2)
    items = [
        config_map(f"load-{number}", "load", job, Path(f"{number}.json").read_bytes())
        for number in range(2)
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listed)))
    assert Load.main(["merge", "-", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["generators"] == 2


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a.json", "b.json"], ["a: 127.0.0.1 port 53", "b: 127.0.0.1 port 53"]),
        (["a.json", "x/a.json"], ["a.json: 127.0.0.1 port 53", "x/a.json: 127.0.0.1 port 53"]),
    ],
)
def test_names_of_compared(
    files: list[str], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert Load.main(["compare", *files, "-html", "c.html"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("  ")[-2:] == names
    assert f'"name":"{names[1]}"' in Path("c.html").read_text()
