"""The manifests of the audit: their arguments are those of the command, their metrics those that it has, their Corefile is valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns.assemble import assemble
from hsdns.audit.gauges import Gauges
from hsdns.audit.report import WORDS
from hsdns.cli.audit import Audit
from hsdns.cli.flags import parse_flags
from hsdns.corefile.parser import parse
from hsdns.plugins import NOT_YET, ORDER
from tests.deploy.test_manifests import collection
from tests.support.apiserver.real_api import RealApi, missing_assets
from tests.support.manifests.object_schema import CLUSTER_WIDE

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "audit"
FILES = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def pod(name: str) -> dict[str, Any]:
    (found,) = documents(name)
    spec = found["spec"]["jobTemplate"]["spec"] if found["kind"] == "CronJob" else found["spec"]
    template: dict[str, Any] = spec["template"]["spec"]
    return template


@pytest.mark.parametrize("name", ["cronjob/cronjob.yaml", "watch/deployment.yaml"])
def test_arguments(name: str) -> None:
    spec = pod(name)
    (container,) = spec["containers"]
    command, *words = container["args"]
    assert command == "audit"
    flags = parse_flags(words, Audit.flags())
    assert flags["service"] == ["kube-system/kube-dns"]
    (mount,), (volume,) = container["volumeMounts"], spec["volumes"]
    (config,) = documents("base/configmap.yaml")
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert flags["conf"] == f"{mount['mountPath']}/{next(iter(config['data']))}"
    if "metrics" in flags:
        (port,) = container["ports"]
        assert flags["metrics"] == f":{port['containerPort']}"
        assert container["readinessProbe"]["httpGet"]["port"] == port["containerPort"]
    (account, binding) = documents("base/rbac.yaml")
    assert (
        spec["serviceAccountName"] == account["metadata"]["name"] == binding["subjects"][0]["name"]
    )


def test_the_corefile_is_valid() -> None:
    (config,) = documents("base/configmap.yaml")
    corefile = parse(
        "Corefile",
        text=config["data"]["Corefile"],
        environ={},
        known_directives=ORDER,
        not_yet=NOT_YET,
    )
    warnings: list[str] = []
    assemble(corefile, default_port=53, warn=warnings.append)
    assert warnings == []


def test_alerts_use_metrics_and_verdicts_that_there_are() -> None:
    known = {metric.name for metric in Gauges().registry}
    (found,) = documents("watch/alerts.yaml")
    (group,) = found["spec"]["groups"]
    assert len(group["rules"]) == 4
    for rule in group["rules"]:
        used = set(re.findall(r"hsdns_audit_\w+", rule["expr"]))
        assert used
        assert used <= known
        for words in re.findall(r'verdict[=!~]+"([^"]*)"', rule["expr"]):
            assert set(words.split("|")) <= set(WORDS)
        assert {"summary", "description"} == rule["annotations"].keys()


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "there is an API server")
def test_an_api_server_accepts_them() -> None:
    with RealApi() as api:
        for path in FILES:
            for manifest in yaml.safe_load_all(path.read_text()):
                if manifest["kind"] == "PrometheusRule":
                    continue  # of the Prometheus operator
                if manifest["kind"] not in CLUSTER_WIDE:
                    manifest["metadata"]["namespace"] = "kube-system"
                where = f"{collection(manifest)}?dryRun=All&fieldValidation=Strict"
                status, found = api.ask("POST", where, manifest)
                assert status == 201, found
