"""The Makefile's environment: when the server is installed again."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = '#!/bin/sh\necho "$*" >> "$CALLS"\n'
INSTALL = "-m pip --quiet --no-input install --no-deps --no-build-isolation --editable ."

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with an environment whose Python only notes what it should do, and a PATH without cargo."""
    tree = tmp_path / "tree"
    for name in (
        "Makefile",
        "pyproject.toml",
        "setup.py",
        "requirements/run.txt",
        "native/Cargo.toml",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    for name in ("native/Cargo.lock", "native/src/lib.rs", "hsdns/__init__.py", ".venv/made"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    for path in (tree / ".venv/bin/python", tree / ".venv/bin/hsdns", tmp_path / "cargo/cargo"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM)
        path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    for name in ("make", "sh", "find", "cat", "echo", "touch"):
        found = shutil.which(name)
        assert found, name
        (tmp_path / "bin" / name).symlink_to(found)
    return tree


def serve(tree: Path, *, cargo: bool) -> list[str]:
    """What `make serve` does with the Python of the environment."""
    calls = tree.parent / "calls"
    calls.write_text("")
    path = f"{tree.parent}/cargo:{tree.parent}/bin" if cargo else f"{tree.parent}/bin"
    subprocess.run(
        ["make", "serve"], check=True, capture_output=True, cwd=tree, timeout=30,
        env={"PATH": path, "CALLS": str(calls)},
    )  # fmt: skip
    return calls.read_text().splitlines()


def test_once_cargo_is_there_it_compiles(tree: Path) -> None:
    assert INSTALL in serve(tree, cargo=False)
    assert serve(tree, cargo=False) == ["serve"]
    assert INSTALL in serve(tree, cargo=True)
    assert serve(tree, cargo=True) == ["serve"]


def test_every_target_is_explained() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)[0].split()
    explained = re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)
    assert sorted(phony) == sorted(explained)
