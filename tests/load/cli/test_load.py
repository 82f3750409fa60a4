"""The command against servers on loopback, no load of more than 0.2 s, and its parts: exports, Jobs, the knee, clusters."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

from hsdns import cli
from hsdns.apiserver import access
from hsdns.assemble import Configuration
from hsdns.cli.offline import configure
from hsdns.corefile.tree import Position, Token
from hsdns.load.cli import load
from hsdns.load.cli.cluster import LoadCluster, following_changes
from hsdns.load.cli.load import Generator, Load, Termination, find_generator, find_knee, meeting_of
from hsdns.load.cli.reports import SUMMARY, Metrics, write_for_ci
from hsdns.load.cli.settings import LoadSettings, ReportCommand, check_gateway
from hsdns.load.cluster.job import INDEX, reports_of
from hsdns.load.cluster.names import cluster_questions
from hsdns.load.errors import LoadError
from hsdns.load.outcome import LOST
from hsdns.load.pods import PodPlan
from hsdns.load.questions import Question, Questions
from hsdns.load.report import FORMAT, PlanReport, read_report
from hsdns.load.results import Results, together
from hsdns.load.run import FELL_BEHIND, INTERRUPTED
from hsdns.load.schedule import SECOND, Portion, Stage
from hsdns.load.send import probe
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.load import servers
from tests.load.cli.test_settings import settings
from tests.load.cluster.test_api import READ, SPEC, api
from tests.load.servers import answer, http_server, server
from tests.load.test_report import PLAN, report, results
from tests.support.apiserver.real_api import RealApi, missing_assets

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
    Path("summary.md").write_text("before\n")
    with server() as port, server() as other:
        servers = ["-server", "127.0.0.1", "-p", str(port), "-server", f"other=127.0.0.1:{other}"]
        files = "--json r.json --html r.html --junit cases.xml --prometheus load.prom".split()
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
        ("summary.md", "before\n### "),
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
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [pytest.param(3, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.night)])  # fmt: skip
def test_several_generators_share_a_plan(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Processes of their own; together they send what one would, and begin together."""
    place = f"127.0.0.1:{free_port()}"
    with server() as port:
        words = ["load", "-p", str(port), "-queries", "q.txt", "-rate", "50", "-time", "2s", "-live", "none", "-fail-if", "loss>0"]  # fmt: skip
        generators = [
            subprocess.Popen(
                [sys.executable, "-m", "hsdns", *words, "-part", f"{at}/{count}", "-coordinate", place, "-json", f"{at}.json"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
            )
            for at in range(count)
        ]  # fmt: skip
        # 2 where the machine was so busy that what was late counts as unknown.
        assert {each.wait() for each in generators} <= {0, 2}
    files = [f"{at}.json" for at in range(count)]
    parts = [read_report(Path(each).read_bytes(), "") for each in files]
    assert [each.servers[0].counts.sent for each in parts] == [-(-(100 - at) // count) for at in range(count)]  # fmt: skip
    assert cli.main(["load", "merge", *files[::-1], "-o", "json"]) == 0
    report = read_report(capsys.readouterr().out.encode(), "")
    (found,) = report.servers
    assert (report.generators, report.plan.part, found.ended) == (count, "", "")
    assert {(each.started, each.digest) for each in parts} == {(report.started, report.digest)}
    assert [each.part for each in report.clocks] == [f"{at}/{count}" for at in range(count)]
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
    """It is the first of one, and leaves the limits to all."""
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    read = {**READ, "spec": {**SPEC, "completions": 1}}
    with server() as port, api([(200, read), (200, {}), (200, {})]) as (found, asked):
        monkeypatch.setattr(load, "_api", lambda: found)
        words = f"-p {port} --queries q.txt --rate 800 --time 1m --job load --fail-if nxdomain<1"
        assert Load.main(words.split()) == 0
    assert "the report is in the ConfigMap load-0 of the namespace load" in capsys.readouterr().err
    ((_, octets),) = reports_of(asked[2][2], "-")
    report = read_report(octets, "")
    (told,) = report.servers
    assert (told.ended, told.counts.sent >= 28, report.plan.part) == ("interrupted", True, "")


def test_before_a_load_it_is_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), Termination():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


# --- metrics, and files for CI ---

NAME = "127.0.0.1 port 53"


def test_a_file_is_written_now_and_then(tmp_path: Path) -> None:
    file, servers = tmp_path / "load.prom", {NAME: results()}
    metrics = Metrics(str(file), "")
    metrics.show(servers, 9.9)
    assert not file.exists()
    metrics.show(servers, 10.0)
    assert "hsdns_load_seconds 10.0\n" in file.read_text()
    metrics.show(servers, 15.0)
    assert "hsdns_load_seconds 10.0\n" in file.read_text()
    metrics.finish(servers, report(results(), "loss>0"))
    text = file.read_text()
    assert "hsdns_load_seconds 2.0\n" in text
    assert f'hsdns_load_limit_met{{limit="loss>0",server="{NAME}"}} 0.0\n' in text
    assert [each.name for each in tmp_path.glob("load*")] == ["load.prom"]


def test_a_file_that_cannot_be_written_is_told_at_the_end(tmp_path: Path) -> None:
    servers = {NAME: results()}
    metrics = Metrics(str(tmp_path / "none" / "load.prom"), "")
    metrics.show(servers, 10.0)
    with pytest.raises(FileNotFoundError):
        metrics.finish(servers, report(results()))


@pytest.mark.sockets
@pytest.mark.slow
def test_a_gateway_gets_them() -> None:
    with http_server(lambda: (200, b"")) as (port, pushed):
        metrics = Metrics("", check_gateway(f"http://127.0.0.1:{port}"))
        metrics.show({NAME: results()}, 10.0)
        metrics.finish({NAME: results()}, report(results(), "loss>0"))
    assert len(pushed) == 2
    assert {path.partition("/instance/")[0] for _, path, _ in pushed} == {"/metrics/job/hsdns_load"}
    assert b"hsdns_load_limit_met" not in pushed[0][2]
    assert b"hsdns_load_limit_met" in pushed[1][2]


@pytest.mark.sockets
@pytest.mark.slow
def test_a_gateway_that_takes_nothing_is_told_at_the_end() -> None:
    with http_server(lambda: (400, b"")) as (port, _):
        metrics = Metrics("", f"http://127.0.0.1:{port}")
        with pytest.raises(LoadError, match="has not taken the metrics: HTTP Error 400: Bad Request"):  # fmt: skip
            metrics.finish({NAME: results()}, report(results()))
    metrics = Metrics("", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(LoadError, match=r"has not taken the metrics: .*Connection refused"):
        metrics.finish({NAME: results()}, report(results()))


def test_no_step_of_github_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMMARY, raising=False)
    write_for_ci(report(results()), ReportCommand())
    with pytest.raises(LoadError) as error:
        write_for_ci(report(results()), ReportCommand(github=True))
    assert str(error.value) == (
        "--github: GITHUB_STEP_SUMMARY names no file, so this is not a step of GitHub Actions"
    )


# --- which portion of a Job this is ---


def test_without_a_job() -> None:
    assert find_generator(Portion(), None, "") == Generator(Portion())
    assert find_generator(Portion(1, 4), ("a", 1), "") == Generator(Portion(1, 4), ("a", 1))
    with meeting_of(Generator()) as meeting:
        assert meeting is None


@pytest.mark.sockets
def test_in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INDEX, "3")
    with api([(200, READ), (200, {})]) as (found, asked):
        monkeypatch.setattr(load, "_api", lambda: found)
        generator = find_generator(Portion(), None, "load")
        assert (generator.portion, generator.place) == (Portion(3, 4), ("127.0.0.1", 0))
        said = generator.put(b"{}")
    assert said == "the report is in the ConfigMap load-3 of the namespace load"
    assert asked[-1][1].startswith("/api/v1/namespaces/load/configmaps/load-3?")
    monkeypatch.setenv(INDEX, "4")
    sentence = r"^--job: the Job load has 4 completions, and no index 4$"
    with api([(200, READ)]) as (found, _), pytest.raises(LoadError, match=sentence):
        find_generator(Portion(), None, "load")


def test_outside_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INDEX, "0")
    monkeypatch.delenv(access.HOST, raising=False)
    with pytest.raises(
        LoadError, match="--job: not in a cluster: KUBERNETES_SERVICE_HOST is not set"
    ):
        find_generator(Portion(), None, "load")


