from __future__ import annotations

import os
from pathlib import Path

import pytest

from hsdns.plugins.control import Control
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up, setup_error
from tests.support.tables import columns


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("control /run/c.sock", {"unix:/run/c.sock": None}, id="path"),
        pytest.param("control c.sock", {"unix:c.sock": None}, id="relative"),
        pytest.param("control ./1:2", {"unix:./1:2": None}, id="path-like-an-address"),
        pytest.param(
            "control 127.0.0.1:9160 token", {"127.0.0.1:9160": "secret-of-16-octets"}, id="address"
        ),
        pytest.param("control [::1]:9160 token", {"[::1]:9160": "secret-of-16-octets"}, id="ipv6"),
        pytest.param(
            "control /run/c.sock\ncontrol 127.0.0.1:9160 token",
            {"unix:/run/c.sock": None, "127.0.0.1:9160": "secret-of-16-octets"},
            id="both",
        ),
    ],
)
def test_start(text: str, expected: dict[str, str | None]) -> None:
    runtime = FakeRuntime()
    finish(set_up(Control, text).start(runtime))
    assert runtime.control == expected


@pytest.mark.parametrize(
    ("text", "error"), columns(Path(__file__).with_name("tables.txt"), "control")
)
def test_error(text: str, error: str) -> None:
    assert setup_error(Control, text.replace("\\n", "\n")) == f"Corefile:{error}"


def test_the_token_file_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown("token", 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert "must belong to its reader alone" in setup_error(Control, "control 127.0.0.1:9160 token")
