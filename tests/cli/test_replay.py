"""`hsdns replay`; tests/docs/test_record.py runs it against a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsdns.cli import main
from tests.cli.test_running_server import chunked, listening, reply

COURSE = {
    "file": "shop.rec", "recorded": "2026-01-01T00:00:00.000+00:00", "state": "paused", "speed": 2.0, "at": 1.5,
    "end": 65.0, "applied": 3, "changes": 9, "objects": 12, "problem": "",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(no_server: Path) -> None:
    """No server runs."""


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["replay", *line.split()])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "shop.rec: paused at 1.5s of 1m5s, speed 2, 3 of 9 changes, 12 objects\n"),
        ({"speed": 0, "state": "over"}, "shop.rec: over at 1.5s of 1m5s, no waiting, 3 of 9 changes, 12 objects\n"),
        ({"problem": "shop.rec was cut"}, "shop.rec: paused at 1.5s of 1m5s, speed 2, 3 of 9 changes, 12 objects\n  shop.rec was cut\n"),
    ],
)  # fmt: skip
def test_text(changed: dict[str, Any], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(COURSE | changed).encode() + b"\n"
    with listening(Path("c.sock"), replay=chunked(body)):
        assert run("status -control c.sock", capsys) == (0, text, "")
        assert run("step 2 -control c.sock", capsys) == (0, text, "")
        assert json.loads(run("status -control c.sock -o json", capsys)[1]) == COURSE | changed


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (
            reply(b'{"error":"speed takes a number"}', "400 Bad Request"),
            1,
            "speed takes a number\n",
        ),
        (reply(b'{"error":"it replays none"}', "404 Not Found"), 2, "it replays none\n"),
    ],
)
def test_refused(answer: bytes, status: int, error: str, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    with listening(Path("c.sock"), replay=answer):
        assert run("speed 9e9 -control c.sock", capsys) == (status, "", error)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "a command is missing; there are status, pause, run, step, speed"),
        ("stop", '"stop" is no command of hsdns replay; did you mean "step"?'),
        ("pause 3", 'hsdns replay pause takes no words, found "3"'),
        ("step 1 2", 'hsdns replay step takes one number, found "2"'),
        ("step one", 'hsdns replay step needs a number, found "one"'),
        ("speed", "hsdns replay speed needs a number, such as 2, or 0 to wait for nothing"),
        ("status -o yaml", '-o needs text or json, found "yaml"'),
    ],
)
def test_error(line: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line, capsys) == (1, "", f"{error}\n")


def test_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, errors = run("pause", capsys)
    assert (status, errors.startswith("no running server was found")) == (2, True)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-h", capsys)[1].startswith("Usage: hsdns replay status")
