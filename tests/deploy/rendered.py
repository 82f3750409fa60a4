"""The objects that kubectl and helm make of files in deploy/, and the pods in them."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm/hsdns"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl, which renders kustomizations, is not installed")  # fmt: skip
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="helm, which renders the chart, is not installed")  # fmt: skip


@cache
def printed(*command: str) -> str:
    """What a program prints; fails the test with its error."""
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert found.returncode == 0, found.stderr
    return found.stdout


def _objects(text: str, texts: bool) -> list[dict[str, Any]]:
    loader = yaml.BaseLoader if texts else yaml.SafeLoader
    return [each for each in yaml.load_all(text, loader) if each]


def kustomize(folder: str, *, texts: bool = False) -> list[dict[str, Any]]:
    """The objects of a kustomization; with `texts` all values are that."""
    return _objects(printed("kubectl", "kustomize", str((DEPLOY / folder).resolve())), texts)


def helm(values: str = "", *words: str, texts: bool = False) -> list[dict[str, Any]]:
    """The objects of a release "hsdns" in kube-system; `values` is a file."""
    # A helm that was built without flags takes the cluster to be of 1.20.
    where = ("--namespace", "kube-system", "--kube-version", "1.33.0")
    more = ("-f", values) if values else ()
    return _objects(printed("helm", "template", "hsdns", str(CHART), *where, *more, *words), texts)


def pod_of(found: dict[str, Any]) -> Any:
    """The pod that an object makes, and its containers; None if it makes none."""
    spec = found.get("spec", {})
    spec = spec["jobTemplate"]["spec"] if found["kind"] == "CronJob" else spec
    pod = spec.get("template", {}).get("spec", {})
    return pod if "containers" in pod else None


def containers_of(found: dict[str, Any]) -> list[Any]:
    """The containers of the pod that an object makes."""
    pod = pod_of(found)
    return [] if pod is None else [*pod.get("initContainers", []), *pod["containers"]]
