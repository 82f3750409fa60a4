"""What the chart's ServiceMonitor makes Prometheus store is what the alerts and the dashboard select, and nothing else.

A selector of a label that no series has makes an alert fire for ever (absent) or never (all others).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.manifests.chart import CHART, needs_helm, render

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/hsdns.json").read_text())
RULES = yaml.safe_load((ROOT / "deploy/alerts/prometheusrule.yaml").read_text())["spec"]
MONITORING = ("prometheus.service.enabled=true", "prometheus.monitor.enabled=true")
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
# Another program's target, of which nothing may be shown or reported.
FOREIGN = {"job": "node-exporter", "instance": "10.0.0.1:9100"}
# What the dashboard offers as jobs: those of all that export CoreDNS's metrics.
FINDS_JOBS = "job: label_values(coredns_build_info, job)"
METRIC = re.compile(r"\b((?:coredns|hsdns|process)_[a-z0-9_]+|up)\b({[^}]*})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


class Selector(NamedTuple):
    """A metric in an expression, with the matchers of the labels that a target has."""

    where: str
    metric: str
    matchers: tuple[tuple[str, str, str], ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(matches(labels.get(name, ""), *test) for name, *test in self.matchers)


def matches(value: str, operator: str, wanted: str) -> bool:
    found = bool(re.fullmatch(wanted, value)) if "~" in operator else value == wanted
    return found != operator.startswith("!")


def selectors(where: str, expression: str, target: Mapping[str, str]) -> Iterator[Selector]:
    for metric, inside in METRIC.findall(expression):
        matchers = tuple(each for each in MATCHER.findall(inside) if each[0] in target)
        yield Selector(f"{where}: {expression}", metric, matchers)


def chosen(expression: str, target: Mapping[str, str]) -> str:
    """The expression as Grafana sends it while "All" is chosen: each variable is the list of its values."""
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            every = variable.get("allValue", f"({re.escape(target[variable['name']])})")
            expression = expression.replace(f"${variable['name']}", every)
    return expression


def all_selectors(target: Mapping[str, str]) -> list[Selector]:
    found: list[Selector] = []
    for group in RULES["groups"]:
        for rule in group["rules"]:
            found += selectors(rule["alert"], rule["expr"], target)
    for panel in DASHBOARD["panels"]:
        for each in panel.get("targets", []):
            found += selectors(panel["title"], chosen(each["expr"], target), target)
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            found += selectors(variable["name"], chosen(variable["definition"], target), target)
    return found


def check_selectors(target: Mapping[str, str]) -> None:
    found = all_selectors(target)
    assert {each.metric for each in found} > {"up", "coredns_dns_requests_total"}
    for each in found:
        assert each.matches(target), each.where
        assert not each.matches(FOREIGN) or each.where == FINDS_JOBS, each.where


def target_of(objects: Mapping[tuple[str, str], Any]) -> dict[str, str]:
    """The labels that the Prometheus operator gives to the series of a pod of the chart."""
    (monitor,) = (each for (kind, _), each in objects.items() if kind == "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = (
        each
        for (kind, _), each in objects.items()
        if kind == "Service" and wanted <= each["metadata"]["labels"].items()
    )
    assert monitor["spec"]["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = (each for each in service["spec"]["ports"] if each["name"] == endpoint["port"])
    name: str = service["metadata"]["name"]
    (deployment,) = (each for (kind, _), each in objects.items() if kind == "Deployment")
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    return {
        # Without jobLabel, or where the Service lacks that label, it is the name of the Service.
        "job": service["metadata"]["labels"].get(monitor["spec"].get("jobLabel"), name),
        "instance": f"10.244.0.7:{port['targetPort']}",
        "namespace": service["metadata"]["namespace"],
        "service": name,
        "endpoint": endpoint["port"],
        "container": pod["spec"]["containers"][0]["name"],
        "pod": "hsdns-0",
    }


# --- without helm ---


def test_the_templates_make_the_job_that_is_selected() -> None:
    """As the next test, by the text of the template."""
    service, _, monitor = (CHART / "templates/metrics.yaml").read_text().partition("\n---\n")
    assert "\n    jobLabel: {{ .Values.prometheus.monitor.job | quote }}\n" in service
    assert re.search(r"\n  jobLabel: jobLabel\b", monitor)
    job = VALUES["prometheus"]["monitor"]["job"]
    check_selectors({"job": job, "instance": "10.244.0.7:9153"})


# --- with helm ---


@needs_helm
def test_rules_and_dashboard_select_what_the_monitor_makes() -> None:
    target = target_of(render("--set", ",".join(MONITORING)))
    assert target["job"] == "kube-dns"
    check_selectors(target)


@needs_helm
def test_another_job() -> None:
    """For rules of one's own; the dashboard finds it by itself."""
    job = "prometheus.monitor.job=dns"
    assert target_of(render("--set", ",".join((*MONITORING, job))))["job"] == "dns"


