"""What holds for every test of a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cli import control_path


@pytest.fixture
def no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder where commands find no server that runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(control_path, "SYSTEM", tmp_path / "system")
    return tmp_path
