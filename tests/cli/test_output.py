"""What others write is shown, not obeyed: each command over names that try to control what reads its output."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cli import SUBCOMMANDS, main, serve
from hsdns.cli.command import Progress, complain, say
from hsdns.load.send import probe
from hsdns.wire import printable
from loadtest.ports import free_port
from tests.cli.test_fault import HIT, RULE, TRIED
from tests.cli.test_running_server import chunked, listening, reply
from tests.cli.test_top import PICTURE
from tests.load.servers import server
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

# A line end before a command, and one anywhere; escapes of a terminal, C1, DEL, a right-to-left override, a separator
# of lines, and an octet that is no UTF-8, as in a file name.
EVIL = "a\n::error::b\n##[error]c\x1b[31m\r\x7f\x9b2J\u2028\u202e\udcff"
NAME = "::error::" + EVIL  # at the begin of a line
TEXT = EVIL.removesuffix("\udcff")  # as a file can hold it
GITHUB = re.compile(r"::(error|warning|notice)( file=[^:]*)?::[^\n]*")


def evil(value: Any) -> Any:
    """A value of JSON with the text in the place of every one of its own."""
    if isinstance(value, dict):
        return {key: evil(each) for key, each in value.items()}
    if isinstance(value, list):
        return [evil(each) for each in value]
    is_time = isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value)
    return NAME if isinstance(value, str) and not is_time else value


def lines(*values: Any) -> bytes:
    return chunked(*(json.dumps(each).encode() + b"\n" for each in values))


METADATA = {"name": NAME, "namespace": TEXT, "labels": {TEXT: TEXT}, "annotations": {TEXT: TEXT}}
MANIFESTS = [
    {"apiVersion": "v1", "kind": "Service", "metadata": METADATA,
     "spec": {"type": TEXT, "clusterIP": TEXT, "ports": [{"name": TEXT, "port": 80, "protocol": TEXT}]}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "shop", "labels": {"a": TEXT}},
     "spec": {"type": "ExternalName", "externalName": TEXT}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
     "spec": {"clusterIP": "None", "selector": {TEXT: TEXT}, "ports": [{"name": TEXT, "port": 80}]}},
    {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": TEXT, "ports": [{"name": TEXT, "port": 1}],
     "metadata": {"name": TEXT, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
     "endpoints": [{"addresses": [TEXT], "hostname": TEXT, "targetRef": {"kind": "Pod", "name": TEXT}}]},
    {"apiVersion": "v1", "kind": TEXT, "metadata": METADATA},
]  # fmt: skip
COREFILE = f'. {{\n    whoami "{TEXT}"\n    "{TEXT}" x\n    forward "{TEXT}" 192.0.2.1\n    import "{TEXT}"\n}}\n'
# What a server says of a replay.
COURSE = {
    "file": "shop.rec", "recorded": "2026-01-01T00:00:00.000+00:00", "state": "paused", "speed": 2.0, "at": 1.5,
    "end": 65.0, "applied": 3, "changes": 9, "objects": 12, "problem": "",
}  # fmt: skip
# A name of DNS with any octets, in presentation form.
QNAME = "\\010::error::\\027[31m\\127\\155.shop.svc.cluster.local."
SOURCE = ("-source", "manifests", "evil")
# Of each command, the command lines; -control c is a server whose answers have the text in all places.
ROWS: dict[str, list[tuple[str, ...]]] = {
    "": [("-validate", "-conf", f"evil/{NAME}.Corefile"), ("-validate", "-o", "json", "-conf", f"evil/{NAME}.Corefile"),
         ("-validate", "-conf", NAME), ("-conf", f"evil/{NAME}.Corefile"), (NAME,), (f"-{NAME}",), ("-p", NAME)],
    "serve": [(*SOURCE, "-p", "PORT"), ("-conf", f"evil/{NAME}.Corefile"), ("-source", NAME), ("-listen", NAME)],
    "names": [SOURCE, (*SOURCE, "-o", "json"), ("-conf", f"evil/{NAME}.Corefile"), ("-source", "manifests", NAME), ("-control", "c")],
    "explain": [(QNAME, *SOURCE), (QNAME, *SOURCE, "-o", "json"), ("web.shop.svc.cluster.local.", *SOURCE), (NAME, *SOURCE),
                ("db.shop.svc.cluster.local.", *SOURCE), (QNAME, NAME), (QNAME, "-control", "c"), (QNAME, "-conf", f"evil/{NAME}.Corefile")],
    "dashboard": [("-control", "c"), ("-control", "c", "-o", "json"), ("-control", NAME)],
    "top": [("-once", "-control", "c"), ("-once", "-control", "c", "-n", NAME), ("-once", "-o", "json", "-control", "c"), ("-control", NAME)],
    "doctor": [("-source", "manifests", "evil.json", "-level", "note"), ("-source", "manifests", "evil.json", "-o", "json"), ("-source", "manifests", NAME), ("-from", NAME), ("-kubeconfig", "config", "-context", NAME),
               ("-source", "manifests", "evil.json", "-against", "evil.json"), ("-kubeconfig", NAME), ("-source", "manifests", "evil.json", NAME)],
    "lint": [("evil", "-level", "note", "-o", form) for form in ("text", "json", "sarif", "junit", "github")]
            + [("evil", "-against", "web.json", "-o", form) for form in ("text", "json", "github")] + [(NAME,), ("evil", "-o", NAME)],
    "audit": [("-server", NAME, *SOURCE), ("-contexts", NAME), ("-service", NAME), ("-conf", f"evil/{NAME}.Corefile", "-server", "127.0.0.1")],
    "wait": [(NAME, *SOURCE), (QNAME, "-conf", f"evil/{NAME}.Corefile"), (QNAME, "-server", NAME),
             (QNAME, "-server", "127.0.0.1", "-p", "PORT", "-timeout", "10ms")],
    "rule": [(NAME,)],
    "fault": [("list", "-control", "c"), ("add", NAME, "-control", "c"), ("add", NAME, "-dry-run", "-control", "c"), ("watch", "-control", "c"),
              ("run", NAME), (NAME,), ("remove", NAME, "-control", "c"), ("list", "-o", "json", "-control", "c")],
    "record": [(NAME, "-control", "c"), ("x", "-control", NAME), (NAME, NAME)],
    "replay": [("status", "-control", "c"), ("step", NAME), (NAME,), ("status", "-o", "json", "-control", "c")],
    "lookup": [(NAME,), (QNAME, "-server", NAME), (QNAME, NAME), (QNAME, "-server", "127.0.0.1", "-p", "PORT", "-tcp")],
    "ask": [(NAME,), (f"{NAME}/A",), (f"{QNAME}/A", "-server", NAME)],
    "resolve": [(QNAME, *SOURCE), (NAME, *SOURCE), (QNAME, *SOURCE, "-o", "json"), (QNAME, "-search", NAME), (QNAME, "-program", NAME)],
    "load": [("-queries", "queries", "-rate", "100", "-time", "50ms", "-server", f"{NAME}=127.0.0.1:ANSWERS", "-junit", "out.xml", "-html", "out.html"),
             ("-queries", "queries", "-server", NAME), ("compare", NAME), ("merge", NAME), ("-queries", NAME), ("-fail-if", NAME)],
    "interface": [("-address", NAME)],
    "completion": [(NAME,)],
    "man": [(NAME,)],
}  # fmt: skip
LINES = [(command, words) for command, found in ROWS.items() for words in found]


@pytest.fixture(autouse=True)
def folder(no_server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(probe, "EACH", 0.05)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(no_server / "out.md"))
    (no_server / "evil").mkdir()
    for each in MANIFESTS:
        text = json.dumps(each)
        (no_server / "evil" / f"{MANIFESTS.index(each)}{NAME}.yaml").write_text(text)
    (no_server / "evil" / f"{NAME}.Corefile").write_text(COREFILE)
    (no_server / "evil" / f"{NAME}.yml").write_text(f"a: [\x1b\n{EVIL[:-1]}")
    (no_server / "evil.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": MANIFESTS}))  # fmt: skip
    (no_server / "web.json").write_text(json.dumps(MANIFESTS[2]))
    (no_server / "queries").write_text(f"{QNAME} A\n")
    (no_server / "config").write_text(json.dumps({"contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}]}))  # fmt: skip
    # The signals that a server handles.
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)}  # fmt: skip
    yield no_server
    for number, handler in before.items():
        signal.signal(number, handler)


def check(text: str, *, is_github: bool = False) -> None:
    for line in text.split("\n"):
        assert line.isprintable()
        assert "##[" not in line
        if line.startswith("::"):
            assert is_github
            assert GITHUB.fullmatch(line)


def test_every_command_has_a_row() -> None:
    assert set(ROWS) == {"", *SUBCOMMANDS}


@pytest.mark.sockets
@pytest.mark.parametrize(("command", "words"), LINES, ids=[f"{command or 'hsdns'}-{number}" for number, (command, _) in enumerate(LINES)])  # fmt: skip
def test_nothing_is_obeyed(
    command: str,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    greeting = serve.greeting

    def greet_and_stop(*of: Any) -> list[str]:
        os.kill(os.getpid(), signal.SIGTERM)
        return greeting(*of)

    monkeypatch.setattr(serve, "greeting", greet_and_stop)
    refused = lines({"problem": NAME}, {"name": NAME, "ttl": 5, "type": NAME, "records": [NAME]}, {"open_ended": NAME})  # fmt: skip
    pages = {
        "names": refused, "top": lines(evil(PICTURE)), "top?once=1": lines(evil(PICTURE)), f"top?{urlencode({'namespace': NAME, 'once': 1}, errors='surrogateescape')}": lines(evil(PICTURE)), "watch": lines({"error": NAME}), "server": reply(json.dumps({"dashboard": NAME}).encode()), "queries": lines(NAME),
        f"faults?{urlencode({'name': NAME}, errors='surrogateescape')}": lines(evil(RULE)), "faults": lines(evil(RULE)), "hits": lines(evil(HIT)), "faults?dry-run=1000": lines(evil(TRIED), evil(HIT)), "replay": lines(evil(COURSE)),
        f"explain?{urlencode({'name': QNAME, 'type': 'A'})}": lines({"version": NAME, "error": NAME}),
    }  # fmt: skip
    with listening(Path("c"), **pages), server() as answering:
        ports = {"PORT": str(free_port()), "ANSWERS": str(answering)}
        replaced = [re.sub("PORT|ANSWERS", lambda found: ports[found[0]], word) for word in words]
        main([command, *replaced] if command else replaced)
    shown = capsys.readouterr()
    is_github = "github" in words
    check(shown.out, is_github=is_github)
    check(shown.err)
    assert shown.out + shown.err
    if "junit" in words:
        ElementTree.fromstring(shown.out)
    if "json" in words and shown.out:
        assert [json.loads(each) for each in ([shown.out] if shown.out[1] in "\n " else shown.out.splitlines())]  # fmt: skip
    for name in ("out.xml", "out.html", "out.md"):
        if command == "load" and Path(name).exists():
            check(Path(name).read_text())
    if Path("out.xml").exists():
        ElementTree.parse("out.xml")


@given(st.text(), st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252", "utf-16"]))
def test_any_text_is_a_line_in_any_encoding(text: str, encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    for write in (say, complain):
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = stream
        try:
            write(text)
        finally:
            sys.stdout, sys.stderr = before
    stream.flush()
    assert stream.buffer.getvalue().decode(encoding).count("\n") == 2
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(("text", "shown"), columns(TABLES, "printable"))
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("is_terminal", "text"), [(True, "\r\x1b[Ja\\n\nbbbb\x1b[1F\x1b[Jc\r\x1b[J\n"), (False, "")]
)
def test_progress(is_terminal: bool, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stream)
    stream.fileno = lambda: 2  # type: ignore[method-assign]
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((4, 20)))
    progress = Progress()
    progress.show("a\n", "bbbbb")
    progress.show("c")
    progress.show()
    progress.keep()
    assert stream.getvalue() == text