@needs_helm
@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool, which evaluates rules, is not installed"
)
def test_prometheus_fires_the_alerts(tmp_path: Path) -> None:
    """By Prometheus's own evaluation: none while all is well, and each when its metric says so."""
    target = target_of(render("--set", ",".join(MONITORING)))
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))

    def series(metric: str, values: str, **labels: str) -> dict[str, str]:
        inside = ",".join(f'{name}="{value}"' for name, value in {**target, **labels}.items())
        return {"series": f"{metric}{{{inside}}}", "values": values}

    healthy = [
        series("up", "1x60"),
        series("coredns_dns_responses_total", "0+600x60", rcode="NOERROR", server="dns://:53", zone="."),
        series("coredns_panics_total", "0x60"),
    ]  # fmt: skip
    servfail = series("coredns_dns_responses_total", "0+600x60", rcode="SERVFAIL", server="dns://:53", zone=".")  # fmt: skip
    proxy = {"proxy_name": "forward", "to": "192.0.2.1:53"}
    ill = [
        series("up", "0x60"),
        servfail,
        series("coredns_dns_request_duration_seconds_bucket", "0+1x60", le="8", server="dns://:53", zone="."),
        series("coredns_dns_request_duration_seconds_bucket", "0+600x60", le="+Inf", server="dns://:53", zone="."),
        series("coredns_proxy_request_duration_seconds_bucket", "0+1x60", le="8", **proxy),
        series("coredns_proxy_request_duration_seconds_bucket", "0+600x60", le="+Inf", **proxy),
        series("coredns_proxy_request_duration_seconds_count", "0+600x60", rcode="SERVFAIL", **proxy),
        series("coredns_proxy_healthcheck_failures_total", "0+60x60", **proxy),
        series("coredns_forward_healthcheck_broken_total", "0+60x60"),
        series("coredns_panics_total", "0+60x60"),
        series("coredns_reload_failed_total", "0+60x60"),
        series("hsdns_watch_away_since_timestamp_seconds", "1x60"),
        series("hsdns_store_inconsistencies_total", "0+60x60"),
        series("hsdns_kubernetes_rejected_total", "0+60x60", kind="Service", reason="port"),
        series("hsdns_udp_send_errors_total", "0+60x60", errno="ENOBUFS"),
        series("hsdns_udp_queue_drops_total", "0+60x60"),
    ]  # fmt: skip
    names = sorted({rule["alert"] for group in RULES["groups"] for rule in group["rules"]})
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'

    def test(input_series: list[dict[str, str]], alerts: list[str]) -> dict[str, Any]:
        samples = [
            {"labels": f'{{alertname="{name}"}}', "value": 2 if name == "CoreDNSErrorsHigh" else 1}
            for name in alerts
        ]
        expected = {"expr": firing, "eval_time": "50m", "exp_samples": samples}
        return {"interval": "1m", "input_series": input_series, "promql_expr_test": [expected]}

    cases = {"rule_files": ["rules.yaml"], "tests": [test(healthy, []), test(ill, names)]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    found = subprocess.run(
        ["promtool", "test", "rules", "cases.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert found.returncode == 0, found.stdout + found.stderr
