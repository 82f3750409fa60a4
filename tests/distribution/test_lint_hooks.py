"""The hook for pre-commit and the GitHub Action, which run `hsdns lint`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import hsdns

ROOT = Path(__file__).resolve().parents[2]
TARGET = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ExternalName, externalName: 10.1.2.3}}"


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


@pytest.mark.parametrize(
    ("path", "is_checked"),
    [
        ("a.yaml", True),
        ("deploy/b.yml", True),
        ("c.json", True),
        ("Corefile", True),
        ("dns/Corefile.lab", True),
        ("a.yaml.txt", False),
        ("NoCorefile", False),
    ],
)
def test_files_of_the_hook(path: str, is_checked: bool) -> None:
    (hook,) = load(".pre-commit-hooks.yaml")
    assert bool(re.search(hook["files"], path)) is is_checked


def test_the_action_annotates_what_is_found(tmp_path: Path) -> None:
    """The script of its step, with a pipx that runs the package of this tree."""
    action = load("action.yml")
    (step,) = action["runs"]["steps"]
    python = f"PYTHONPATH={ROOT} exec {sys.executable}"
    pipx = tmp_path / "bin" / "pipx"
    pipx.parent.mkdir()
    pipx.write_text(f'#!/bin/sh\necho "$3" >spec\nshift 3\nshift\n{python} -m hsdns "$@"\n')
    pipx.chmod(0o755)
    (tmp_path / "a.yaml").write_text(TARGET)
    (tmp_path / " b $(exit 9).yaml").write_text(TARGET.replace("10.1.2.3", "db.example.com"))
    inputs = {name.upper(): each["default"] for name, each in action["inputs"].items()}
    assert {value.split(".")[1].split()[0].upper() for value in step["env"].values()} == set(inputs)
    environ = {
        **os.environ,
        **inputs,
        "PATHS": "a.yaml\n b $(exit 9).yaml\n",
        "PATH": f"{pipx.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", step["run"]],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(
        f"::error file=a.yaml,line=1,col={TARGET.index('10.1') + 1},title=HS131 "
    )
    assert done.stdout.count("::error") == 1
    assert (tmp_path / "spec").read_text() == f"hsdns-server=={hsdns.__version__}\n"
