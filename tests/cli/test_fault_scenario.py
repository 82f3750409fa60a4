"""`hsdns fault scenarios` and `matrix`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns.cli import main
from hsdns.fault_scenarios.scenario import names
from hsdns.faults.cli import ONLY_WITH, WORDS
from loadtest.ports import free_port
from tests.fault_scenarios.test_scenario import FILE
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

# Its cluster is empty, so an error is the right answer.
LIST = """\
own: A title, 1 lookup of each client
client  seconds  failed  wrong  recovered  queries
glibc      10.0       0      0        0.0        6
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.toml"
    path.write_text(FILE)
    return str(path)


@pytest.mark.parametrize("command", ["scenarios", "run"])
def test_list(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", command]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(names())
    assert lines[names().index("conntrack-race")].endswith("  The second query of a socket is lost")


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "scenarios", "-o", "json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"scenario": "conntrack-race", "title": "The second query of a socket is lost", "seconds": 60.0} in found  # fmt: skip


def test_matrix_of_one(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "matrix", own]) == 0
    assert capsys.readouterr() == (LIST, "")


def test_matrix_of_two(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "matrix", own, "conntrack-race", "-program", "glibc,java,nginx"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[2:] == [
        "scenario        glibc  java  nginx",
        "own             10 s   10 s  10 s",
        "conntrack-race  5 s    5 s   5 s",
    ]
    assert err == ""


def test_matrix_as_json(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "matrix", own, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    glibc = {
        "client": "glibc",
        "lookups": 1,
        "seconds": 10.0,
        "failed": 0,
        "wrong": 0,
        "recovered": 0.0,
        "queries": 6,
        "error": "",
        "hits": {"race": 4},
    }
    assert found == {
        "scenario": "own",
        "title": "A title",
        "why_not": None,
        "never_hit": [],
        "clients": [glibc],
    }


def test_a_rule_without_a_hit_fails(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(own).write_text(FILE.replace("drop name", "drop type TXT name"))
    assert main(["fault", "matrix", own]) == 1
    sentence = 'own: no query was hit by the rule "race", so it has shown nothing\n'
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize(("line", "error"), columns(TABLES, "fault run that is refused"))
def test_refused(line: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
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