# --- the knee ---

MS = SECOND // 1000
STAGES = (Stage(10, 400, 400),)


class Slow:
    """Answers after 1 ms up to a capacity, and after 9 ms above it; what was asked of it."""

    def __init__(self, capacity: float, *, behind: float = 1e9, interrupts: int = 1000) -> None:
        self.capacity = capacity
        self.behind = behind
        self.interrupts = interrupts
        self.asked: list[LoadSettings] = []

    def __call__(self, asked: LoadSettings) -> tuple[list[Results], PlanReport]:
        self.asked.append(asked)
        (stage,) = asked.schedule.stages
        found = Results([Question(Name.from_text("a.test."), RRType.A, "file")], 0)
        took = 1 if stage.first <= self.capacity else 9
        count = 200 if took == 1 else 199
        outcomes = [(0, 0x8400, 0, n * MS, n * MS, (n + took) * MS) for n in range(count)]
        found.add([*outcomes, *[(0, 0, 0, 0, 0, LOST)] * (200 - count)])
        why = FELL_BEHIND if stage.first > self.behind else ""
        why = INTERRUPTED if len(self.asked) > self.interrupts else why
        found.server.ended, found.server.seconds = why, stage.seconds
        return [found], PLAN


def test_the_knee_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    server = Slow(1000)
    found = find_knee(
        settings("--queries q --find-knee --rate 400 --knee-limits p90<5ms --time 1s"), server
    )
    knee = found.knee
    assert knee.found
    assert knee.holds is not None
    assert knee.breaks is not None
    assert knee.holds <= 1000 < knee.breaks <= knee.holds * 1.011
    assert knee.limits == ["p90>=5ms"]
    assert [step.rate for step in knee.steps][:3] == [400, 800, 1600]
    assert len(knee.steps) == len(server.asked)
    # The run that is reported is the longest one at that rate.
    longest = max(each.seconds for each in knee.steps if each.rate == knee.holds)
    assert (found.servers[0].server.seconds, longest) == (4, 4)
    # The first step finds the server there; the others may have to wait until it has recovered.
    assert [each.wait for each in server.asked][:2] == [0.0, 10.0]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "400/s for 3 s: held, p50 1.00 ms  p99 1.00 ms  p99.9 1.00 ms, lost 0, generator late by p99 0 us"
    )
    assert lines[2] == (
        "1600/s for 1 s: broken, p50 9.01 ms  p99 9.01 ms  p99.9 lost, lost 1 (0.500%), generator late by p99 0 us"
    )
    assert lines[-1] == knee.sentence


