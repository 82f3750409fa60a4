"""deploy/kind/try with programs that play kind, kubectl and docker: what it does in which order, and what it explains."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from hsdns import __version__

ROOT = Path(__file__).resolve().parents[2]
TRY = ROOT / "deploy/kind/try"
IMAGE = f"hsdns/hsdns:{__version__}"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

# Takes the place of all three programs: records its calls, fails for calls that contain FAIL, prints what the script reads.
FAKE_PROGRAM = r"""#!/usr/bin/env bash
name=${0##*/}
echo "$name $*" >> "$CALLS"
case "$name $*" in
"kind get clusters") printf '%b' "$CLUSTERS" ;;
*"get deployment coredns -o jsonpath"*) echo coredns/coredns:v1.14.7 ;;
*"get service kubernetes -o jsonpath"*) echo 10.96.0.1 ;;
*"get pods"*"waiting.reason"*) echo "$REASON" ;;
*"get pods"*"-o name"*) echo pod/coredns-1 ;;
*"logs -l"*) echo "[pod/coredns-1] hsdns-0.0.0 (answers as CoreDNS-1.14.7)" ;;
*" logs "*) echo "Corefile:3:5: a sentence" ;;
esac
if [ -n "$FAIL" ] && [[ "$name $*" == *$FAIL* ]]; then exit 1; fi
exit 0
"""


class Outcome(NamedTuple):
    status: int
    calls: list[str]
    output: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for PATH with the fake programs and the system's programs that the script uses."""
    for name in ("kind", "kubectl", "docker"):
        (tmp_path / name).write_text(FAKE_PROGRAM)
        (tmp_path / name).chmod(0o755)
    for name in ("bash", "env", "dirname", "sed", "grep", "mktemp", "rm"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return tmp_path


def run_try(
    folder: Path,
    *words: str,
    fail: str = "",
    reason: str = "",
    clusters: str = "hsdns\n",
    **environ: str,
) -> Outcome:
    calls = folder / "calls"
    calls.write_text("")
    found = subprocess.run(
        [str(TRY), *words],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        env={
            "PATH": str(folder),
            "CALLS": str(calls),
            "FAIL": fail,
            "REASON": reason,
            "CLUSTERS": clusters,
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            **environ,
        },
    )
    return Outcome(found.returncode, calls.read_text().splitlines(), found.stdout)


def positions(calls: list[str], *parts: str) -> list[int]:
    """The positions of the calls that contain these parts; StopIteration if one is missing."""
    return [next(at for at, call in enumerate(calls) if part in call) for part in parts]


def test_full_run(folder: Path) -> None:
    found = run_try(folder, clusters="")
    assert found.status == 0, found.output
    order = positions(
        found.calls,
        f"kind create cluster --config {ROOT}/deploy/kind/config.yaml",
        f"docker build -t {IMAGE} {ROOT}",
        f"kind load docker-image --name hsdns {IMAGE}",
        f"kubectl --context kind-hsdns -n kube-system set image deployment/coredns coredns={IMAGE}",
        "rollout status deployment coredns",
        "exec hsdns-try -- hsdns lookup kubernetes.default.svc.cluster.local a",
        "exec hsdns-try -- hsdns lookup _https._tcp.kubernetes.default.svc.cluster.local srv",
        "exec hsdns-try -- hsdns lookup 10.96.0.1 ptr",
        "exec hsdns-try -- hsdns lookup example.org a",
    )
    assert order == sorted(order)
    assert "delete pod hsdns-try --ignore-not-found --wait=false" in found.calls[-1]
    assert "answered by hsdns-0.0.0" in found.output
    assert "FAILED" not in found.output


def test_an_existing_image_and_cluster_are_used(folder: Path) -> None:
    found = run_try(folder, clusters="mine\n", CLUSTER="mine", IMAGE="hsdns/hsdns:edge")
    assert found.status == 0, found.output
    assert not [call for call in found.calls if "build" in call or "create cluster" in call]
    positions(
        found.calls, "kind load docker-image --name mine hsdns/hsdns:edge", "--context kind-mine"
    )


@pytest.mark.parametrize(
    ("fail", "reason", "clusters", "environ", "sentence"),
    [
        pytest.param(
            "info", "", "hsdns\n", {}, "neither docker nor podman is running", id="no-builder"
        ),
        pytest.param(
            "", "", "", {"CLUSTER": "mine"}, "there is no kind cluster mine", id="no-cluster"
        ),
        pytest.param(
            "get deployment coredns",
            "",
            "hsdns\n",
            {},
            "deploy/base has a Deployment",
            id="no-coredns",
        ),
        pytest.param(
            "docker build", "", "hsdns\n", {}, "use other base images", id="no-base-image"
        ),
        pytest.param(
            "rollout status",
            "ErrImageNeverPull 0",
            "hsdns\n",
            {},
            "was it loaded into this cluster",
            id="not-loaded",
        ),
        pytest.param(
            "rollout status",
            "CrashLoopBackOff 1",
            "hsdns\n",
            {},
            "Corefile:3:5: a sentence",
            id="crashes",
        ),
        pytest.param(
            "rollout status", "", "hsdns\n", {}, "/ready lists the plugins", id="not-ready"
        ),
        pytest.param("wait --for", "", "hsdns\n", {}, "describe pod hsdns-try", id="no-client"),
        pytest.param(
            "svc.cluster.local srv",
            "",
            "hsdns\n",
            {},
            "cluster names are not answered",
            id="no-answer",
        ),
    ],
)
def test_failures_are_explained(
    folder: Path, fail: str, reason: str, clusters: str, environ: dict[str, str], sentence: str
) -> None:
    found = run_try(folder, fail=fail, reason=reason, clusters=clusters, **environ)
    assert found.status == 1
    assert sentence in found.output


def test_a_missing_answer_from_outside_is_no_failure(folder: Path) -> None:
    found = run_try(folder, fail="hsdns lookup example.org a")
    assert found.status == 0
    assert "names outside the cluster are not answered" in found.output


@pytest.mark.parametrize("name", ["kind", "kubectl"])
def test_a_missing_program(folder: Path, name: str) -> None:
    (folder / name).unlink()
    found = run_try(folder)
    assert (found.status, found.output) == (
        1,
        f"try: {name} is not on PATH; install it and try again\n",
    )


def test_undo(folder: Path) -> None:
    found = run_try(folder, "undo")
    assert found.status == 0
    positions(found.calls, "rollout undo deployment coredns")


def test_delete(folder: Path) -> None:
    found = run_try(folder, "delete")
    assert found.status == 0
    assert found.calls[-1] == "kind delete cluster --name hsdns"


def test_usage(folder: Path) -> None:
    found = run_try(folder, "help")
    assert found.status == 2
    assert "deploy/kind/try undo" in found.output
    assert found.calls == []


def test_the_cluster_of_the_configuration_is_the_one_that_is_used() -> None:
    config = yaml.safe_load((ROOT / "deploy/kind/config.yaml").read_text())
    assert config["name"] == "hsdns"
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker"]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck() -> None:
    subprocess.run(["shellcheck", str(TRY)], check=True, timeout=30)
