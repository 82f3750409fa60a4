"""`hsdns fault`, against scripted servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns.cli import main
from hsdns.fault_scenarios.scenario import names
from hsdns.faults.cli import ONLY_WITH, WORDS
from hsdns.faults.words import ACTIONS, OPTIONS, SELECTORS
from loadtest.ports import free_port
from tests.cli.test_running_server import chunked, listening, reply
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
OWN = {**RULE, "name": "own", "rule": "drop seed 1 named own", "seconds_left": None, "place": "Corefile:3:5"}  # fmt: skip
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
STUCK = {**RULE, "name": "stuck", "rule": "hang named stuck", "counts": "connections"}
DEAD = {**RULE, "name": "dead", "rule": "die 5s named dead", "counts": "restarts", "state": "spent", "seconds_left": None}  # fmt: skip
KILLED = {key: HIT[key] for key in ("time", "rule", "hit", "query")} | {"action": "restart"}
HUNG = KILLED | {"client": "10.0.0.1", "transport": "dot", "action": "hang"}
TRIED = {
    "rule": "drop type A seed 7 for 10m0s named x", "queries": 9, "seconds": 61.4, "hits": 2, "may": 0, "digest": "00",
    "unforeseen": ["so it is"],
}  # fmt: skip
TEXT = (
    "drop type A seed 7 for 10m0s named x\n2 of the last 9 queries, of 1m1s, would have been hit\n"
)
SEEN = {"client": "10.0.0.1", "transport": "udp", "name": "web.test.", "type": "A", "hit": 1}
MANY = [{**SEEN, "name": f"{number}.test."} for number in range(22)]
SHOWN = "".join(f"     1 {number}.test. A over udp from 10.0.0.1\n" for number in range(20))
DROP = {key: value for key, value in HIT.items() if key != "drawn"} | {"action": "drop"}


@pytest.fixture(autouse=True)
def folder(no_server: Path) -> Path:
    return no_server


def lines(*found: object) -> bytes:
    return chunked(*(json.dumps(each).encode() + b"\n" for each in found))


LOSSY = "lossy: active, 9m58s left, 1 of 3 queries hit\n  drop type AAAA share 0.5 seed 7 for 10m0s named lossy\n"


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("command", "page", "answer", "status", "out", "err"),
    [
        ("add drop type AAAA", "faults", lines(RULE), 0, LOSSY, ""),
        ("list", "faults", lines(OWN, RULE), 0, "own: active, 1 of 3 queries hit, from Corefile:3:5\n  drop seed 1 named own\n" + LOSSY, ""),
        ("list", "faults", lines(STUCK, DEAD), 0, "stuck: active, 9m58s left, 1 of 3 connections hit\n  hang named stuck\ndead: spent, 1 restart\n  die 5s named dead\n", ""),
        ("list", "faults", lines(), 0, "no active rules\n", ""),
        ("watch", "hits", lines(HUNG, KILLED), 0, "03:04:05.678 slow hit 2: hang, a client over dot from 10.0.0.1\n03:04:05.678 slow hit 2: restart, the process\n", ""),
        ("list -o json", "faults", lines(), 0, "", ""),
        ("list -o json", "faults", lines(RULE), 0, json.dumps(RULE) + "\n", ""),
        ("remove lossy", "faults?name=lossy", lines({**RULE, "state": "removed", "seconds_left": None}), 0, LOSSY.replace("active, 9m58s left", "removed"), ""),
        ("clear", "faults", lines(), 0, "no active rules\n", ""),
        ("watch", "hits", lines(HIT, DROP), 0, "03:04:05.678 slow hit 2: delay normal 1s 200ms (1.25 s), web.test. A over udp from 10.0.0.1\n03:04:05.678 slow hit 2: drop, web.test. A over udp from 10.0.0.1\n", ""),
        ("add -dry-run drop type A", "faults?dry-run=1000", lines(TRIED, SEEN, SEEN), 0, f"{TEXT}     2 web.test. A over udp from 10.0.0.1\nnote: so it is\n", ""),
        ("add drop type A --dry-run", "faults?dry-run=1000", lines({**TRIED, "may": 3}), 0, TEXT.replace("2 of", "0 of") + "3 may have been hit\nnote: so it is\n", ""),
        ("add drop type A --dry-run -o json", "faults?dry-run=1000", lines(TRIED, SEEN), 0, f"{json.dumps(TRIED)}\n{json.dumps(SEEN)}\n", ""),
        ("add -dry-run drop", "faults?dry-run=1000", lines(TRIED, *MANY), 0, TEXT.replace("2 of", "22 of") + SHOWN + "       and 2 others; -o json has all\nnote: so it is\n", ""),
        ("add dorp", "faults", reply(b'{"error": "dorp?"}', "400 Bad Request"), 2, "", "dorp?\n"),
        ("list", "faults", reply(b'{"error": "not started for faults"}', "403 Forbidden"), 2, "", "not started for faults\n"),
        ("list", "faults", reply(b'{"error": "it starts"}', "503 Service Unavailable"), 2, "", "it starts\n"),
    ],
)  # fmt: skip
def test_commands(
    command: str,
    page: str,
    answer: bytes,
    status: int,
    out: str,
    err: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with listening(Path("c"), **{page: answer}):
        assert main(["fault", *command.split(), "-control", "c"]) == status
    assert capsys.readouterr() == (out, err)


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


# `hsdns fault scenarios` and `matrix`.

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
