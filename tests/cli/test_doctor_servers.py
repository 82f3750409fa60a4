"""The servers that `hsdns doctor` asks: a cluster at the API server of the tests, and DNS servers on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import cli
from hsdns.doctor import servers as doctor_servers
from hsdns.doctor.cli import NotAsked, PodView
from hsdns.doctor.servers import GIVEN, POD, SERVICE, VIEW, corefile, judged
from hsdns.sources.cluster_dump import unread_kinds
from hsdns.testing import Cluster
from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port
from tests.support.clients.command import serving
from tests.support.upstreams.dns_upstream import OTHER_LOOPBACK

KUBECONFIG = """apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "%s"}}]
users: [{name: a, user: {token: x}}]
"""
OBJECTS = Path(__file__).with_name("doctor_servers.yaml").read_text()
# The cluster IP is one of loopback, where nothing listens on port 53.
DNS = """
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 127.0.0.9, ports: [{name: dns, port: 53, protocol: UDP}]}
"""
REPLICA = """
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-%d, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports: [{name: dns, port: %d, protocol: UDP}]
endpoints: [{addresses: [127.0.0.1]}]
"""
STALE = OBJECTS.replace("addresses: [10.0.0.2]", "addresses: [10.0.0.7]")


@contextmanager
def api(*texts: str) -> Iterator[str]:
    """Serve objects; the address."""
    loop, server = asyncio.new_event_loop(), FakeApi()
    for text in texts:
        for item in yaml.safe_load_all(text):
            if item:
                server.cluster.apply(item)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    try:
        yield server.url
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def dns(text: str) -> Iterator[int]:
    """A DNS server with these objects; its port."""
    with Cluster() as cluster:
        for item in yaml.safe_load_all(text):
            if item["kind"] != "Pod":
                cluster.apply(item)
        yield cluster.port


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor_servers, "PAUSE", 0.0)
    monkeypatch.setattr(doctor_servers, "METRICS_PORT", free_port())


def run(capsys: pytest.CaptureFixture[str], url: str, *words: str) -> dict[str, Any]:
    Path("config").write_text(KUBECONFIG % url)
    cli.main(["doctor", *words, "-kubeconfig", "config", "-save", "saved.json", "-level", "note", "-o", "json"])  # fmt: skip
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def of_servers(printed: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (each["code"], each["level"], each["object"])
        for each in printed["findings"]
        if each["code"] in ("HS231", "HS232")
    ]


@pytest.mark.sockets
@pytest.mark.slow
def test_each_replica_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    gone = free_port()
    with dns(OBJECTS) as right, dns(STALE) as stale:
        replicas = [REPLICA % (number, port) for number, port in enumerate((right, stale, gone))]
        with api(OBJECTS, DNS, *replicas) as url:
            printed = run(capsys, url, "shop/web")
    service = "Service kube-system/kube-dns"
    assert sorted(of_servers(printed)) == [
        ("HS231", "error", service),
        ("HS231", "note", service),
        ("HS232", "error", service),
    ]
    wrong, refused = (next(each["message"] for each in printed["findings"] if each["code"] == code) for code in ("HS232", "HS231"))  # fmt: skip
    assert wrong.startswith(
        f"127.0.0.1 port {stale} answers web.shop.svc.cluster.local. A without A 10.0.0.2, with A 10.0.0.7, which "
        "is not right (1 more of 8 answers are not right); whether a fault rule hits it is not known, as there are no "
        "metrics at 127.0.0.1 port "
    )
    assert refused.startswith(
        f"nothing listens on UDP at 127.0.0.1 port {gone}, when queried for kubernetes.default."
    )
    assert f"{service} at 127.0.0.1 port {right}: 8 of 8 answers are right" in printed["asked"]
    assert not {each["resource"] for each in printed["unchecked"]} & {"answers"}
    line = "doctor shop/web --source manifests saved.json --level note -o json"
    assert cli.main(line.split()) == 1
    assert json.loads(capsys.readouterr().out) == printed


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_pod", "told"),
    [
        (False, 'fault rule "gone" hits this query: nxdomain name web.shop.svc.cluster.local.'),
        (True, 'fault rule "gone" may hit this query: its hits rose with it'),
    ],
)
def test_rules_of_faults(is_pod: bool, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Of a server of this host all is known; of a Pod its metrics say which rules have hit something."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(Path.cwd()))
    Path("web.yaml").write_text(OBJECTS)
    Path("Corefile").write_text(f"cluster.local {{\n kubernetes\n prometheus 127.0.0.1:{doctor_servers.METRICS_PORT}\n}}\n")  # fmt: skip
    words, port = "fault add nxdomain name web.shop.svc.cluster.local. named gone", free_port()
    control = ["--control", "./elsewhere"] if is_pod else []
    line = f"serve --conf Corefile --source manifests web.yaml -p {port}".split()
    with serving(*line, *control, environ=os.environ), api(OBJECTS, REPLICA % (1, port), DNS) as url:  # fmt: skip
        assert cli.main([*words.split(), *control]) == 0
        capsys.readouterr()
        printed = run(capsys, url, "shop/web", *([] if is_pod else ["-server", f"127.0.0.1:{port}"]))  # fmt: skip
    (wrong,) = (each["message"] for each in printed["findings"] if each["code"] == "HS232")
    assert f"; {told}: check in" in wrong


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.skipif(OTHER_LOOPBACK == "127.0.0.1", reason="loopback has one address here")
def test_a_silent_pod_beside_one_that_answers(capsys: pytest.CaptureFixture[str]) -> None:
    pods = [
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {}, namespace: kube-system, labels: {{k8s-app: {}}}}}, "
        "status: {{podIP: {}}}}}".format(*row)
        for row in (
            ("coredns-a", "kube-dns", "127.0.0.1"),
            ("kube-proxy", "kube-proxy", "127.0.0.1"),  # on the network of the same node
            ("coredns-b", "kube-dns", OTHER_LOOPBACK),
        )
    ]  # fmt: skip
    with dns(OBJECTS) as right, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((OTHER_LOOPBACK, 0))
        port = silent.getsockname()[1]
        second = (REPLICA % (2, port)).replace("127.0.0.1", OTHER_LOOPBACK)
        with api(OBJECTS, DNS, REPLICA % (1, right), second, *pods) as url:
            printed = run(capsys, url)
    assert sorted(of_servers(printed)) == [
        ("HS231", "error", "Pod kube-system/coredns-b"),
        ("HS231", "note", "Service kube-system/kube-dns"),
    ]
    name = "kubernetes.default.svc.cluster.local. A"
    silence = (
        f"no reply came from {OTHER_LOOPBACK} port {port} within 1 s, when queried for {name}; whether a fault rule hits "
        f"it is not known, as there are no metrics at {OTHER_LOOPBACK} port {doctor_servers.METRICS_PORT}"
    )
    assert printed["asked"][:2] == [
        f"Pod kube-system/coredns-a at 127.0.0.1 port {right}: 2 of 2 answers are right",
        f"Pod kube-system/coredns-b at {OTHER_LOOPBACK} port {port}: {silence}",
    ]


@contextmanager
def resolver() -> Iterator[int]:
    """What answers all that is sent to port 53, and knows no cluster; its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))

        def answer() -> None:
            while len(query := (received := one.recvfrom(512))[0]) > 1:
                one.sendto(query[:2] + b"\x81\x83" + query[4:], received[1])

        thread = threading.Thread(target=answer)
        thread.start()
        yield one.getsockname()[1]
        one.sendto(b"", one.getsockname())
        thread.join()


