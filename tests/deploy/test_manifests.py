"""What kubectl would apply: each overlay rendered, its fields, its rights, its Corefiles, and that they fit together."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.cli import control_path, interface
from hsdns.cli.flags import parse_flags
from hsdns.corefile.parser import parse
from hsdns.plugins import NOT_YET, ORDER
from tests.support.apiserver.real_api import RealApi, missing_assets
from tests.support.manifests.object_schema import CLUSTER_WIDE, check
from tests.support.plugins.corefiles import KUBEADM

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RENDERED = ("base", "overlays/sidecar", "overlays/node-local", "alerts")
FILES = sorted(
    path for path in DEPLOY.rglob("*.yaml") if not {"helm", "k9s"}.intersection(path.parts)
)
CONTROL = ["-control", "/run/hsdns/control.sock"]
IMAGE = f"hsdns/hsdns:{__version__}"
# What kubeadm's ClusterRole system:coredns allows.
STOCK_RIGHTS = {
    ("", resource, verb)
    for resource in ("endpoints", "services", "pods", "namespaces")
    for verb in ("list", "watch")
} | {("discovery.k8s.io", "endpointslices", verb) for verb in ("list", "watch")}

needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None,
    reason="kubectl, which renders kustomizations, is not installed",
)


@cache
def render(folder: str) -> list[dict[str, Any]]:
    """The objects of a kustomization."""
    found = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (found.returncode, found.stderr) == (0, "")
    return list(yaml.safe_load_all(found.stdout))


def one(objects: list[dict[str, Any]], kind: str) -> Any:
    """The only object of a kind."""
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def pod_spec(objects: list[dict[str, Any]], kind: str) -> Any:
    return one(objects, kind)["spec"]["template"]["spec"]


def documents(path: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all(path.read_text())


# --- without kubectl ---


def test_every_file_belongs_to_a_kustomization() -> None:
    for path in FILES:
        if path.name == "kustomization.yaml" or path.parent.name == "kind":
            continue
        (listed,) = documents(path.with_name("kustomization.yaml"))
        named = listed.get("resources", []) + [each["path"] for each in listed.get("patches", [])]
        assert path.name in named


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(DEPLOY).as_posix())
def test_kustomizations_name_existing_files(path: Path) -> None:
    for document in documents(path):
        assert document["kind"]
        if path.name == "kustomization.yaml":
            for name in [*document.get("resources", []), *document.get("components", [])]:
                assert (path.parent / name).exists()
            for image in document.get("images", []):
                assert f"{image['name']}:{image['newTag']}" == IMAGE


def test_the_base_has_the_corefile_of_kubeadm() -> None:
    (found,) = documents(DEPLOY / "base/configmap.yaml")
    assert found["data"] == {"Corefile": KUBEADM}


def test_the_kind_overlay_changes_only_the_image() -> None:
    (found,) = documents(DEPLOY / "overlays/kind/deployment.yaml")
    assert found == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "coredns",
                            "image": "hsdns/hsdns",
                            "imagePullPolicy": "IfNotPresent",
                        }
                    ]
                }
            }
        },
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(DEPLOY).as_posix())
def test_rights_are_those_of_coredns_and_no_others(path: Path) -> None:
    if "doctor" in path.parts:
        return  # for people; tests/sources/test_cluster_dump.py and tests/cli/test_doctor_pod.py have what they need
    for document in documents(path):
        rights = {
            (group, resource, verb)
            for rule in document.get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert rights <= STOCK_RIGHTS
        if document["kind"] == "ClusterRole":
            assert rights == STOCK_RIGHTS


@pytest.mark.parametrize("folder", ["base", "components/sidecar", "overlays/node-local"])
def test_corefiles_are_valid(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = documents(DEPLOY / folder / "configmap.yaml")
    warnings: list[str] = []
    corefile = parse(
        "Corefile",
        text=found["data"]["Corefile"],
        environ={"POD_NAMESPACE": "shop", "CLUSTER_DNS": "10.96.0.10"},
        known_directives=ORDER,
        not_yet=NOT_YET,
    )
    there = {"hsdns": ["169.254.20.10", "fd68:7364:6e73::53"]}
    configuration = assemble(
        corefile, default_port=53, interfaces=lambda: there, warn=warnings.append
    )
    assert warnings == []
    if folder == "overlays/node-local":
        assert [each.listen.host for each in configuration.listeners] == there["hsdns"]


def test_no_image_names_a_registry() -> None:
    """A dot or a colon before the first slash would be a host; mirrors are set where the image is pulled."""
    for path in [
        *FILES,
        *DEPLOY.glob("kind/*"),
        ROOT / "Dockerfile",
        DEPLOY / "helm/hsdns/values.yaml",
    ]:
        for name in re.findall(
            r"(?:image:|PYTHON=|RUST=|FROM) *\"?([\w./:-]+/[\w./:-]+)", path.read_text()
        ):
            assert not re.search(r"[.:]", name.partition("/")[0]), path


def test_no_other_image_is_pulled() -> None:
    """Not even to look: a cluster without a way out has only the image that was loaded."""
    paths = [
        *(each for each in DEPLOY.rglob("*") if each.is_file() and each.suffix != ".pyc"),
        # The compose file in testing.md is for no cluster.
        *(each for each in (ROOT / "docs").glob("*.md") if each.name != "testing.md"),
        ROOT / "README.md",
    ]
    pulled = re.compile(r"(?:^[ -]*image: *|--image[= ])\"?([\w./:-]+)", re.MULTILINE)
    found = [
        (path.relative_to(ROOT).as_posix(), name)
        for path in paths
        for name in pulled.findall(path.read_text())
    ]
    assert found
    assert [each for each in found if not each[1].startswith("hsdns/hsdns")] == []


# --- rendered ---


@needs_kubectl
@pytest.mark.parametrize("folder", RENDERED)
def test_objects_have_only_known_fields(folder: str) -> None:
    objects = render(folder)
    assert objects
    for manifest in objects:
        check(manifest)


@needs_kubectl
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
    assert {
        each["metadata"]["namespace"] for each in objects if each["kind"] not in CLUSTER_WIDE
    } == {"kube-system"}
    labels = {"k8s-app": "kube-dns"}
    deployment = one(objects, "Deployment")["spec"]
    assert deployment["selector"]["matchLabels"] == labels
    assert one(objects, "Service")["spec"]["selector"] == labels
    assert one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["name"], container["image"]) == ("coredns", IMAGE)
    assert container["args"] == ["-conf", "/etc/coredns/Corefile", *CONTROL]
    assert [port["containerPort"] for port in container["ports"]] == [53, 53, 9153, 8080, 8181]
    assert pod["dnsPolicy"] == "Default"
    assert [(p["port"], p["protocol"]) for p in one(objects, "Service")["spec"]["ports"]] == [
        (53, "UDP"),
        (53, "TCP"),
        (9153, "TCP"),
    ]


@needs_kubectl
@pytest.mark.parametrize(
    ("folder", "kind"), [("base", "Deployment"), ("overlays/node-local", "DaemonSet")]
)
def test_the_control_door_has_a_folder_of_the_pods_own(folder: str, kind: str) -> None:
    pod = pod_spec(render(folder), kind)
    (container,) = pod["containers"]
    assert container["args"][-2:] == CONTROL
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "run")
    # The folder of the socket is made by hsdns: the volume itself is open to every user of the pod.
    assert Path(CONTROL[1]).parent.parent == Path(mount["mountPath"])
    assert Path(CONTROL[1]).parent == control_path.SYSTEM, "where hsdns looks for it"
    (volume,) = (each for each in pod["volumes"] if each["name"] == "run")
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}


def test_a_deployment_of_coredns_can_be_patched() -> None:
    (found,) = documents(DEPLOY / "components/control/patch.yaml")
    assert found["metadata"] == {"name": "coredns", "namespace": "kube-system"}
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["-conf", "/etc/coredns/Corefile", *CONTROL]


@needs_kubectl
def test_the_sidecar_serves_only_its_own_pod() -> None:
    objects = render("overlays/sidecar")
    pod = pod_spec(objects, "Deployment")
    (sidecar,) = pod["initContainers"]
    assert (sidecar["image"], sidecar["restartPolicy"]) == (IMAGE, "Always")
    assert sidecar["startupProbe"]["httpGet"]["path"] == "/ready"
    assert pod["dnsPolicy"] == "None"
    assert pod["dnsConfig"]["nameservers"] == ["127.0.0.1"]
    assert pod["dnsConfig"]["searches"][0] == "shop.svc.cluster.local"
    assert [each["name"] for each in pod["containers"]] == ["web"]
    corefile = one(objects, "ConfigMap")["data"]["Corefile"]
    assert "/etc/resolv.conf" not in corefile
    assert corefile.count("bind 127.0.0.1\n") == corefile.count("{\n    bind")
    given = {variable["name"] for variable in sidecar["env"]}
    assert set(re.findall(r"{\$(\w+)}", corefile)) == given
    probes = {sidecar[f"{name}Probe"]["httpGet"]["port"] for name in ("readiness", "liveness")}
    assert {int(port) for port in re.findall(r"(?:health|ready) :(\d+)", corefile)} == probes


@needs_kubectl
def test_the_sidecar_needs_rights_in_one_namespace_only() -> None:
    objects = render("overlays/sidecar")
    assert not [each for each in objects if each["kind"] in CLUSTER_WIDE]
    assert {each["metadata"]["namespace"] for each in objects} == {"shop"}
    role = one(objects, "Role")
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {
        "services",
        "endpointslices",
    }
    assert one(objects, "RoleBinding")["subjects"] == [
        {"kind": "ServiceAccount", "name": "default", "namespace": "shop"}
    ]


@needs_kubectl
def test_the_node_local_server_has_one_address_everywhere() -> None:
    objects = render("overlays/node-local")
    pod = pod_spec(objects, "DaemonSet")
    (container,) = pod["containers"]
    assert pod["hostNetwork"]
    assert (container["image"], pod["dnsPolicy"]) == (IMAGE, "Default")
    address = container["readinessProbe"]["httpGet"]["host"]
    assert container["livenessProbe"]["httpGet"]["host"] == address
    (creation,) = pod["initContainers"]
    assert creation["image"] == IMAGE
    command, *words = creation["args"]
    assert command == "interface"
    flags = parse_flags(words, interface.Interface.flags())
    # One of each family, whatever those of the cluster are.
    assert isinstance(flags["address"], list)
    assert [ip_address(each).version for each in flags["address"]] == [4, 6]
    assert flags["address"][0] == address
    assert not ip_address(flags["address"][1]).is_global
    corefile = one(objects, "ConfigMap")["data"]["Corefile"]
    listening = f"bind {flags['name']} "
    for line in (listening, f"health {address}:8080 {{", f"ready {address}:8181\n"):
        assert line in corefile


# --- by an API server ---


def collection(manifest: dict[str, Any]) -> str:
    """Where an object is made."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    namespace = manifest["metadata"].get("namespace")
    inside = f"/namespaces/{namespace}" if namespace else ""
    above = "/api" if version == "v1" else "/apis"
    return f"{above}/{version}{inside}/{kind.lower()}s"


@needs_kubectl
@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "there is an API server")
def test_an_api_server_accepts_them() -> None:
    with RealApi() as api:
        for name in ("shop",):
            api.apply({"kind": "Namespace", "metadata": {"name": name}})
        for folder in ("base", "overlays/sidecar", "overlays/node-local"):
            for manifest in render(folder):
                status, found = api.ask(
                    "POST", f"{collection(manifest)}?dryRun=All&fieldValidation=Strict", manifest
                )
                assert status == 201 or found["reason"] == "AlreadyExists", found
