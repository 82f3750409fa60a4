"""`hsdns record`, against scripted servers; tests/docs/test_consoles.py runs it against a real one."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hsdns.cli import main
from hsdns.recording import cli as record
from hsdns.recording.entry import End, ObjectEvent, RecordedObject, State, to_line, to_raw
from hsdns.recording.reader import Recording
from tests.cli.test_running_server import chunked, listening, reply
from tests.recording.recorded import HEADER
from tests.recording.test_anonymise import query_of_recorder, share
from tests.support.cluster.objects import service

pytestmark = pytest.mark.sockets
TIME = "2026-01-01T00:00:00.000+00:00"
WEB = to_raw(service("shop/web", "10.96.7.7"))
BEGIN = [to_line(HEADER), to_line(RecordedObject(WEB)), to_line(State(7.0, TIME, 1, serves=True))]
ADDED = to_line(ObjectEvent(8.0, TIME, "ADDED", WEB))
CHANGED = to_line(End(9.0, TIME, "the Corefile was changed"))


@pytest.fixture(autouse=True)
def _folder(no_server: Path) -> None:
    """No server runs."""


@contextmanager
def telling(*watched: bytes, queried: tuple[bytes, ...] = ()) -> Iterator[None]:
    """A server at c.sock with these lines of its streams."""
    with listening(Path("c.sock"), watch=chunked(*watched), queries=chunked(*queried)):
        yield


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["record", *line.split()])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def entries(path: str = "shop.rec") -> list[str]:
    with Recording.open(path) as recording:
        found = [type(each).__name__ for each in recording]
        assert recording.problem == ""
        return found


def test_the_server_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """What it has told is a whole recording."""
    with telling(*BEGIN, ADDED, queried=(share(7.0, 1.0) + b"\n",)):
        status, output, errors = run("shop.rec --control c.sock --queries=false", capsys)
    assert status == 2
    assert output.startswith("recorded into shop.rec: 1s, 1 objects, 1 events, 0 queries, 1 KiB (")
    assert output.endswith("the server stopped, or closed its control socket)\n")
    assert errors == "recording the server with process ID 7, at c.sock; Ctrl-C ends it\n"
    assert entries() == ["RecordedObject", "State", "ObjectEvent", "End"]
    assert Path("shop.rec").stat().st_mode & 0o777 == 0o600


def test_the_block_was_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with telling(*BEGIN, ADDED, CHANGED):
        status, output, _ = run("shop.rec --control c.sock --queries=false -o json", capsys)
    found = json.loads(output)
    assert found.pop("octets") == Path("shop.rec").stat().st_size
    assert found.pop("seconds") >= 1.0
    assert (status, found) == (2, {
        "file": "shop.rec", "objects": 1, "events": 1, "lost_events": 0, "queries": 0, "share": 1.0,
        "reason": "the Corefile was changed",
    })  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has come is in the file, and the signal means what it meant before."""
    before = signal.getsignal(number)
    take = record._Session._take

    def take_and_signal(self: record._Session, line: record._Line) -> None:
        take(self, line)
        if self._recorder.events:
            signal.raise_signal(number)

    monkeypatch.setattr(record._Session, "_take", take_and_signal)
    with telling(*BEGIN, ADDED):
        status, output, _ = run("shop.rec --control c.sock --queries=false", capsys)
    assert (status, output.endswith("(interrupted)\n")) == (0, True)
    assert entries() == ["RecordedObject", "State", "ObjectEvent", "End"]
    assert signal.getsignal(number) is before


def test_a_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(10_000))
    monkeypatch.setattr("hsdns.recording.cli.time.monotonic", lambda: float(next(seconds)))
    lines = [ADDED] * 100
    with telling(*BEGIN, *lines):
        status, output, _ = run("shop.rec --control c.sock --queries=false --duration 30s", capsys)
    assert (status, output.endswith("(after 30s)\n")) == (0, True)
    assert 5 < entries().count("ObjectEvent") < 100


def test_queries(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that ends one stream is taken to have ended."""
    with telling(*BEGIN, queried=(share(7.0, 0.5) + b"\n", query_of_recorder(8.0) + b"\n")):
        status, output, _ = run("shop.rec --control c.sock", capsys)
    assert status == 2
    assert set(entries()) <= {"RecordedObject", "State", "RecordedQuery", "Share", "End"}
    assert output.startswith("recorded into shop.rec: ")


def test_anonymised(capsys: pytest.CaptureFixture[str]) -> None:
    with telling(*BEGIN, ADDED):
        run("a.rec --control c.sock --queries=false --anonymise", capsys)
        run("b.rec --control c.sock --queries=false --anonymise", capsys)
    texts = []
    for path in ("a.rec", "b.rec"):
        with Recording.open(path) as recording:
            assert recording.header.anonymised
            texts.append(b"".join(map(to_line, recording)))
    assert b"shop" not in texts[0]
    assert texts[0].partition(b'"state"')[0] != texts[1].partition(b'"state"')[0]  # another key


def test_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    octets = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(octets))
    with telling(*BEGIN, ADDED):
        assert main(["record", "-", "-control", "c.sock", "-queries=false"]) == 2
    recording = Recording("-", io.BytesIO(octets.getvalue()))
    assert [type(each).__name__ for each in recording][-2:] == ["ObjectEvent", "End"]
    assert "recorded: 1s, 1 objects, 1 events" in capsys.readouterr().err


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with telling(*BEGIN):
        status, _, errors = run("no/shop.rec --control c.sock --queries=false", capsys)
    assert (status, errors) == (2, "no/shop.rec cannot be written: No such file or directory\n")


@pytest.mark.parametrize(
    ("watched", "status", "error"),
    [
        (reply(b'{"error":"choose one by its zone"}\n', "400 Bad Request"), 2, "choose one by its zone\n"),
        (reply(b'{"error":"there are no objects"}\n', "404 Not Found"), 2, "there are no objects\n"),
        (reply(b"hello\n"), 2, "the server at c.sock did not answer /v1/watch?zone=a.test as this hsdns expects: it is not an entry of a recording\n"),
    ],
)  # fmt: skip
def test_a_server_that_tells_nothing(
    watched: bytes, status: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {"watch?zone=a.test": watched}
    with listening(Path("c.sock"), **pages):
        line = "shop.rec --control c.sock --queries=false --zone a.test"
        assert run(line, capsys) == (status, "", error)
    assert not Path("shop.rec").exists()