TWIN = OBJECTS.replace("10.0.0.", "10.0.7.")  # another cluster, with the same API server's address


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "right", "resource", "reason"),
    [
        (resolver(), "0 of 8", "answers", doctor_servers.UNREACHED),
        (dns(TWIN), "5 of 8", "answers of this cluster", doctor_servers.UNKNOWN),
    ],
)
def test_what_answers_in_place_of_the_cluster_is_not_judged(
    between: AbstractContextManager[int],
    right: str,
    resource: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    headless = DNS.replace("127.0.0.9", "None")
    with between as port, api(OBJECTS, headless, REPLICA % (1, port)) as url:
        printed = run(capsys, url, "shop/web")
        named = run(capsys, url, "shop/web", "-server", f"127.0.0.1:{port}")
    assert ("HS232", "error", "Service kube-system/kube-dns") not in of_servers(printed)
    lacking = {each["resource"]: (each["reason"], each["rules"]) for each in printed["unchecked"]}
    assert lacking[resource][0] == reason
    assert "HS232" in lacking[resource][1]
    assert "HS232" not in printed["passed"]
    assert (
        f"Service kube-system/kube-dns at 127.0.0.1 port {port}: {right} answers are right, and none shows that it is of "
        "this cluster, so they are not judged" in printed["asked"]
    )
    assert of_servers(named) == [("HS232", "error", "--server")]


@pytest.mark.sockets
@pytest.mark.slow
def test_named_servers_are_asked_for_the_names_of_a_pod(capsys: pytest.CaptureFixture[str]) -> None:
    with dns(OBJECTS) as right, api(OBJECTS, DNS) as url:
        printed = run(capsys, url, "shop/web-0", "-server", f"127.0.0.1:{right}")
    assert printed["asked"] == [f"--server at 127.0.0.1 port {right}: 3 of 3 answers are right"]
    assert of_servers(printed) == []


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ((OBJECTS,), "no Service for DNS is known (kube-system/kube-dns); name servers with --server"),
        ((OBJECTS, DNS.replace("127.0.0.9", "None"), REPLICA), doctor_servers.UNREACHED),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_told_and_is_no_finding(
    texts: tuple[str, ...],
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_servers, "EACH", 0.02)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with api(*(each % (1, port) if "%d" in each else each for each in texts)) as url:
            printed = run(capsys, url)
    assert of_servers(printed) == []
    assert {each["resource"]: each["reason"] for each in printed["unchecked"]}["answers"] == reason


RIGHT = {"right": True, "records": 1}


def server(role: str, **more: object) -> dict[str, Any]:
    return {"role": role, "answers": [], "refused": False, "known": False, **more}


@pytest.mark.parametrize(
    ("role", "more", "beside", "counts"),
    [
        (POD, {}, (), False),
        (POD, {}, (POD,), True),
        (POD, {}, (SERVICE,), False),
        (POD, {"refused": True}, (), True),
        (POD, {"answers": [RIGHT]}, (), True),
        (POD, {"answers": [RIGHT | {"records": 0}]}, (), False),  # what does not exist, any server denies
        (POD, {"answers": [RIGHT | {"right": False}]}, (), False),
        (SERVICE, {}, (), False),
        (SERVICE, {}, (POD,), True),
        (SERVICE, {"refused": True}, (), True),
        (GIVEN, {}, (), True),
    ],
)  # fmt: skip
def test_whose_silence_counts(role: str, more: dict[str, Any], beside: tuple[str, ...], counts: bool) -> None:  # fmt: skip
    """`beside` are the roles of servers that were reached."""
    found = judged([server(role, **more), *(server(each, refused=True) for each in beside)])
    assert found[0]["counts"] is counts


@pytest.mark.parametrize(
    ("role", "known", "beside", "is_known"),
    [
        (POD, False, (), False),
        (POD, True, (), True),
        (POD, False, (POD,), True),
        (POD, False, (SERVICE,), False),
        (SERVICE, False, (POD,), False),
        (SERVICE, True, (), True),
        (GIVEN, False, (), True),
        (VIEW, False, (), True),
    ],
)
def test_whose_answers_are_known_to_be_of_the_cluster(
    role: str, known: bool, beside: tuple[str, ...], is_known: bool
) -> None:
    """`beside` are the roles of servers that have given an address of this cluster."""
    found = judged([server(role, known=known), *(server(each, known=True) for each in beside)])
    assert found[0]["known"] is is_known


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("", "cluster.local in-addr.arpa ip6.arpa {\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n    }\n}\n"),
        (". {\n whoami\n}\na.local {\n kubernetes {\n  endpoint http://x\n  pods verified\n  ttl 7\n  endpoint_pod_names\n }\n}\n",
         '"a.local." {\n    kubernetes "a.local." {\n        ttl "7"\n        endpoint_pod_names\n    }\n}\n'),
        # What others write into the ConfigMap names neither code nor files of this machine.
        ('a.local {\n kubernetes {\n  "ttl 5\n}\npython evil:Handler\nlog {"\n  source manifests /etc\n  snapshot /x\n  ttl "5\n}\npython evil:Handler"\n  labels app=x\n }\n}\n',
         '"a.local." {\n    kubernetes "a.local." {\n        ttl "5\n}\npython evil:Handler"\n        labels "app=x"\n    }\n}\n'),
    ],
)  # fmt: skip
def test_the_cluster_is_read_as_its_own_servers_do(text: str, block: str) -> None:
    item = {"kind": "ConfigMap", "data": {"Corefile": text}}
    assert corefile([{"kind": "Service"}, item]) == block


