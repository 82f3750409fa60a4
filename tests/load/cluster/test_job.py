"""The Job of loadtest/kubernetes under a real API server and its Job controller; its pods are processes here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from hsdns.load.cluster.job import INDEX, reports_of
from hsdns.load.generators.merge import merge
from hsdns.load.report import read_report
from tests.deploy.rendered import kustomize, needs_kubectl
from tests.load.servers import server
from tests.support.apiserver.real_api import RealApi
from tests.support.apiserver.real_controllers import RealControllers, missing_program

JOB = "../loadtest/kubernetes"
NAMESPACE = "hsdns-load"
SPACE = f"/api/v1/namespaces/{NAMESPACE}"
# As in a pod, where the folder of the service account has another name.
RUN = (
    "import sys; from hsdns.apiserver import access; access.SERVICE_ACCOUNT = sys.argv.pop(1); "
    "access.InCluster.__init__.__defaults__ = (access.SERVICE_ACCOUNT,); "
    "from hsdns.cli import main; sys.exit(main(sys.argv[1:]))"
)
COREFILE = "cluster.local {\n    kubernetes cluster.local\n}\n"


class Pods:
    """A kubelet for the pods of the Job, whose generators ask a server on loopback; a context manager."""

    def __init__(self, api: RealApi, folder: Path, port: int) -> None:
        self._api, self._folder = api, folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._own = ("-server=127.0.0.1", f"-p={port}", f"-conf={folder}/Corefile", "-rate=400", "-time=1s")  # fmt: skip
        token = api._must("POST", f"{SPACE}/serviceaccounts/load/token", {"spec": {}})
        (folder / "token").write_text(token["status"]["token"])
        (folder / "ca.crt").write_bytes(api.authority)
        (folder / "namespace").write_text(NAMESPACE)
        (folder / "Corefile").write_text(COREFILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._running.values():
            each.kill()
            each.wait()

    def live(self, *more: str) -> list[str]:
        """Run the Job until `kubectl wait` ends, the pod of index 2 with more words; what its pods have said at last."""
        kubectl = ("kubectl", f"--kubeconfig={self._api.folder}/kubeconfig", "-n", NAMESPACE)
        until = ("wait", "--for=jsonpath={.status.conditions}", "--timeout=1s", "job/load")
        before = set(self._running)
        while subprocess.run((*kubectl, *until), check=False, capture_output=True).returncode:
            for pod in self._api._must("GET", f"{SPACE}/pods")["items"]:
                name = pod["metadata"]["name"]
                if name not in self._running:
                    self._start(pod, name, more)
                elif (status := self._running[name].poll()) is not None and name not in before:
                    ended = {"exitCode": status, "reason": "Error", "message": self._said(name)}
                    self._put(name, "Failed" if status else "Succeeded", {"terminated": ended})
        for name in self._running:
            self._running[name].wait()
        return [self._said(name) for name in self._running if name not in before]

    def _said(self, name: str) -> str:
        return (self._folder / name).read_text().splitlines()[-1]

    def _start(self, pod: dict[str, Any], name: str, more: Sequence[str]) -> None:
        (container,) = pod["spec"]["containers"]
        index = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        words = [each for each in container["args"] if not each.startswith("-server=")]
        place = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": f"{self._api.port}"}  # fmt: skip
        with (self._folder / name).open("wb") as file:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-c", RUN, str(self._folder), *words, *self._own, *(more if index == "2" else ())],
                env={**os.environ, **place, INDEX: index, "PYTHONPATH": os.getcwd()},
                stdout=subprocess.DEVNULL, stderr=file,
            )  # fmt: skip
        self._put(name, "Running", {"running": {}})

    def _put(self, name: str, phase: str, state: dict[str, Any]) -> None:
        status = {"name": "load", "ready": False, "restartCount": 0, "image": "x", "imageID": "x", "state": state}  # fmt: skip
        self._api._must("PATCH", f"{SPACE}/pods/{name}/status", {"status": {"phase": phase, "containerStatuses": [status]}})  # fmt: skip


@pytest.mark.night
@needs_kubectl
@pytest.mark.skipif(bool(missing_program()), reason=missing_program())
def test_the_job(tmp_path: Path) -> None:
    """A pod with another plan ends it, with the sentence in all; then a Job of the same name succeeds."""
    with RealControllers() as controllers, server() as port:
        api = controllers.api
        manifests = {each["kind"]: each for each in kustomize(JOB)}
        for each in manifests.values():
            space = each["metadata"].get("namespace")
            where = f"/namespaces/{space}" if space else ""
            group = "/api/v1" if each["apiVersion"] == "v1" else f"/apis/{each['apiVersion']}"
            api._must("POST", f"{group}{where}/{each['kind'].lower()}s", each)
        with Pods(api, tmp_path, port) as pods:
            said, jobs = pods.live("-seed=7"), f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
            assert len(said) == 4
            (sentence,) = set(said)
            assert re.fullmatch(r"part ./4 has another plan than part ./4: seed ., not .; give all generators the same flags and files", sentence)  # fmt: skip
            failed = api._must("GET", f"{jobs}/load")["status"]["conditions"][0]
            assert (failed["type"], failed["reason"]) == ("FailureTarget", "PodFailurePolicy")
            api._must("DELETE", f"{jobs}/load", {"propagationPolicy": "Background"})
            api._must("DELETE", f"{SPACE}/pods", {"gracePeriodSeconds": 0})
            api._must("POST", jobs, manifests["Job"])
            assert len(pods.live()) == 4
        maps = json.dumps(api._must("GET", f"{SPACE}/configmaps")).encode()
    reports = [(name, read_report(octets, name)) for name, octets in reports_of(maps, "-")]
    found = merge(reports)
    assert {each.started for _, each in reports} == {found.started}
    assert (found.generators, found.servers[0].counts.due, found.servers[0].ended) == (4, 400, "")
