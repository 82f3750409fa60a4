from __future__ import annotations

import os
from pathlib import Path

import pytest

from hsdns.plugins.control import Control
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up, setup_error
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


@pytest.fixture(autouse=True)
def _token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "token": "secret-of-16-octets\n",
        "empty": "\n",
        "words": "one of the two words",
        "short": "15-octets-long-",
        "öpen": "secret-of-16-octets",
        "bytes": "é" * 16,
    }.items():
        Path(name).write_text(text)
        Path(name).chmod(0o640 if name == "öpen" else 0o600)


@pytest.mark.parametrize(("text", "expected"), columns(TABLES, "where control listens"))
def test_start(text: str, expected: str) -> None:
    runtime = FakeRuntime()
    finish(set_up(Control, text.replace("\\n", "\n")).start(runtime))
    found = (f"{place} {token}" if token else place for place, token in runtime.control.items())
    assert ", ".join(found) == expected


@pytest.mark.parametrize(("text", "error"), columns(TABLES, "control"))
def test_error(text: str, error: str) -> None:
    assert setup_error(Control, text.replace("\\n", "\n")) == f"Corefile:{error}"


def test_the_token_file_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown("token", 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert "must belong to its reader alone" in setup_error(Control, "control 127.0.0.1:9160 token")
