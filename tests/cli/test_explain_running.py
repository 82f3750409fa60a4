"""`hsdns explain` by a server that runs: what it says, and servers that cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns.cli import main
from hsdns.explanation.report import VERSION
from tests.cli.test_running_server import listening, reply

pytestmark = pytest.mark.sockets
WEB = "web.shop.svc.cluster.local"
FOUND = {
    "version": VERSION, "name": f"{WEB}.", "type": "A", "outcome": "does not resolve", "rcode": "NXDOMAIN",
    "cause": "NXDOMAIN: there is no Service shop/web", "blind": [], "serverBlock": "", "blockReason": "", "plugins": [],
    "keepSeconds": 0, "asker": None, "table": "", "inTable": None,
    "reading": {}, "service": None, "records": [], "needed": [], "nearest": [], "history": [], "asked": None,
}  # fmt: skip
PAGE = f"explain?name={WEB}.&type=A"


@pytest.fixture(autouse=True)
def _folder(no_server: Path) -> None:
    Path("hsdns").mkdir(mode=0o700)


def run(line: str, page: bytes, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    with listening(Path("hsdns/7.sock"), **{PAGE: page}):
        status = main(["explain", *line.split()])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


def test_the_server_that_runs_explains(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, errors = run(WEB, reply(json.dumps(FOUND).encode()), capsys)
    assert (status, lines[0]) == (1, FOUND["cause"])
    assert errors.startswith("explained by the server with process ID 7, at ")


def test_what_a_newer_server_adds_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(FOUND | {"more": 1}).encode()
    status, lines, _ = run(f"{WEB} -o json", reply(body), capsys)
    assert (status, json.loads("\n".join(lines))) == (1, FOUND)


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (reply(b'{"error": "this hsdns has no /v1/explain"}', "404 Not Found"),
         "is hsdns 9.9.9, which cannot explain; start this hsdns in its place, or read a source with -source or -conf"),
        (reply(json.dumps(FOUND | {"version": VERSION + 1}).encode()),
         "is hsdns 9.9.9, whose explanations are of another form; use the hsdns of the server"),
        (reply(b'{"error": "the server starts or ends"}', "503 Service Unavailable"), "the server starts or ends"),
    ],
)  # fmt: skip
def test_a_server_that_cannot(
    page: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines, errors = run(WEB, page, capsys)
    assert (status, lines) == (2, [])
    assert errors.splitlines()[1].endswith(sentence)


def test_two_servers(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(Path("hsdns/8.sock")):
        status, lines, errors = run(WEB, b"", capsys)
    assert (status, lines) == (2, [])
    assert errors.startswith("2 servers run: ")
