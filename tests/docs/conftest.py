"""What holds for every page: the machine's own resolv.conf decides nothing."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def resolv_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without search domains and options."""
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 127.0.0.1\n")
    monkeypatch.setattr("hsdns.explanation.cli.RESOLV_CONF", str(path))
