"""The command against servers on loopback; no load of more than 0.2 s."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.load.cli import load
from hsdns.load.cli.load import Load, Termination
from hsdns.load.cluster.job import reports_of
from hsdns.load.report import FORMAT, read_report
from hsdns.load.results import together
from hsdns.load.send import probe
from tests.load import servers
from tests.load.cluster.test_api import STARTED, api
from tests.load.servers import answer, server

WEB = """
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  clusterIP: 10.96.0.1
  ports: [{port: 80}]
"""
ROOT = Path(__file__).resolve().parents[3]
SHORT = ("-rate", "200", "-time", "100ms")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "EACH", 0.05)
    monkeypatch.setattr(probe, "PAUSE", 0.0)
    Path("web.yaml").write_text(WEB)
    Path("q.txt").write_text("www.a.test A\n; nothing\nwww.b.test A\n")


@pytest.mark.sockets
@pytest.mark.slow
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    with server() as port:
        words = ["load", "-p", str(port), "-queries", "q.txt", *SHORT, "-o", "json", "-json", "r.json"]  # fmt: skip
        assert cli.main([*words, "-fail-if", "loss>0"]) == 0
    printed = capsys.readouterr().out
    report = read_report(printed.encode(), "")
    assert read_report(Path("r.json").read_bytes(), "") == report
    (found,) = report.servers
    assert (report.format, found.ended, found.verdicts) == (FORMAT, "", None)
    assert found.target == found.name == f"127.0.0.1 port {port}"
    assert report.plan.what == "2 questions of q.txt"
    assert (found.counts.sent, found.counts.answered, found.counts.lost) == (20, 20, 0)
    assert found.counts.rcodes == {"NOERROR": 20}
    assert [(limit.limit, limit.met) for limit in found.limits] == [("loss>0", False)]


@pytest.mark.sockets
@pytest.mark.slow
def test_answers_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """The server says 10.0.0.1 to everything, which no Service of the cluster has."""
    with server() as port:
        words = ["load", "-p", str(port), "-source", "synthetic", "services=2", "endpoints=1", "headless=0", "-mix", "service=1"]  # fmt: skip
        assert cli.main([*words, "-verify", *SHORT, "-o", "json", "-fail-if", "right<1"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["servers"]
    counts, reasons = found["verdicts"]["counts"], found["verdicts"]["undecided"]
    # On a busy machine the watch may have been late itself.
    assert (counts["wrong"] + reasons.get("away", 0), counts["right"]) == (20, 0)
    assert found["kinds"][0]["group"] == "service"


@pytest.mark.sockets
@pytest.mark.slow
def test_several_servers_in_one_run_and_all_files_beside_the_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    with server() as port, server() as other:
        servers = ["-server", "127.0.0.1", "-p", str(port), "-server", f"other=127.0.0.1:{other}"]
        files = "-json r.json -html r.html -junit cases.xml -prometheus load.prom".split()
        words = ["load", *servers, "-queries", "q.txt", *SHORT, *files, "-fail-if", "loss>0,nxdomain<1"]  # fmt: skip
        assert cli.main(words) == 1
    report = read_report(Path("r.json").read_bytes(), "")
    name = f"127.0.0.1 port {port}"
    assert [(each.name, each.counts.answered) for each in report.servers] == [
        (name, 20),
        ("other", 20),
    ]
    for file, text in (
        ("r.html", '"Side by side"'),
        ("cases.xml", 'failures="1"'),
        ("summary.md", "| nxdomain\\<1 | FAILED | 0 |"),
        ("load.prom", f'result="answered",server="{name}"'),
    ):
        assert text in Path(file).read_text()
    assert "2 servers over UDP, 2 questions of q.txt" in capsys.readouterr().out
    Path("again.json").write_bytes(Path("r.json").read_bytes())
    assert cli.main(["load", "compare", "r.json", "again.json", "-html", "c.html"]) == 0
    assert "again: other: 127.0.0.1 port" in capsys.readouterr().out
    assert "<title>Load on 4 servers</title>" in Path("c.html").read_text()


@pytest.mark.sockets
@pytest.mark.slow
def test_several_generators_share_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """Processes of their own; together they send what one would."""
    with server() as port:
        words = ["load", "-p", str(port), "-queries", "q.txt", "-rate", "50", "-time", "2s", "-live", "none", "-fail-if", "loss>0"]  # fmt: skip
        generators = [
            subprocess.Popen(
                [sys.executable, "-m", "hsdns", *words, "-part", f"{at}/3", "-json", f"{at}.json"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
            )
            for at in range(3)
        ]  # fmt: skip
        assert [each.wait() for each in generators] == [0, 0, 0]
    parts = [read_report(Path(f"{at}.json").read_bytes(), "") for at in range(3)]
    assert [each.servers[0].counts.sent for each in parts] == [34, 33, 33]
    assert cli.main(["load", "merge", "2.json", "0.json", "1.json", "-o", "json"]) == 0
    report = read_report(capsys.readouterr().out.encode(), "")
    (found,) = report.servers
    assert (report.generators, report.plan.part, found.ended) == (3, "", "")
    assert (found.counts.sent, found.counts.answered) == (100, 100)
    assert [(each.second, each.counts.sent) for each in found.per_second] == [(0, 50), (1, 50)]
    slots = [dict(together(each.servers[0].per_second).slots.items()) for each in (*parts, report)]
    assert sum(map(Counter, slots[:-1]), Counter()) == slots[-1]


@pytest.fixture
def _terminated(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM comes twice, after 30 queries."""
    count = 0

    def counted(query: bytes) -> bytes:
        nonlocal count
        count += 1
        if count == 30:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        return answer(query)

    monkeypatch.setattr(servers, "answer", counted)


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.usefixtures("_terminated")
@pytest.mark.parametrize(("limits", "status"), [("nxdomain>0", 2), ("nxdomain<1", 1)])
def test_sigterm_ends_a_run_that_is_reported(
    limits: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with server() as port:
        words = ["-p", str(port), "-queries", "q.txt", "-rate", "200", "-time", "1m", "-json", "r.json"]  # fmt: skip
        assert Load.main([*words, "-fail-if", limits]) == status
    assert "interrupted" in capsys.readouterr().out
    (found,) = read_report(Path("r.json").read_bytes(), "").servers
    assert (found.ended, found.seconds < 30) == ("interrupted", True)
    assert found.counts.sent >= 28  # one is asked before the load


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.usefixtures("_terminated")
def test_a_pod_of_a_job_that_is_deleted_puts_its_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the second of four, and leaves the limits to all."""
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    begun = datetime.fromtimestamp(int(time.time()), UTC).isoformat()
    started = {**STARTED, "status": {"startTime": begun}}
    with server() as port, api([(200, started), (200, {})]) as (found, asked):
        monkeypatch.setattr(load, "_api", lambda: found)
        words = f"-p {port} -queries q.txt -rate 800 -time 1m -job load -start-at +10s -fail-if nxdomain<1"
        assert Load.main(words.split()) == 0
    assert "the report is in the ConfigMap load-1 of the namespace load" in capsys.readouterr().err
    ((_, octets),) = reports_of(json.dumps(asked[1][2]).encode(), "-")
    report = read_report(octets, "")
    (told,) = report.servers
    assert (told.ended, told.counts.sent >= 28, report.plan.part) == ("interrupted", True, "1/4")


def test_before_a_load_it_is_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), Termination():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
