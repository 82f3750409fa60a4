"""What `hsdns doctor` costs in a large cluster: seconds until its last line, CPU time and memory.

    python -m loadtest.doctor [--objects N] [--turns N] [--hsdns COMMAND]...

Path: a process with the lists of a made-up cluster, in pages -> `hsdns doctor -kubeconfig`, command by command in turns
-> a table on standard output.
Rule 1: an application is a Service, its EndpointSlice, a Deployment with two ReplicaSets, and three Pods, each with
        what controllers and kubelets write, so that sizes are realistic; one of a hundred selects no Pod.
Rule 2: no DNS server is asked: its answers cost the same in a small cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import Event, Process
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from aiohttp import web

from loadtest.apiserver.objects import SERVICES_PER_NAMESPACE, namespace_of
from loadtest.bench import markdown
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, run_benchmark

OBJECTS: Final = 20_000
TURNS: Final = 5
PODS: Final = 3  # of an application
OF_ONE: Final = 5 + PODS  # objects of an application
_TIME: Final = "2026-01-01T00:00:00Z"
_IMAGE: Final = "registry.example.org/team/web:1.27.3@sha256:" + "0" * 64

Manifest = dict[str, Any]


def metadata(name: str, namespace: str, labels: Mapping[str, str], **more: Any) -> Manifest:
    """Metadata as an API server stores it."""
    fields = {
        f"f:{each}": {"f:type": dict[str, Any](), "f:status": {}} for each in "abcdefghijklmnop"
    }
    managed = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": _TIME,
    }
    return {
        "name": name, "namespace": namespace, "uid": f"{abs(hash((name, namespace))):032x}", "resourceVersion": "1",
        "creationTimestamp": _TIME, "labels": dict(labels), "generation": 1,
        "managedFields": [{**managed, "fieldsV1": {"f:status": {each: fields}}} for each in ("f:spec", "f:metadata")],
        **more,
    }  # fmt: skip


def application(index: int) -> Iterator[tuple[str, Manifest]]:
    """The objects of an application by the plural of their kind."""
    name, namespace = f"web-{index}", namespace_of(index)
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": f"team-{index}",
        "app": name,
    }
    selector = labels if index % 100 else {**labels, "app": f"wbe-{index}"}
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]
    spec = {
        "clusterIP": f"10.96.{index // 256}.{index % 256}",
        "selector": selector,
        "ports": ports,
    }
    yield (
        "services",
        {"metadata": metadata(name, namespace, labels), "spec": {"type": "ClusterIP", **spec}},
    )
    pods = [f"{name}-5d9c-{number}" for number in range(PODS)]
    yield "endpointslices", {
        "metadata": metadata(f"{name}-x", namespace, {"kubernetes.io/service-name": name}),
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [_address(index, number)],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": "node-1",
                "targetRef": {"kind": "Pod", "name": pod, "namespace": namespace},
            }
            for number, pod in enumerate(pods if index % 100 else ())
        ],
    }  # fmt: skip
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    of_pods = {"replicas": PODS, "selector": {"matchLabels": labels}, "template": template}
    yield "deployments", {"metadata": metadata(name, namespace, labels), "spec": of_pods}
    own = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": name,
            "uid": "1",
            "controller": True,
        }
    ]
    for revision, replicas in (("5d9c", PODS), ("4c8b", 0)):
        made = metadata(f"{name}-{revision}", namespace, labels, ownerReferences=own)
        yield "replicasets", {"metadata": made, "spec": {**of_pods, "replicas": replicas}}
    own = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{name}-5d9c",
            "uid": "2",
            "controller": True,
        }
    ]
    for number, pod in enumerate(pods):
        made = metadata(
            pod, namespace, {**labels, "pod-template-hash": "5d9c"}, ownerReferences=own
        )
        yield (
            "pods",
            {"metadata": made, "spec": pod_spec(), "status": pod_status(_address(index, number))},
        )


def pod_spec() -> Manifest:
    """The spec of a Pod, as an API server completes it."""
    probe = {
        "httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
    }
    mount = {
        "name": "kube-api-access",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    container = {
        "name": "web", "image": _IMAGE, "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(20)],
        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}}, "volumeMounts": [mount],
        "readinessProbe": probe, "livenessProbe": probe, "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip
    return {
        "containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "nodeName": "node-1",
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [{}, {}, {}]}}],
        "tolerations": [{"key": f"node.kubernetes.io/{each}", "operator": "Exists"} for each in ("not-ready", "lost")],
    }  # fmt: skip


def pod_status(address: str) -> Manifest:
    """The status of a Pod that runs and is ready."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "192.0.2.1", "startTime": _TIME,
        "conditions": [{"type": each, "status": "True", "lastTransitionTime": _TIME} for each in kinds],
        "containerStatuses": [
            {"name": "web", "ready": True, "restartCount": 0, "image": _IMAGE, "imageID": _IMAGE,
             "state": {"running": {"startedAt": _TIME}}, "lastState": {}}
        ],
    }  # fmt: skip


