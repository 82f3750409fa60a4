"""What `kubectl apply -k loadtest/kubernetes` makes: a Job whose pods share a plan, and no rights beyond that."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.load.cluster.job import LABEL
from hsdns.plugins import NOT_YET, ORDER
from tests.deploy.test_manifests import STOCK_RIGHTS, collection, needs_kubectl, one
from tests.load.cli.test_settings import settings
from tests.support.apiserver.real_api import RealApi, missing_assets

FOLDER = Path(__file__).resolve().parents[2] / "loadtest" / "kubernetes"
NAMESPACE = "hsdns-load"


def objects() -> list[dict[str, Any]]:
    """The objects as the files have them."""
    (listed,) = yaml.safe_load_all((FOLDER / "kustomization.yaml").read_text())
    assert {path.name for path in FOLDER.iterdir()} == {"kustomization.yaml", *listed["resources"]}
    return [
        found
        for name in listed["resources"]
        for found in yaml.safe_load_all((FOLDER / name).read_text())
    ]


@cache
def rendered() -> list[dict[str, Any]]:
    found = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER)], check=False, capture_output=True, text=True, timeout=30
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    return list(yaml.safe_load_all(found.stdout))


def test_the_job_has_a_generator_for_each_portion() -> None:
    spec = one(objects(), "Job")["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], spec["backoffLimitPerIndex"]) == ("Never", 0)
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == {
        "batch.kubernetes.io/job-name": one(objects(), "Job")["metadata"]["name"]
    }


def test_its_arguments_are_flags_of_the_command() -> None:
    (container,) = one(objects(), "Job")["spec"]["template"]["spec"]["containers"]
    command, *words = container["args"]
    assert command == "load"
    found = settings(words)
    assert found.flags.job == one(objects(), "Job")["metadata"]["name"]
    assert found.flags.verify
    (mount,) = container["volumeMounts"]
    (volume,) = one(objects(), "Job")["spec"]["template"]["spec"]["volumes"]
    (config_map,) = (each for each in objects() if each["kind"] == "ConfigMap")
    assert f"-conf={mount['mountPath']}/Corefile" in words
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    warnings: list[str] = []
    text = config_map["data"]["Corefile"]
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER, not_yet=NOT_YET)
    assemble(corefile, default_port=53, interfaces=dict, warn=warnings.append)
    assert warnings == []


def test_rights() -> None:
    """Each generator reads its Job and writes its report; of the cluster it reads what CoreDNS does."""
    found = {}
    for role in objects():
        if role["kind"] in ("Role", "ClusterRole"):
            found[role["kind"]] = {
                (group, resource, verb)
                for rule in role["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    assert found["Role"] == {
        ("batch", "jobs", "get"),
        ("", "configmaps", "create"),
        ("", "configmaps", "patch"),
    }
    assert found["ClusterRole"] == STOCK_RIGHTS
    account = one(objects(), "Job")["spec"]["template"]["spec"]["serviceAccountName"]
    for binding in objects():
        if binding["kind"].endswith("Binding"):
            (subject,) = binding["subjects"]
            assert (subject["name"], subject["namespace"]) == (account, NAMESPACE)


def test_the_pod_is_restricted() -> None:
    pod = one(objects(), "Job")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert one(objects(), "Namespace")["metadata"]["labels"] == {
        "pod-security.kubernetes.io/enforce": "restricted"
    }
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@needs_kubectl
@pytest.mark.slow
def test_kubectl_renders_them() -> None:
    assert {(each["kind"], each["metadata"]["name"]) for each in rendered()} == {
        (each["kind"], each["metadata"]["name"]) for each in objects()
    }
    (container,) = one(rendered(), "Job")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"hsdns/hsdns:{__version__}"
    for each in rendered():
        is_wide = each["kind"] in ("Namespace", "ClusterRole", "ClusterRoleBinding")
        assert each["metadata"].get("namespace") == (None if is_wide else NAMESPACE)


@needs_kubectl
@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "there is an API server")
def test_an_api_server_accepts_them() -> None:
    """As server-side apply without a change, with all fields known."""
    with RealApi() as api:
        api.apply({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for manifest in rendered():
            if manifest["kind"] == "Namespace":
                continue
            path = f"{collection(manifest)}/{manifest['metadata']['name']}"
            query = "fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
            status, found = api.ask("PATCH", f"{path}?{query}", manifest, applies=True)
            assert status in (200, 201), found
            if manifest["kind"] == "Job":
                assert found["spec"]["completionMode"] == "Indexed"
                assert found["spec"]["backoffLimitPerIndex"] == 0


def test_the_reports_are_those_that_merge_reads() -> None:
    """The label by which docs/load.md has kubectl list them."""
    page = FOLDER.parents[1] / "docs" / "load.md"
    name = one(objects(), "Job")["metadata"]["name"]
    assert re.search(rf"kubectl get configmaps -n {NAMESPACE} -l {LABEL}={name} ", page.read_text())
