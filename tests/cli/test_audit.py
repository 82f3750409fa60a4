"""The command against hsdns itself, on loopback: a server that is right, one that is frozen, and bad input."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.audit import servers as audit_servers
from hsdns.audit.cli import Audit
from hsdns.audit.report import Gauges
from hsdns.audit.run import replicas
from hsdns.audit.servers import schedule_of, serve_metrics
from hsdns.cli.command import FlagError
from hsdns.load.cli.cluster import LoadCluster
from hsdns.load.errors import LoadError
from hsdns.load.schedule import Schedule
from hsdns.load.send import probe
from hsdns.load.verify import truth
from hsdns.testing import Cluster
from loadtest.ports import free_port

WEB = Path(__file__).with_name("audit.yaml").read_text()
DNS = Path(__file__).with_name("audit_dns.yaml").read_text()
RATE = ("-rate", "100", "-absent", "2", "-slow", "60s")  # the machine may be busy


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "EACH", 0.5)
    monkeypatch.setattr(audit_servers, "TIMEOUT", 20.0)
    monkeypatch.setattr(truth, "LATE", 20.0)
    Path("web.yaml").write_text(WEB)


@pytest.fixture
def server() -> Iterator[Cluster]:
    with Cluster("web.yaml") as cluster:
        yield cluster


def words(*clusters: Cluster) -> list[str]:
    servers = [f"127.0.0.1:{each.port}" for each in clusters]
    return ["audit", "-server", *servers, "-source", "manifests", "web.yaml", *RATE]


@pytest.mark.sockets
@pytest.mark.slow
def test_a_server_that_is_right(server: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words(server), "-o", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["format"], report["ended"], report["cluster"]) == (
        "hsdns audit 1",
        "",
        "manifests web.yaml",
    )
    (found,) = report["servers"]
    assert found["counts"] == {"right": report["names"] + report["absent"]}
    assert found["findings"] == []


@pytest.mark.sockets
@pytest.mark.slow
def test_a_server_that_is_not(server: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster() as other:
        other.service("web", namespace="shop", headless=True, ports={"http": 80}).endpoints(
            "10.0.0.1"
        )
        first, second = (f"127.0.0.1 port {each.port}" for each in (server, other))
        assert cli.main(words(server, other)) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith(f"{first}  ")
    assert "missing" not in printed[1]
    assert any(line.startswith(f"{second}  ") and "missing" in line for line in printed)
    assert "  web.shop.svc.cluster.local. A: missing; lacks A 10.0.0.2" in printed
    assert any(
        line.startswith(
            "  mail.shop.svc.cluster.local. CNAME: missing; NXDOMAIN instead of NOERROR"
        )
        for line in printed
    )


@pytest.mark.sockets
@pytest.mark.slow
def test_a_big_answer_comes_over_tcp(capsys: pytest.CaptureFixture[str]) -> None:
    endpoints = "".join(f"- addresses: [10.0.1.{at}]\n" for at in range(1, 91))
    text = WEB.replace("- addresses: [10.0.0.1]\n- addresses: [10.0.0.2]\n", endpoints)
    assert text != WEB
    Path("web.yaml").write_text(text)
    with Cluster("web.yaml") as big:
        assert cli.main([*words(big), "-o", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["servers"][0]["counts"].keys() == {"right"}


@pytest.mark.sockets
@pytest.mark.slow
def test_the_replicas_of_a_service(
    server: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An EndpointSlice has no address of loopback, so that of its endpoint is led there."""
    monkeypatch.setattr(
        audit_servers,
        "replicas",
        lambda value: [("127.0.0.1", server.port) for _ in replicas(value)],
    )
    Path("dns.yaml").write_text(DNS)
    line = "audit --service kube-system/kube-dns --source manifests web.yaml dns.yaml -o json"
    assert cli.main([*line.split(), *RATE]) == 1  # it does not have the Service itself
    (report,) = json.loads(capsys.readouterr().out)
    (found,) = report["servers"]
    assert found["server"] == f"127.0.0.1 port {server.port}"
    assert found["counts"].keys() == {"right", "missing"}
    assert "kube-dns.kube-system.svc.cluster.local." in {each["name"] for each in found["findings"]}


@pytest.mark.sockets
@pytest.mark.slow
def test_again_and_again(
    server: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two passes; then Ctrl-C, while the metrics are read."""
    port, metrics = free_port(), []
    passes = iter((None, None))

    def pause(seconds: float) -> None:
        if seconds > 1:  # the pause between two passes
            if next(passes, "over") == "over":
                raise KeyboardInterrupt
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                metrics.append(page.read().decode())
        else:
            threading.Event().wait(seconds)

    monkeypatch.setattr(time, "sleep", pause)
    assert cli.main([*words(server), "-watch", "-metrics", f"127.0.0.1:{port}"]) == 0
    assert capsys.readouterr().out.count(" right; p50 ") == 3
    assert len(metrics) == 2
    assert 'verdict="right"' in metrics[0]


def test_clusters_are_read_at_the_same_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """All begin before the first one is waited for, and one that cannot be read leaves the others."""
    steps = []

    class Unreadable(LoadCluster):
        def start(self) -> None:
            steps.append("begins")
            assert [vars(each)["options"]["ttl"] for each in self.configuration.plugins] == [30]

        def __enter__(self) -> LoadCluster:
            steps.append("is waited for")
            raise LoadError("it cannot be read")

        def __exit__(self, *error: object) -> None:
            steps.append("ends")

    monkeypatch.setattr(audit_servers, "LoadCluster", Unreadable)
    contexts = [{"name": each, "context": {"cluster": "c", "user": "u"}} for each in "ab"]
    clusters = [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]
    users = [{"name": "u", "user": {"token": "x"}}]
    found = {"contexts": contexts, "clusters": clusters, "users": users}
    Path("config").write_text(json.dumps(found))
    assert cli.main("audit --contexts a=127.0.0.1 b=127.0.0.1 --kubeconfig config".split()) == 2
    assert steps == [*["begins"] * 2, *["is waited for"] * 2, *["ends"] * 2]
    assert "b: not audited: it cannot be read" in capsys.readouterr().out


# The page of metrics of an audit that goes on.


@pytest.mark.sockets
def test_the_page() -> None:
    gauges = Gauges()
    with serve_metrics("127.0.0.1:0", gauges) as address:
        gauges.failed()
        with urllib.request.urlopen(f"http://{address}/metrics?x") as page:
            assert page.headers["Content-Type"].startswith("text/plain; version=")
            assert b"\nhsdns_audit_failures_total 1.0\n" in page.read()


@pytest.mark.sockets
def test_bad_addresses() -> None:
    with pytest.raises(FlagError), serve_metrics("here", Gauges()):
        pass
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        sentence = f"--metrics {address}: Address already in use"
        with pytest.raises(OSError, match=sentence), serve_metrics(address, Gauges()):
            pass


# The servers of an audit: what tests/cli/test_audit.py, which asks them, does not show.


def test_there_is_exactly_one_query_for_each_question() -> None:
    for count in (1, 2, 7, 999, 1000, 4001):
        for rate in (1, 3, 997, 1000, 12_000):
            settings = Audit(rate=rate)
            assert len(list(Schedule((schedule_of(count, settings),)).times())) == count