def _address(index: int, number: int) -> str:
    rest = index * PODS + number
    return f"10.{rest >> 16}.{rest >> 8 & 255}.{rest & 255}"


def lists(objects: int) -> dict[str, list[bytes]]:
    """The objects in JSON, by the plural of their kind."""
    found: dict[str, list[bytes]] = {}
    for index in range(objects // OF_ONE):
        for plural, manifest in application(index):
            found.setdefault(plural, []).append(json.dumps(manifest).encode())
        if index % SERVICES_PER_NAMESPACE == 0:
            space = {"metadata": {"name": namespace_of(index)}}
            found.setdefault("namespaces", []).append(json.dumps(space).encode())
    return found


def serve(port: int, objects: int, is_ready: Any) -> None:
    """Serve the lists in pages, until the process is ended."""
    found = lists(objects)

    async def answer(request: web.Request) -> web.Response:
        limit, at = int(request.query.get("limit", "0")), int(request.query.get("continue", "0"))
        is_some = "fieldSelector" in request.query or "labelSelector" in request.query
        listed = [] if is_some else found.get(request.path.rpartition("/")[2], [])
        end = at + limit if limit else len(listed)
        rest = b'"continue":"%d"' % end if end < len(listed) else b""
        body = b'{"kind":"List","metadata":{%b},"items":[%b]}' % (rest, b",".join(listed[at:end]))
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.add_routes([web.get("/{path:.*}", answer)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        is_ready.set()
        await asyncio.Event().wait()

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(run())


class Cost(NamedTuple):
    """What a run cost: seconds, CPU seconds, and octets of memory at most; and its last line."""

    seconds: float
    cpu: float
    memory: int
    said: str


def run(command: Sequence[str], folder: Path) -> Cost:
    """Run the doctor; raise BenchmarkError if it cannot read the cluster."""
    words = [*command, "doctor", "-kubeconfig", "config", "-no-ask"]
    began = time.perf_counter()
    with (folder / "out").open("wb") as out:
        pid = os.posix_spawnp(
            words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), each) for each in (1, 2)]
        )  # fmt: skip
        _, status, used = os.wait4(pid, 0)
    seconds, text = time.perf_counter() - began, (folder / "out").read_text()
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise BenchmarkError(f"{' '.join(words)} failed:\n{text}")
    return Cost(
        seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, text.splitlines()[-1]
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure the commands in turns, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.doctor")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--hsdns", action="append", help="command to measure; several are compared")
    given = parser.parse_args(words)
    commands = given.hsdns or [f"{sys.executable} -m hsdns"]
    port, is_ready = free_port(), Event()
    api = Process(target=serve, args=(port, given.objects, is_ready), daemon=True)
    api.start()
    try:
        is_ready.wait(60)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.chdir(folder)
            cluster = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}
            context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
            config = {
                "clusters": [cluster],
                "contexts": [context],
                "users": [{"name": "a", "user": {}}],
            }
            (folder / "config").write_text(json.dumps({**config, "current-context": "a"}))
            costs = [
                [run(shlex.split(each), folder) for each in commands] for _ in range(given.turns)
            ]
    finally:
        api.terminate()
        api.join()
    rows = [["command", "seconds", "CPU seconds", "memory, MB"]]
    for command, each in zip(commands, zip(*costs, strict=True), strict=True):
        seconds, cpu, memory, _ = zip(*each, strict=True)
        figures = (median(seconds), median(cpu), median(memory) / 1e6)
        rows.append([command, *(f"{figure:.1f}" for figure in figures)])
    print(markdown(rows, (0,), padded=True), end="")
    for each in costs[0]:
        print(each.said)
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark("python -m loadtest.doctor", main))
