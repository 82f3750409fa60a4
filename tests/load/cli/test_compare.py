"""Reports that were kept, beside each other; tests/load/cli/test_load.py compares those of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.load.cli.compare import Compare
from hsdns.load.report import encode
from tests.load.test_report import report, results


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    for name in ("a.json", "b.json", "x/a.json"):
        Path(name).write_bytes(encode(report(results())))
    Path("old.json").write_text('{"format": "hsdns load 1"}')


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a.json", "b.json"], ["a: 127.0.0.1 port 53", "b: 127.0.0.1 port 53"]),
        (["a.json", "x/a.json"], ["a.json: 127.0.0.1 port 53", "x/a.json: 127.0.0.1 port 53"]),
    ],
)
def test_names(files: list[str], names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert Compare.main([*files, "-html", "c.html"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("  ")[-2:] == names
    assert f'"name":"{names[1]}"' in Path("c.html").read_text()
