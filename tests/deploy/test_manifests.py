"""What kubectl would apply: its Corefiles and arguments are valid, its rights CoreDNS's, and an API server takes it."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.audit.report import WORDS, Gauges
from hsdns.cli import audit, control_path, coredns, interface
from hsdns.cli.command import parse_flags
from hsdns.corefile.parser import parse
from hsdns.load.cli.load import Load
from hsdns.load.cluster.job import LABEL
from hsdns.plugins import NOT_YET, ORDER
from hsdns.server.lifecycle import Server
from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port
from tests.load.cli.test_settings import settings
from tests.support.apiserver.real_api import RealApi, missing_assets
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import UdpClient
from tests.support.coroutines.event_loops import run
from tests.support.manifests.known_fields import CLUSTER_WIDE, check
from tests.support.plugins.corefiles import KUBEADM

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
JOB = "../loadtest/kubernetes"
RENDERED = (
    "base",
    "overlays/sidecar",
    "overlays/node-local",
    "alerts",
    "audit/cronjob",
    "audit/watch",
    JOB,
)
FILES = sorted(
    path
    for folder in (DEPLOY, DEPLOY / JOB)
    for path in folder.resolve().rglob("*.yaml")
    if not {"helm", "k9s"}.intersection(path.parts)
)
CONTROL = ["-control", "/run/hsdns/control.sock"]
IMAGE = f"hsdns/hsdns:{__version__}"
FLAGS = {
    each: command.flags()
    for each, command in (
        ("audit", audit.Audit),
        ("interface", interface.Interface),
        ("load", Load),
    )
}
# What kubeadm's ClusterRole system:coredns allows.
STOCK_RIGHTS = {
    ("", resource, verb)
    for resource in ("endpoints", "services", "pods", "namespaces")
    for verb in ("list", "watch")
} | {("discovery.k8s.io", "endpointslices", verb) for verb in ("list", "watch")}
OF_THE_JOB = {("batch", "jobs", "get"), ("", "configmaps", "create"), ("", "configmaps", "patch")}

needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None,
    reason="kubectl, which renders kustomizations, is not installed",
)


@cache
def render(folder: str) -> list[dict[str, Any]]:
    """The objects of a kustomization."""
    command = ["kubectl", "kustomize", str((DEPLOY / folder).resolve())]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (found.returncode, found.stderr) == (0, "")
    return list(yaml.safe_load_all(found.stdout))


def one(objects: list[dict[str, Any]], kind: str) -> Any:
    """The only object of a kind."""
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def pod_of(found: dict[str, Any]) -> Any:
    """The pod that an object makes; None if it makes none."""
    spec = found.get("spec", {})
    spec = spec["jobTemplate"]["spec"] if found["kind"] == "CronJob" else spec
    pod = spec.get("template", {}).get("spec", {})
    return pod if "containers" in pod else None


def of_files(*paths: Path) -> list[Any]:
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


# --- without kubectl ---


@pytest.mark.parametrize("path", of_files(*FILES))
def test_kustomizations_and_files_fit(path: Path) -> None:
    for document in documents(path):
        assert document["kind"]
        if path.name == "kustomization.yaml":
            for name in [*document.get("resources", []), *document.get("components", [])]:
                assert (path.parent / name).exists()
            for image in document.get("images", []):
                assert f"{image['name']}:{image['newTag']}" == IMAGE
        elif path.parent.name != "kind":
            (listed,) = documents(path.with_name("kustomization.yaml"))
            patches = [each["path"] for each in listed.get("patches", [])]
            assert path.name in listed.get("resources", []) + patches


def test_the_base_has_the_corefile_of_kubeadm() -> None:
    (found,) = documents(DEPLOY / "base/configmap.yaml")
    assert found["data"] == {"Corefile": KUBEADM}


@pytest.mark.parametrize("path", of_files(*(each for each in FILES if "doctor" not in each.parts)))
def test_rights_are_those_of_coredns_and_no_others(path: Path) -> None:
    """The doctor is for people; tests/sources/test_cluster_dump.py and tests/cli/test_doctor_pod.py have what it needs."""
    for document in documents(path):
        rights = {
            (group, resource, verb)
            for rule in document.get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        if document["kind"] == "ClusterRole":
            assert rights == STOCK_RIGHTS
        elif rights and "loadtest" in path.parts:
            assert rights == OF_THE_JOB
        else:
            assert rights <= STOCK_RIGHTS


@pytest.mark.parametrize(
    "path", of_files(*(each for each in FILES if each.name == "configmap.yaml"))
)
def test_corefiles_are_valid(path: Path) -> None:
    (found,) = documents(path)
    warnings: list[str] = []
    corefile = parse(
        "Corefile",
        text=found["data"]["Corefile"],
        environ={"POD_NAMESPACE": "shop", "CLUSTER_DNS": "10.96.0.10"},
        known_directives=ORDER,
        not_yet=NOT_YET,
    )
    there = {"hsdns": ["169.254.20.10", "fd68:7364:6e73::53"]}
    made = assemble(corefile, default_port=53, interfaces=lambda: there, warn=warnings.append)
    assert warnings == []
    if path.parent.name == "node-local":
        assert [each.listen.host for each in made.listeners] == there["hsdns"]


@pytest.mark.parametrize("path", of_files(*FILES))
def test_arguments_are_flags_and_files_are_mounted(path: Path) -> None:
    for document in documents(path):
        pod = pod_of(document)
        containers = [] if pod is None else [*pod.get("initContainers", []), *pod["containers"]]
        for container in containers:
            command, *words = container.get("args", [""])
            if command.startswith("-"):
                command, words = "", [command, *words]
            flags = parse_flags(words, FLAGS.get(command, coredns.Coredns.flags()))
            mounts = {each["name"]: each["mountPath"] for each in container.get("volumeMounts", ())}
            folders = [
                mounts.get(each["name"]) for each in pod.get("volumes", ()) if "configMap" in each
            ]
            if "conf" in flags and any(folders):
                assert str(flags["conf"]).rpartition("/")[0] in folders
            if "metrics" in flags:
                (port,) = container["ports"]
                assert flags["metrics"] == f":{port['containerPort']}"
                assert container["readinessProbe"]["httpGet"]["port"] == port["containerPort"]
            if command == "load":
                load = settings(words)
                assert (load.flags.job, load.flags.verify) == (document["metadata"]["name"], True)
                page = (ROOT / "docs/load.md").read_text()
                assert f"kubectl get configmaps -n hsdns-load -l {LABEL}={load.flags.job} " in page


def test_a_deployment_of_coredns_can_be_patched() -> None:
    (found,) = documents(DEPLOY / "components/control/patch.yaml")
    assert found["metadata"] == {"name": "coredns", "namespace": "kube-system"}
    (container,) = pod_of(found)["containers"]
    assert container["args"] == ["-conf", "/etc/coredns/Corefile", *CONTROL]


def test_alerts_of_the_audit_use_metrics_and_verdicts_that_there_are() -> None:
    known = {metric.name for metric in Gauges().registry}
    (found,) = documents(DEPLOY / "audit/watch/alerts.yaml")
    for rule in found["spec"]["groups"][0]["rules"]:
        used = set(re.findall(r"hsdns_audit_\w+", rule["expr"]))
        assert used
        assert used <= known
        for words in re.findall(r'verdict[=!~]+"([^"]*)"', rule["expr"]):
            assert set(words.split("|")) <= set(WORDS)


def test_no_other_image_is_pulled_and_none_names_a_registry() -> None:
    """Not even to look: a cluster without a way out has only the image that was loaded, mirrors are set where it is pulled."""
    paths = [each for each in DEPLOY.rglob("*") if each.is_file() and each.suffix != ".pyc"]
    # The compose file in testing.md is for no cluster.
    paths += [each for each in (ROOT / "docs").glob("*.md") if each.name != "testing.md"]
    pulled = re.compile(r"(?:^[ -]*image: *|--image[= ])\"?([\w./:-]+)", re.MULTILINE)
    found = [
        name for path in [*paths, ROOT / "README.md"] for name in pulled.findall(path.read_text())
    ]
    assert found
    assert [name for name in found if not name.startswith("hsdns/hsdns")] == []
    # A dot or a colon before the first slash would be a host.
    for name in re.findall(
        r"(?:PYTHON=|RUST=|FROM) *([\w./:-]+/[\w./:-]+)", (ROOT / "Dockerfile").read_text()
    ):
        assert not re.search(r"[.:]", name.partition("/")[0]), name


# --- rendered ---


@needs_kubectl
@pytest.mark.slow
@pytest.mark.parametrize("folder", RENDERED)
def test_objects_are_whole(folder: str) -> None:
    objects = render(folder)
    assert objects
    for manifest in objects:
        check(manifest)
        pod = pod_of(manifest)
        for container in (
            [] if pod is None else [*pod.get("initContainers", []), *pod["containers"]]
        ):
            assert container["image"] == IMAGE or folder == "overlays/sidecar"
            if CONTROL[1] in container.get("args", []):
                # The folder of the socket is made by hsdns: the volume itself is open to every user of the pod.
                (mount,) = (each for each in container["volumeMounts"] if each["name"] == "run")
                assert Path(CONTROL[1]).parent.parent == Path(mount["mountPath"])
                assert Path(CONTROL[1]).parent == control_path.SYSTEM, "where hsdns looks for it"
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
    wide = {each["metadata"]["name"] for each in objects if each["kind"] in CLUSTER_WIDE}
    assert not wide or folder != "overlays/sidecar", "it needs rights in one namespace only"


@needs_kubectl
@pytest.mark.slow
def test_the_base_uses_the_names_of_kubeadm() -> None:
    objects = render("base")
    assert sorted((each["kind"], each["metadata"]["name"]) for each in objects) == [
        ("ClusterRole", "system:coredns"),
        ("ClusterRoleBinding", "system:coredns"),
        ("ConfigMap", "coredns"),
        ("Deployment", "coredns"),
        ("PodDisruptionBudget", "coredns"),
        ("Service", "kube-dns"),
        ("ServiceAccount", "coredns"),
    ]
    labels = {"k8s-app": "kube-dns"}
    deployment, service = one(objects, "Deployment")["spec"], one(objects, "Service")["spec"]
    assert deployment["selector"]["matchLabels"] == service["selector"] == labels
    (container,) = deployment["template"]["spec"]["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [53, 53, 9153, 8080, 8181]
    assert [(each["port"], each["protocol"]) for each in service["ports"]] == [(53, "UDP"), (53, "TCP"), (9153, "TCP")]  # fmt: skip


@needs_kubectl
@pytest.mark.slow
def test_the_sidecar_serves_only_its_own_pod() -> None:
    objects = render("overlays/sidecar")
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    assert (sidecar["restartPolicy"], pod["dnsPolicy"]) == ("Always", "None")
    assert pod["dnsConfig"]["nameservers"] == ["127.0.0.1"]
    corefile = one(objects, "ConfigMap")["data"]["Corefile"]
    assert corefile.count("bind 127.0.0.1\n") == corefile.count("{\n    bind")
    assert set(re.findall(r"{\$(\w+)}", corefile)) == {each["name"] for each in sidecar["env"]}
    probes = {sidecar[f"{name}Probe"]["httpGet"]["port"] for name in ("readiness", "liveness")}
    assert {int(port) for port in re.findall(r"(?:health|ready) :(\d+)", corefile)} == probes


@needs_kubectl
@pytest.mark.slow
def test_the_node_local_server_has_one_address_everywhere() -> None:
    objects = render("overlays/node-local")
    pod = one(objects, "DaemonSet")["spec"]["template"]["spec"]
    (container,), (creation,) = pod["containers"], pod["initContainers"]
    address = container["readinessProbe"]["httpGet"]["host"]
    assert container["livenessProbe"]["httpGet"]["host"] == address
    flags = parse_flags(creation["args"][1:], interface.Interface.flags())
    assert isinstance(flags["address"], list)
    assert [ip_address(each).version for each in flags["address"]] == [4, 6]
    assert flags["address"][0] == address
    assert not ip_address(flags["address"][1]).is_global
    corefile = one(objects, "ConfigMap")["data"]["Corefile"]
    for line in (f"bind {flags['name']} ", f"health {address}:8080 {{", f"ready {address}:8181\n"):
        assert line in corefile


@needs_kubectl
@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "there is an API server")
def test_an_api_server_accepts_them() -> None:
    """As server-side apply without a change, with all fields known."""
    with RealApi() as api:
        for name in ("shop", "hsdns-load"):
            api.apply({"kind": "Namespace", "metadata": {"name": name}})
        for manifest in [each for folder in RENDERED for each in render(folder)]:
            if manifest["kind"] in ("PrometheusRule", "Namespace"):
                continue  # of the Prometheus operator, or there
            version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
            inside = f"/namespaces/{namespace}" if namespace else ""
            above = "/api" if version == "v1" else "/apis"
            path = f"{above}/{version}{inside}/{manifest['kind'].lower()}s/{manifest['metadata']['name']}"
            query = "fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
            status, found = api.ask("PATCH", f"{path}?{query}", manifest, applies=True)
            assert status in (200, 201), found


# --- the sidecar at work ---

CLUSTER_DNS = """
.:UPSTREAM {
    bind 127.0.0.1
    hosts {
        10.96.0.99 db.shop.svc.cluster.local db.other.svc.cluster.local example.org
    }
}
"""


async def answers(folder: Path, *questions: str) -> list[str]:
    found = yaml.safe_load((DEPLOY / "components/sidecar/configmap.yaml").read_text())
    upstream, port = free_port(), free_port()
    async with FakeApi() as api:
        for name, namespace, address in (
            ("web", "shop", "10.96.0.1"),
            ("db", "other", "10.96.0.2"),
        ):
            api.apply({"kind": "Namespace", "metadata": {"name": namespace}})
            metadata = {"name": name, "namespace": namespace}
            spec = {"clusterIP": address, "ports": [{"port": 80}]}
            api.apply({"kind": "Service", "metadata": metadata, "spec": spec})
        text = found["data"]["Corefile"] + CLUSTER_DNS.replace("UPSTREAM", str(upstream))
        text = text.replace("cluster.local {\n", f"cluster.local {{\nendpoint {api.url}\n")
        text = text.replace(":53 {", f":{port} {{").replace("lameduck 5s", "lameduck 0s")
        for address in (":18080", ":18181", ":19153"):
            text = text.replace(f" {address}", f" 127.0.0.1:{free_port()}")
        (folder / "Corefile").write_text(text)
        environ = {"POD_NAMESPACE": "shop", "CLUSTER_DNS": f"127.0.0.1:{upstream}"}
        server = Server(
            lambda: parse(str(folder / "Corefile"), environ=environ, known_directives=ORDER),
            lambda corefile: assemble(corefile, default_port=53, warn=lambda sentence: None),
        )
        await server.start()
        try:
            with UdpClient() as client:
                asked = [(query(qname).to_wire(), ("127.0.0.1", port)) for qname in questions]
                return [summary((await client.ask(*each))[0]) for each in asked]
        finally:
            await server.close()


@pytest.mark.sockets
def test_what_the_sidecar_answers(tmp_path: Path) -> None:
    """Its own namespace from its watch, all else from the cluster's DNS; of its own it does not ask the other."""
    names = ("web.shop.svc", "db.shop.svc", "db.other.svc")
    questions = [*(f"{name}.cluster.local" for name in names), "example.org"]
    own, none, other, outside = run(answers(tmp_path, *questions))
    assert own == "1 NOERROR qr aa rd | web.shop.svc.cluster.local. 5 IN A 10.96.0.1 |  | "
    assert none.startswith(
        "1 NXDOMAIN qr aa rd |  | cluster.local. 5 IN SOA ns.dns.cluster.local. "
    )
    assert other == "1 NOERROR qr aa rd | db.other.svc.cluster.local. 30 IN A 10.96.0.99 |  | "
    assert outside == "1 NOERROR qr aa rd | example.org. 30 IN A 10.96.0.99 |  | "
