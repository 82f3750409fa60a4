"""`hsdns fault run`: against a scripted server, and with a cluster of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Literal

import pytest

from hsdns.cli import main
from tests.cli.test_fault import RULE, lines
from tests.cli.test_running_server import listening, reply
from tests.fault_scenarios.test_scenario import FILE

SHORT = FILE.replace("at = 9", "at = 0.01").replace("seconds = 30", "seconds = 0.02")
RACE = {**RULE, "name": "race", "hits": 2}
SERVICE = """
manifests = '''
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{port: 80}]}
'''
"""


@pytest.fixture(autouse=True)
def folder(no_server: Path) -> Path:
    return no_server


def write(text: str) -> str:
    Path("own.toml").write_text(text)
    return "own.toml"


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("hits", "status", "end"),
    [(2, 0, ""), (0, 1, 'no query was hit by the rule "race", so it has shown nothing\n')],
)
def test_rules_come_and_go(
    hits: int, status: int, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(SHORT)
    rule = {**RACE, "hits": hits}
    with listening(Path("c"), **{"faults": lines(rule), "faults?name=race": lines(rule)}):
        assert main(["fault", "run", path, "-control", "c"]) == status
    out = re.sub(r"^ +\d+\.\d ", "T ", capsys.readouterr().out, flags=re.MULTILINE)
    assert re.sub(r"process \d+", "process N", out) == (
        "own: A title, 20ms\n"
        "T  race: active: drop name web.shop.svc.cluster.local named race\n"
        + ("T  race: hits: 2 of 3 queries\n" if hits else "")
        + f"T  race: is removed, hits: {hits}\n"
        + end
    )


@pytest.mark.sockets
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    path = write(SHORT)
    with listening(Path("c"), **{"faults": lines(RACE), "faults?name=race": lines(RACE)}):
        assert main(["fault", "run", path, "-control", "c", "-o", "json"]) == 0
    *progress, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert [each["about"] for each in progress] == ["race", "race", "race"]
    assert last == {"scenario": "own", "hits": {"race": 2}, "never_hit": [], "clients": []}


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


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("text", "flags", "answer", "status", "error"),
    [
        (SHORT, "", reply(b'{"error": "no zone"}', "400 Bad Request"), 2, "no zone"),
        (SHORT.replace("seconds", 'own = "it needs more"\nseconds', 1), "", lines(), 2, "own needs its own cluster: it needs more; add -own"),
        (SHORT, "-ask", lines(), 2, "-ask needs -own; add it, or use hsdns resolve"),
        (SHORT, "-name a..b", lines(), 2, '-name: "a..b" is not a domain name: '),
    ],
)  # fmt: skip
def test_refused(
    text: str,
    flags: str,
    answer: bytes,
    status: int,
    error: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(text)
    with listening(Path("c"), faults=answer):
        assert main(["fault", "run", path, "-control", "c", *flags.split()]) == status
    assert capsys.readouterr().err.startswith(error)


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
