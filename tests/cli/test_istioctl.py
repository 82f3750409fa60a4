"""istioctl that cannot be run, and its command; sessions/lint-istioctl.md has what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cli.source import options_of
from hsdns.lint.istioctl import MOST, NotRun, analysis, of_cluster, of_files


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "istioctl"
    found.touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return found


def test_a_program_that_hangs_is_ended(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setattr("hsdns.lint.istioctl.LIMIT", 0.05)
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
    ("access", "namespace", "words"),
    [
        ((), "", "istioctl analyze --all-namespaces"),
        (("config", "lab"), "shop", "istioctl analyze --kubeconfig=config --context=lab --namespace shop"),
    ],
)  # fmt: skip
def test_the_command_about_a_cluster(access: tuple[str, ...], namespace: str, words: str) -> None:
    assert " ".join(of_cluster(options_of(access), namespace)) == words
