import io
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.support.fuzz import run
from tests.support.fuzz.fuzzer import Finding, Target
from tests.support.fuzz.targets import TARGETS


def target(name: str, error: Exception | None) -> Target:
    def check(octets: bytes) -> None:
        if error is not None and octets:
            raise error

    return Target(name, check, (__file__,), (b"t",), 64, 100, 10)


def fuzz(error: Exception | None) -> tuple[bool, str]:
    out, ticks = io.StringIO(), count()
    found = run.fuzz(target("reply", error), 30, Random(1), lambda: next(ticks), out)
    return found, out.getvalue()


def test_nothing_is_found() -> None:
    found, said = fuzz(None)
    assert not found
    assert said.startswith("reply: 29 inputs, ")


def test_a_finding_is_saved_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FOUND", tmp_path)
    found, said = fuzz(ValueError("a fault"))
    assert found
    (path,) = (tmp_path / "reply").glob("*.bin")
    assert len(path.read_bytes()) == 1
    assert "ValueError: a fault" in said
    assert said.endswith(f"reply: the input is in {path}\n")


def test_the_same_finding_has_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FOUND", tmp_path)
    for _ in range(2):
        run.save(TARGETS[0], Finding(b"abc", ValueError()), io.StringIO())
    assert len(list((tmp_path / "reply").iterdir())) == 1


def test_an_unknown_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["1", "reply", "smtp"]) == 2
    assert capsys.readouterr().err == "fuzz: there is no target smtp\n"
