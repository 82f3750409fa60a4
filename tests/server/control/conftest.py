"""What the tests of the control API have in common."""

from pathlib import Path

import pytest

from hsdns.server.control import cluster, queries


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each server works in a folder of its own, so that the path of its socket is short, and streams look at once."""
    monkeypatch.chdir(tmp_path)
    for module in (cluster, queries):
        monkeypatch.setattr(module, "POLL", 0.001)
