"""`istioctl analyze` beside the rules: run where it is on PATH, else the command that would be.

istioctl is a script that prints what a variable says, and writes down how it was called.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli.istioctl import MOST, NotRun, analysis, of_cluster, of_files

FAKE = """#!/bin/sh
echo "$@" >>"$CALLS"
[ "$*" = "${*#* - }" ] || cat >"$CALLS.stdin"
echo "$SAID_ASIDE" >&2
printf '%s' "$SAID"
exit "$STATUS"
"""
MESSAGE = {
    "code": "IST0101",
    "documentationUrl": "https://istio.io/v1.24/docs/reference/config/analysis/ist0101/?ref=istioctl-analyze",
    "level": "Error",
    "message": 'Referenced gateway not found: "gw"',
    "origin": "VirtualService web.shop",
    "reference": "mesh.yaml:1",
}
INFO = {"code": "IST0102", "level": "Info", "message": "not enabled", "origin": "Namespace shop"}
MANIFEST = """apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    found = tmp_path / "bin" / "istioctl"
    found.write_text(FAKE)
    found.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    for name, value in (("SAID", json.dumps([MESSAGE, INFO])), ("SAID_ASIDE", ""), ("STATUS", "0")):
        monkeypatch.setenv(name, value)
    (tmp_path / "mesh.yaml").write_text(MANIFEST)
    (tmp_path / "plain.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    return found


def test_findings_have_a_section_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lint", "mesh.yaml"]) == 1
    assert capsys.readouterr().out == (
        "\nistioctl analyze finds:\n"
        'mesh.yaml:1: error IST0101 VirtualService web.shop: Referenced gateway not found: "gw": '
        f"{MESSAGE['documentationUrl']}\n"
        "\nnothing found in 1 object of 1 file (1 finding below the -level, 1 finding of istioctl)\n"
    )
    call = "analyze --use-kube=false mesh.yaml --output json\n"
    assert (tmp_path / "calls").read_text() == call


@pytest.mark.parametrize("output", ["json", "sarif", "junit", "github"])
def test_they_are_in_each_format(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "mesh.yaml", "-o", output]) == 1
    out = capsys.readouterr().out
    assert "IST0101" in out
    assert "IST0102" not in out
    if output == "json":
        (found,) = json.loads(out)["istioctl"]
        assert (found["level"], found["file"], found["line"]) == ("error", "mesh.yaml", 1)
    if output == "sarif":
        ours, theirs = json.loads(out)["runs"]
        assert (ours["results"], theirs["tool"]["driver"]["name"]) == ([], "istioctl analyze")
        (result,) = theirs["results"]
        assert (result["ruleId"], result["level"]) == ("IST0101", "error")


def test_what_is_read_from_standard_input_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAID", json.dumps([{**MESSAGE, "reference": "-:3"}]))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MANIFEST.encode())))
    assert cli.main(["lint", "-", "-stdin-filename", "web.yaml"]) == 1
    assert "\nweb.yaml:3: error IST0101 " in capsys.readouterr().out
    assert (tmp_path / "calls.stdin").read_text() == MANIFEST


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"PATH": "/none"}, "istioctl is not on PATH; run istioctl analyze --use-kube=false mesh.yaml"),
        ({"STATUS": "1", "SAID_ASIDE": "Error: no such\nflag"}, "istioctl failed with status 1: flag; run istioctl analyze --use-kube=false mesh.yaml"),
        ({"SAID": "all is well"}, "what istioctl printed is no JSON of istioctl analyze"),
        ({"SAID": "{}"}, "what istioctl printed is no JSON of istioctl analyze"),
    ],
)  # fmt: skip
def test_where_it_says_nothing_the_command_is_told(
    setting: dict[str, str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["lint", "mesh.yaml"]) == 0
    assert capsys.readouterr().err == f"the configuration of Istio was not checked: {sentence}\n"


@pytest.mark.parametrize("words", [["plain.yaml"], ["mesh.yaml", "-istioctl=false"]])
def test_it_is_not_run_without_a_mesh_or_a_wish(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lint", *words]) == 0
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("said", ["null", "[]"])
def test_nothing_is_found(
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAID", said)
    assert cli.main(["lint", "mesh.yaml"]) == 0
    assert capsys.readouterr().out == "nothing found in 1 object of 1 file\n"


def test_a_program_that_hangs_is_ended(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setattr("hsdns.cli.istioctl.LIMIT", 0.05)
    with pytest.raises(
        NotRun, match=r"^istioctl has not ended within 0\.05 s; run istioctl analyze"
    ):
        analysis(of_files(["a.yaml"]))


def test_a_program_that_cannot_be_started(program: Path) -> None:
    program.write_text("#!/none\n")
    with pytest.raises(
        NotRun, match=r"^istioctl could not be started: No such file or directory; run"
    ):
        analysis(of_files(["a.yaml"]))
    with pytest.raises(NotRun, match="too many files"):
        analysis(of_files(["a" * MOST]))


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (("", "", ""), "istioctl analyze --all-namespaces"),
        (("config", "lab", "shop"), "istioctl analyze --kubeconfig config --context lab --namespace shop"),
    ],
)  # fmt: skip
def test_the_command_about_a_cluster(access: tuple[str, str, str], words: str) -> None:
    assert " ".join(of_cluster(*access)) == words
