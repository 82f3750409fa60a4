"""A real kube-controller-manager beside a real API server, and a stand-in for the scheduler and the kubelets.

Path: tests/sources/test_same_as_controllers.py -> here -> RealApi, and the program in KUBEBUILDER_ASSETS.
Rule 1: each situation has its own namespaces and nodes, so all run at the same time.
Rule 2: the stand-in binds each pod and reports it running and ready, unless its manifest has a status, its annotations
        or readiness gates say otherwise, or it is being deleted.
Rule 3: what the API server needs and nothing else reads is added to the manifests: containers, selectors, ports.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, Self

from loadtest.process import Process
from tests.support.apiserver.real_api import ASSETS, RealApi

PROGRAM: Final = "kube-controller-manager"
CONTROLLERS: Final = (
    "endpointslice endpointslice-mirroring statefulset deployment replicaset daemonset job"
)
WORKLOADS: Final = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job")
PLURALS: Final = {
    "Namespace": ("/api/v1", "namespaces"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "Endpoints": ("/api/v1", "endpoints"),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices"),
    **{
        kind: (f"/apis/{'batch' if kind == 'Job' else 'apps'}/v1", f"{kind.lower()}s")
        for kind in WORKLOADS
    },
}
SITUATION: Final = "situation"  # the label of nodes
_QUIET: Final = 6  # rounds without a change
_ROUND: Final = 1.0  # seconds
_DEADLINE: Final = 120.0  # seconds
Manifest = dict[str, Any]


def missing_program() -> str:
    """Return why there is no controller manager for tests; "" if there is one."""
    folder = os.environ.get(ASSETS, "")
    is_there = folder and Path(folder, PROGRAM).is_file()
    return "" if is_there else f"{ASSETS} names no folder with {PROGRAM}"


def completed(manifest: Manifest) -> Manifest:
    """A manifest with what only the API server needs."""
    made, kind = deepcopy(manifest), manifest["kind"]
    if kind == "Pod":
        _complete_pod(made.setdefault("spec", {}))
    elif kind in WORKLOADS:
        spec = made["spec"]
        template = spec.setdefault("template", {})
        _complete_pod(template.setdefault("spec", {}))
        labels = template.setdefault("metadata", {}).setdefault("labels", {"app": "x"})
        if kind == "Job":
            template["spec"].setdefault("restartPolicy", "Never")
        else:
            spec.setdefault("selector", {"matchLabels": labels})
    elif kind == "Service":
        spec = made.setdefault("spec", {})
        if spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
            spec.setdefault("ports", [{"port": 80}])
    return made


def _complete_pod(spec: Manifest) -> None:
    containers = spec.setdefault("containers", [{"name": "main"}])
    for number, each in enumerate([*containers, *spec.get("initContainers", ())]):
        each.setdefault("name", f"c{number}")
        each.setdefault("image", "registry.example.org/main:1")


class RealControllers:
    """The API server with controllers; a context manager."""

    def __init__(self) -> None:
        self.api = RealApi(service_networks="10.96.0.0/16,fd00:10:96::/112")
        self._given: dict[tuple[str, str], Manifest] = {}  # Pods of manifests
        self._nodes: dict[str, list[Manifest]] = {}
        self._placed: Counter[str] = Counter()
        self._addresses = 0
        self.refused: list[str] = []
        self._deleted: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        self.api.__enter__()
        folder = self.api.folder
        words = (
            os.path.join(os.environ[ASSETS], PROGRAM), f"--kubeconfig={folder / 'kubeconfig'}", "--leader-elect=false",
            "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
            f"--controllers={','.join(f'{each}-controller' for each in CONTROLLERS.split())}",
        )  # fmt: skip
        self._process = Process(PROGRAM, words, folder)
        return self

    def __exit__(self, *error: object) -> None:
        self._process.end()
        self.api.__exit__(None, None, None)

    def slices(self, situations: Mapping[str, Sequence[Manifest]]) -> dict[str, list[Manifest]]:
        """The EndpointSlices of each situation, once nothing changes any more."""
        for number, manifests in enumerate(situations.values()):
            self._apply(f"s{number}-", manifests)
        assert self.refused == []
        quiet, before, deadline = 0, "", time.monotonic() + _DEADLINE
        while quiet < _QUIET and time.monotonic() < deadline:
            self._process_is_there()
            changes = sum(map(self._tend, self._listed("Pod")))
            found = self._listed("EndpointSlice")
            now = str(sorted(each["metadata"]["resourceVersion"] for each in found))
            quiet = quiet + 1 if not changes and now == before else 0
            before = now
            time.sleep(_ROUND)
        of: dict[str, list[Manifest]] = {name: [] for name in situations}
        names = list(situations)
        for each in self._listed("EndpointSlice"):
            prefix, dash, rest = each["metadata"]["namespace"].partition("-")
            if dash and prefix[1:].isdigit():
                each["metadata"]["namespace"] = rest
                of[names[int(prefix[1:])]].append(each)
        return of

    def _process_is_there(self) -> None:
        assert self._process.is_running, self._process.printed()

    def _listed(self, kind: str) -> list[Manifest]:
        group, plural = PLURALS[kind]
        found: list[Manifest] = self.api._must("GET", f"{group}/{plural}")["items"]
        return found

    def _apply(self, prefix: str, manifests: Sequence[Manifest]) -> None:
        known = [deepcopy(each) for each in manifests if each["kind"] in PLURALS]
        spaces = {each["metadata"].get("namespace", "default") for each in known if each["kind"] != "Node"}  # fmt: skip
        for space in sorted(spaces):
            metadata = {"name": prefix + space}
            self._create("", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        own = {each["metadata"]["name"]: each for each in known if each["kind"] == "Node"}
        pods = [each for each in known if each["kind"] == "Pod"]
        for name in {each["spec"].get("nodeName") for each in pods} - {None} - own.keys():
            own[name] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        if not own:
            own["node"] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}
        self._nodes[prefix] = list(own.values())
        for each in own.values():
            each["metadata"]["name"] = prefix + each["metadata"]["name"]
            each["metadata"].setdefault("labels", {})[SITUATION] = prefix.strip("-")
            self._create("", each)
            path = f"/api/v1/nodes/{each['metadata']['name']}"
            self.api._must("PATCH", path, {"spec": {"taints": None}})
            self.api._must("PATCH", f"{path}/status", {"status": each.get("status", {})})
        for each in sorted(known, key=lambda each: each["kind"] in WORKLOADS):
            if each["kind"] not in ("Node", "Namespace"):
                self._create(prefix, _for_server(each, prefix))
            if each["kind"] == "Pod":
                space = prefix + each["metadata"].get("namespace", "default")
                self._given[space, each["metadata"]["name"]] = each

    def _create(self, prefix: str, manifest: Manifest) -> None:
        group, plural = PLURALS[manifest["kind"]]
        path = f"{group}/{plural}"
        if manifest["kind"] not in ("Node", "Namespace"):
            space = prefix + manifest["metadata"].get("namespace", "default")
            manifest["metadata"]["namespace"] = space
            path = f"{group}/namespaces/{space}/{plural}"
        status, found = self.api.ask("POST", path, manifest)
        if status >= 400:
            self.refused.append(f"{path}: {found}")

    def _tend(self, pod: Manifest) -> int:
        """Do for a pod what a scheduler and a kubelet would do next; return whether something was to be done."""
        space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        path, given = f"/api/v1/namespaces/{space}/pods/{name}", self._given.get((space, name), {})
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": self._node_for(pod)}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
            self.api._must("POST", f"{path}/binding", {**binding, "target": target})
            return 1
        if "podIP" not in pod["status"] and (space, name) not in self._deleted:
            status = given.get("status") or self._status(pod)
            self.api._must("PATCH", f"{path}/status", {"status": status})
            self._deleted.add((space, name))
            if "deletionTimestamp" in given.get("metadata", {}):
                self.api._must("DELETE", path, {"gracePeriodSeconds": 3600})
            return 1
        return 0

    def _node_for(self, pod: Manifest) -> str:
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity")
        if affinity:  # of a DaemonSet
            (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]  # fmt: skip
            return str(term["matchFields"][0]["values"][0])
        nodes = self._nodes[pod["metadata"]["namespace"].partition("-")[0] + "-"]
        owner: Manifest = next(iter(pod["metadata"].get("ownerReferences", ())), {})
        _, _, ordinal = pod["metadata"]["name"].rpartition("-")
        key = owner.get("uid", "")
        at = int(ordinal) if owner.get("kind") == "StatefulSet" else self._placed[key]
        self._placed[key] += 1
        return str(nodes[at % len(nodes)]["metadata"]["name"])

    def _status(self, pod: Manifest) -> Manifest:
        """The status of a pod that runs, and is ready unless that is said of it."""
        self._addresses += 1
        low = f"{self._addresses >> 8}.{self._addresses & 255}"
        addresses = [f"10.244.{low}", f"fd00:10:244::{self._addresses:x}"]
        if pod["spec"].get("hostNetwork"):
            prefix = pod["metadata"]["namespace"].partition("-")[0] + "-"
            for node in self._nodes[prefix]:
                if node["metadata"]["name"] == pod["spec"]["nodeName"]:
                    found = node.get("status", {}).get("addresses", ())
                    addresses = [each["address"] for each in found if each["type"] == "InternalIP"] or addresses  # fmt: skip
        annotations = pod["metadata"].get("annotations", {})
        is_ready = annotations.get("hsdns.io/ready") != "false"
        ordinals = annotations.get("hsdns.io/not-ready", "").split(",")
        is_ready = is_ready and pod["metadata"]["name"].rpartition("-")[2] not in ordinals
        is_ready = is_ready and not pod["spec"].get("readinessGates")
        return {
            "phase": "Running",
            "podIP": addresses[0],
            "podIPs": [{"ip": each} for each in addresses],
            "conditions": [{"type": "Ready", "status": str(is_ready)}],
        }


def _for_server(manifest: Manifest, prefix: str) -> Manifest:
    """A manifest for a cluster with other situations: without fixed addresses, and on its own nodes."""
    made, kind = deepcopy(manifest), manifest["kind"]
    spec = made.get("spec", {})
    for each in ("uid", "resourceVersion", "deletionTimestamp"):
        made["metadata"].pop(each, None)
    if kind == "Service" and spec.get("clusterIP") not in (None, "None"):
        given = spec.pop("clusterIPs", None) or [spec["clusterIP"]]
        del spec["clusterIP"]
        spec["ipFamilies"] = ["IPv6" if ":" in each else "IPv4" for each in given]
    if kind == "Pod" and "nodeName" in spec:
        spec["nodeName"] = prefix + spec["nodeName"]
    if kind == "DaemonSet":
        spec["template"]["spec"]["nodeSelector"] = {SITUATION: prefix.strip("-")}
    return made
