"""`hsdns fault`: what it refuses, and its help; sessions/fault.md has what it prints."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Literal

import pytest

from hsdns.cli import main
from hsdns.faults.cli import ONLY_WITH, WORDS
from hsdns.faults.words import ACTIONS, OPTIONS, SELECTORS
from loadtest.ports import free_port
from tests.cli.test_running_server import chunked, listening
from tests.fault_scenarios.test_scenario import FILE
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

RULE = {
    "name": "lossy",
    "rule": "drop type AAAA share 0.5 seed 7 for 10m0s named lossy",
    "state": "active",
    "hits": 1,
    "queries": 3,
    "counts": "queries",
    "seed": 7,
    "seconds_left": 598.4,
    "place": "control API",
    "digest": "00",
}
HIT = {
    "time": "2026-01-02T03:04:05.678+00:00",
    "rule": "slow",
    "hit": 2,
    "query": 9,
    "client": "10.0.0.1",
    "transport": "udp",
    "name": "web.test.",
    "type": "A",
    "action": "delay normal 1s 200ms",
    "drawn": 1.25,
}
TRIED = {
    "rule": "drop type A seed 7 for 10m0s named x", "queries": 9, "seconds": 61.4, "hits": 2, "may": 0, "digest": "00",
    "unforeseen": ["so it is"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(no_server: Path) -> Path:
    return no_server


def lines(*found: object) -> bytes:
    return chunked(*(json.dumps(each).encode() + b"\n" for each in found))


@pytest.mark.parametrize(("line", "error"), columns(TABLES, "fault that is refused"))
def test_refused(line: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", *line.split()]) == 2
    assert capsys.readouterr() == ("", f"{error}\n")


def test_help_has_every_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "-h"]) == 0
    shown = capsys.readouterr().out
    words = {word for line in shown.splitlines() for word in line.split()}
    assert {*ACTIONS, *SELECTORS, *OPTIONS, *WORDS} <= words
    assert max(map(len, shown.splitlines())) <= 90


@pytest.mark.parametrize(("line", "error"), columns(TABLES, "fault run that is refused"))
def test_refused_scenarios(line: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith(error), err.count("\n")) == ("", True, 1), err


@pytest.mark.sockets
def test_a_server_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert main(["fault", "matrix", "conntrack-race", "-server", "127.0.0.1", "-p", str(port)]) == 2
    assert capsys.readouterr().err == f"nothing listens on TCP at 127.0.0.1 port {port}\n"


def test_flags_are_for_commands_that_there_are() -> None:
    assert {command for commands in ONLY_WITH.values() for command in commands} <= {*WORDS}


# `hsdns fault run`: against a scripted server, and with a cluster of its own.

RACE = {**RULE, "name": "race", "hits": 2}
SERVICE = """
manifests = '''
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{port: 80}]}
'''
"""


def write(text: str) -> str:
    Path("own.toml").write_text(text)
    return "own.toml"


class Pressed(asyncio.Event):
    """Ctrl-C is pressed twice as soon as something waits."""

    async def wait(self) -> Literal[True]:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return await super().wait()


@pytest.mark.sockets
def test_ctrl_c_removes_the_rules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(FILE)
    monkeypatch.setattr("asyncio.Event", Pressed)
    before = signal.default_int_handler  # whatever a test before this one has left
    signal.signal(signal.SIGINT, before)
    with listening(Path("c"), **{"faults": lines(RACE), "faults?name=race": lines(RACE)}):
        assert main(["fault", "run", path, "-control", "c"]) == 0
    out = capsys.readouterr().out
    assert "it ends before its time" in out.splitlines()
    assert out.splitlines()[-1].endswith("race: is removed, hits: 2")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
@pytest.mark.sockets
def test_without_a_server_it_brings_a_cluster_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = FILE.replace("at = 9", "at = 0.2").replace('"drop name', '"rcode SERVFAIL type AAAA name').replace("\n[[asked]]", f"{SERVICE}\n[[asked]]")  # fmt: skip
    path = write(text)
    assert main(["fault", "run", path]) == 0
    out = capsys.readouterr().out
    assert re.match(
        r"the scenario's own cluster is served at 127\.0\.0\.1 port \d+\nown: A title, 30s\n", out
    )
    assert out.splitlines()[-2].endswith("race: is removed, hits: 1")
    assert re.fullmatch(r"glibc: lookups: 1, \d\.\d s lost", out.splitlines()[-1])


CHANGES = Path(__file__).with_name("changes.toml").read_text()


@pytest.mark.slow
@pytest.mark.sockets
def test_rules_about_the_watch_need_an_api(capsys: pytest.CaptureFixture[str]) -> None:
    """Its server has two addresses, as the client has two nameservers."""
    head, _, rest = FILE.replace("seconds = 30", "seconds = 1").partition("[[asked]]\n")
    text = (
        head.replace("queries = 4", "queries = 4, servers = 2")
        + SERVICE
        + CHANGES
        + rest.partition("\n[[")[0]
    )
    assert main(["fault", "run", write(text), "-ask=false"]) == 0
    out = [line[9:] for line in capsys.readouterr().out.splitlines()[2:]]
    hits = [line for line in out if line.startswith("race: hits: ")]
    assert hits
    assert [line for line in out if line not in hits] == [
        "race: active: watch forbidden endpointslices named race",
        "objects: change",
        "objects: change",
        f"race: is removed, {hits[-1].removeprefix('race: ').partition(' of')[0]}",
    ]


@pytest.mark.slow
@pytest.mark.sockets
def test_what_keeps_its_cluster_from_starting(capsys: pytest.CaptureFixture[str]) -> None:
    text = 'corefile = ". {\\n    kuberntes\\n}\\n"\n' + FILE
    assert main(["fault", "run", write(text)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("its own cluster did not start: ")
    assert "kuberntes" in err