@pytest.mark.parametrize(
    ("after", "sentence", "seconds"),
    [
        (0, "the search did not end", 25.0),
        (2, "the search did not end; the limits hold at 800 queries a second", 13.0),
    ],
)
def test_interrupted(after: int, sentence: str, seconds: float) -> None:
    found = find_knee(settings("--queries q --find-knee --rate 400"), Slow(1e9, interrupts=after))
    assert (found.knee.sentence, len(found.knee.steps)) == (sentence, after)
    assert found.servers[0].server.seconds == seconds


def test_a_server_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    """After the first step the search ends with what is known; before it there is nothing to tell."""
    server, count = Slow(1e9), 0

    def load(asked: LoadSettings) -> tuple[list[Results], PlanReport]:
        nonlocal count
        count += 1
        if count > 2:
            raise LoadError("nothing listens")
        return server(asked)

    found = find_knee(settings("--queries q --find-knee --rate 400"), load)
    assert found.knee.sentence == "the search did not end; the limits hold at 800 queries a second"
    assert "nothing listens\n" in capsys.readouterr().err
    with pytest.raises(LoadError, match="nothing listens"):
        find_knee(settings("--queries q --find-knee --rate 400"), load)


# --- the thread of a cluster: its questions, its truth, and its changes in both ---

SYNTHETIC = ("synthetic", "services=2", "endpoints=2", "headless=1")


def choose(blocks: Sequence[Kubernetes]) -> Questions:
    return cluster_questions([block.answer_set() for block in blocks], None, 0.0, 1)


def cluster(*words: str, verifies: bool = True, api: bool = True) -> LoadCluster:
    tokens = tuple(Token(word, Position("--source", 0, 0)) for word in words or SYNTHETIC)
    configuration, _ = configure(None, tokens)
    address = ("127.0.0.1", 0) if api else None
    return LoadCluster(configuration, choose, verifies=verifies, serves=address)