SEEN = {
    "host": "10.96.0.10",
    "port": 53,
    "answers": [],
    "silence": "no reply came",
    "refused": False,
}


@pytest.mark.sockets
@pytest.mark.slow
def test_a_pod_is_asked_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing else can be reached, too; what it cannot tell is said, and the rest goes on."""
    asked: list[tuple[str, Sequence[str]]] = []
    said: list[list[dict[str, Any]] | Exception] = [[SEEN], NotAsked("no right"), [{"host": 1}]]

    def ask(view: PodView, questions: Sequence[str]) -> list[dict[str, Any]]:
        asked.append((str(view), questions))
        found = said.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(PodView, "ask", ask)
    reasons, answers = [], []
    with api(OBJECTS) as url:
        for found in ([("HS231", "error", "Pod shop/web-0")], [], []):
            printed = run(capsys, url, "shop/web", "-from", "shop/web-0")
            assert of_servers(printed) == found
            lacking = {each["resource"]: each["reason"] for each in printed["unchecked"]}
            reasons.append(lacking.get("from-pod", ""))
            answers.append(lacking.get("answers", ""))
            saved = Path("saved.json").read_bytes()
            assert unread_kinds(saved).get("from-pod", "") == reasons[-1]
    assert reasons == [
        "",
        "no right",
        "the container in Pod shop/web-0 runs another version of hsdns ask; see --image",
    ]
    assert answers == ["", doctor_servers.NO_SERVICE, doctor_servers.NO_SERVICE]
    view, questions = asked[0]
    assert view == "Pod shop/web-0"
    assert {"kubernetes.default.svc.cluster.local./A", "web.shop.svc.cluster.local./A"} <= set(questions)  # fmt: skip


@pytest.mark.sockets
@pytest.mark.slow
def test_an_explanation_of_a_cluster_asks_its_servers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server of hsdns and no Corefile: the objects, and what the cluster's servers answer."""

    def explain(url: str) -> tuple[int, str]:
        Path("config").write_text(KUBECONFIG % url)
        words = ["web.shop.svc.cluster.local", "-kubeconfig", "config"]
        return cli.main(["explain", *words]), capsys.readouterr().out

    service = "Service kube-system/kube-dns at 127.0.0.1 port"
    with dns(OBJECTS) as right, dns(STALE) as stale, api(OBJECTS, DNS, REPLICA % (1, right)) as url:
        status, out = explain(url)
        said = f"DNS servers of the cluster └─ {service} {right}: NOERROR, as the objects say"
        assert (status, " ".join(out.split()).endswith(said)) == (0, True)
        with api(OBJECTS, DNS, REPLICA % (1, right), REPLICA % (2, stale)) as second:
            status, out = explain(second)
        head = " ".join(out.split("\n\n")[0].split())
        assert status == 0
        assert head.startswith("NOERROR: 2 of 2 endpoints of headless Service shop/web but objects")
        assert head.endswith(f"and server differ: {service} {stale}: it still answers 10.0.0.7, for 30 s more, which no object has now")  # fmt: skip
    cluster_ip = DNS.replace("127.0.0.9", "127.0.0.1")
    with (
        dns(OBJECTS) as right,
        dns(TWIN) as between,
        api(OBJECTS, cluster_ip, REPLICA % (1, right)) as url,
    ):
        monkeypatch.setattr(doctor_servers, "PORT", between)  # what intercepts the cluster IP
        said = f"DNS servers of the cluster └─ {service} {right}: NOERROR, as the objects say"
        assert " ".join(explain(url)[1].split()).endswith(said)
    with dns(TWIN) as other, api(OBJECTS, DNS, REPLICA % (1, other)) as url:
        out = " ".join(explain(url)[1].split())
        assert "DNS servers of the cluster: not known: no DNS server has answered with an address that only this cluster has" in out  # fmt: skip
