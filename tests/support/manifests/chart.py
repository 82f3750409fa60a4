"""The chart in deploy/helm, rendered by helm.

Path: tests/deploy -> render() -> helm template.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

CHART: Final = Path(__file__).resolve().parents[3] / "deploy/helm/hsdns"

needs_helm = pytest.mark.skipif(
    shutil.which("helm") is None, reason="helm, which renders the chart, is not installed"
)


def helm(*words: str) -> str:
    """What helm prints; fails the test with its error."""
    found = subprocess.run(
        ["helm", *words], check=False, capture_output=True, text=True, timeout=30
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def render(*words: str) -> dict[tuple[str, str], Any]:
    """The objects of a release "hsdns" in kube-system, by kind and name."""
    # A helm that was built without flags takes the cluster to be of 1.20.
    where = ("--namespace", "kube-system", "--kube-version", "1.33.0")
    text = helm("template", "hsdns", str(CHART), *where, *words)
    objects = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}