@pytest.mark.sockets
def test_changes_are_in_the_truth_and_in_the_api() -> None:
    with cluster() as found:
        assert {each.group for each in found.questions.all} == {"headless", "endpoint", "srv", "reverse", "absent"}  # fmt: skip
        assert found.truth is not None
        assert found.api is not None
        assert not found.truth.changes
        before = version(found.api.url)
        with found.churning([(1.0, 500.0)]):
            while len(found.truth.changes) < 3:
                version(found.api.url)
        after = version(found.api.url)
        assert after - before == len(found.truth.changes)
        assert found.told() == {}
        asked = PodPlan(1, [], [], "cluster.local", {}, {}, [], [], 1, "istio")
        found.questions = Questions([], pods=asked)
        told, known = found.told(), found.truth.block.registry("cluster.local")
        assert (len(known), found.told()) == (2, {})
        assert told
        assert told.items() <= known.items()


def version(url: str) -> int:
    """That of a list of the API."""
    with urlopen(f"{url}/apis/discovery.k8s.io/v1/endpointslices") as answer:
        return int(json.load(answer)["metadata"]["resourceVersion"])


def corefile(folder: Path, api: RealApi, token: str) -> Configuration:
    """A Corefile with a kubeconfig for an API server."""
    kubeconfig, file = folder / "kubeconfig", folder / "Corefile"
    authority = b64encode(api.authority).decode()
    kubeconfig.write_text(f"""
apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: "https://127.0.0.1:{api.port}", certificate-authority-data: {authority}}}}}]
users: [{{name: it, user: {{token: {token}}}}}]
""")
    file.write_text(
        f"cluster.local {{\n    kubernetes cluster.local {{\n        kubeconfig {kubeconfig}\n    }}\n}}\n"
    )
    return configure(str(file), None)[0]


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets())
def test_changes_through_a_real_api(tmp_path: Path) -> None:
    with RealApi() as api:
        with LoadCluster(corefile(tmp_path, api, api.admin), choose, verifies=True, changes_api=True) as found:  # fmt: skip
            (name,) = [each for each in names(api, "Namespace") if each.startswith("hsdns-load-")]
            assert found.awaited is not None
            assert f".{name}." in found.awaited.name.to_text()
            assert found.truth is not None
            follower = found.follow(10_000.0, lambda event: True)
            with found.churning([(1.0, 100.0)]):
                while not any(each.written is not None for each in follower.events):
                    names(api, "EndpointSlice")
            assert found.failure == ""
            for event in follower.events:
                assert event.key[0] == name.encode()
                assert event.written is None or event.written < event.seen
        assert not [each for each in names(api, "EndpointSlice") if each.startswith("svc-")]
        assert not [each for each in names(api, "Service") if each.startswith("svc-")]
        # No controller takes it away here, but that it is to go.
        assert [each["metadata"]["name"] for each in api.items("Namespace") if "deletionTimestamp" in each["metadata"]] == [name]  # fmt: skip
        with pytest.raises(LoadError, match=r'^--churn-api: Namespace hsdns-load-.* cannot be made: 403 .*"contract" cannot create resource "namespaces"'), LoadCluster(corefile(tmp_path, api, api.token), choose, verifies=True, changes_api=True):  # fmt: skip
            pass


def names(api: RealApi, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in api.items(kind)]


@pytest.mark.parametrize("words", ["--queries q", "--source synthetic --verify", "--source synthetic --api [::1]:0 --churn 5 --verify --probes 0"])  # fmt: skip
def test_nothing_is_followed(words: str) -> None:
    given = settings(words)
    with following_changes(given, None, [], []) as following:
        following.take()
        assert following.report(0, 0.0, 1.0) is None


@pytest.mark.sockets
@pytest.mark.slow
def test_changes_of_a_cluster_are_followed() -> None:
    """The server never answers: each change is asked about in vain, and left out."""
    words = "--source synthetic --api [::1]:0 --churn 5 --verify --probes 1000"
    given = settings(words)
    with server(ignored=1 << 30) as port, cluster() as found:
        place = socket.AF_INET, ("127.0.0.1", port)
        queries = [each.query() for each in found.questions.all]
        with following_changes(given, found, [place], queries) as following:
            assert found.truth is not None
            with found.churning([(1.0, 200.0)]):
                while len(found.truth.changes) < 10:
                    following.take()
        report = following.report(0, 0.0, float("inf"))
    assert report is not None
    assert 0 < report.followed == report.left_out
