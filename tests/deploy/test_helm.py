"""The chart: its values, their schema and its templates fit together, and Prometheus stores what alerts and dashboard select."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.rendered import CHART, helm, needs_helm, printed
from tests.support.manifests.facts import by_kind
from tests.support.manifests.known_fields import check
from tests.support.plugins.corefiles import assembled

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((CHART / "templates").iterdir())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
DASHBOARD = json.loads((ROOT / "deploy/grafana/hsdns.json").read_text())
RULES = yaml.safe_load((ROOT / "deploy/alerts/prometheusrule.yaml").read_text())["spec"]
# Values of CoreDNS's chart 1.46 that mean the same here, the outer name alone.
SHARED = set(
    "image replicaCount resources rollingUpdate terminationGracePeriodSeconds podAnnotations podLabels serviceType "
    "prometheus service serviceAccount rbac clusterRole isClusterService priorityClassName podSecurityContext "
    "securityContext servers extraConfig livenessProbe readinessProbe affinity topologySpreadConstraints nodeSelector "
    "tolerations podDisruptionBudget zoneFiles extraContainers extraVolumes extraVolumeMounts extraSecrets env "
    "customLabels customAnnotations hpa deployment initContainers k8sAppLabelOverride".split()
)
TYPES: dict[str, type[Any] | tuple[type[Any], ...]] = {
    "string": str, "integer": int, "boolean": bool, "array": list, "object": dict,
}  # fmt: skip


def test_names_of_coredns_chart() -> None:
    assert set(VALUES) == SHARED


def compare(values: Any, schema: dict[str, Any], path: str) -> None:
    """The schema knows each value, refuses all others, and the values are of its types."""
    if "enum" in schema:
        assert values in schema["enum"], path
        return
    # The first type is that of values.yaml; others are what people write, such as a port in quotes.
    first = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    assert isinstance(values, TYPES[first]), path
    if "properties" in schema:
        assert schema["additionalProperties"] is False, path
        assert set(values) == set(schema["properties"]) - {"global"}, path
        for name, value in values.items():
            compare(value, schema["properties"][name], f"{path}.{name}")


def test_schema_is_that_of_the_values() -> None:
    compare(VALUES, SCHEMA, "")


def unused(values: dict[str, Any], used: set[str], above: str = "") -> Iterator[str]:
    for name, value in values.items():
        path = f"{above}{name}"
        if not any(path == each or path.startswith(f"{each}.") for each in used):
            if isinstance(value, dict) and value:
                yield from unused(value, used, f"{path}.")
            else:
                yield path


def test_templates_use_exactly_the_existing_values() -> None:
    text = "".join(template.read_text() for template in TEMPLATES)
    used = set(re.findall(r"(?<![\w)])\.Values\.([\w.]+)", text))
    for path in used:
        place: Any = VALUES
        for name in path.split("."):
            assert name in place, f".Values.{path} is not in values.yaml"
            place = place[name]
    assert [*unused(VALUES, used)] == []
    defined = set(re.findall(r'define "([\w.]+)"', text))
    assert set(re.findall(r'include "([\w.]+)"', text)) == defined


def test_the_default_corefile_is_valid() -> None:
    lines = []
    for server in VALUES["servers"]:
        keys = " ".join(f"{zone['zone']}:{server['port']}" for zone in server["zones"])
        lines.append(f"{keys} {{")
        for plugin in server["plugins"]:
            block = f" {{\n{plugin['configBlock']}\n}}" if "configBlock" in plugin else ""
            lines.append(f"{plugin['name']} {plugin.get('parameters', '')}{block}")
        lines.append("}")
    check_corefile("\n".join(lines) + "\n")


def check_corefile(text: str) -> None:
    """It has no error, no warning, and pages on the addresses of both families."""
    assert re.search(r"^ *prometheus :9153 *$", text, re.MULTILINE)
    assembled(text)


@needs_helm
@pytest.mark.slow
def test_default_objects() -> None:
    assert "0 chart(s) failed" in printed("helm", "lint", "--strict", str(CHART))
    for manifest in (*helm(), *helm(str(Path(__file__).with_name("values.yaml")))):
        check(manifest)
    objects = by_kind(helm())
    check_corefile(objects["ConfigMap"]["hsdns"]["data"]["Corefile"] + "\n")
    base = yaml.safe_load((ROOT / "deploy/base/deployment.yaml").read_text())["spec"]
    chart = objects["Deployment"]["hsdns"]["spec"]
    expected = spreading(base["template"]["spec"], base["selector"])
    assert spreading(chart["template"]["spec"], chart["selector"]) == expected


def spreading(objects: Any, selector: Any) -> Any:
    """How the pods of a Deployment are spread; its own selector is replaced by a word."""
    text = json.dumps({each: objects[each] for each in ("affinity", "topologySpreadConstraints")})
    return json.loads(text.replace(json.dumps(selector), '"its pods"'))


# --- what is selected ---

# Another program's target, of which nothing may be shown or reported.
FOREIGN = {"job": "node-exporter", "instance": "10.0.0.1:9100"}
# What the dashboard offers as jobs: those of all that export CoreDNS's metrics.
FINDS_JOBS = "label_values(coredns_build_info, job)"
METRIC = re.compile(r"\b((?:coredns|hsdns|process)_[a-z0-9_]+|up)\b({[^}]*})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def matches(value: str, operator: str, wanted: str) -> bool:
    found = bool(re.fullmatch(wanted, value)) if "~" in operator else value == wanted
    return found != operator.startswith("!")


def all_expressions(target: Mapping[str, str]) -> Iterator[str]:
    """Those of the alerts, and those that Grafana sends while "All" is chosen: each variable is the list of its values."""
    variables = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    targets = [each for panel in DASHBOARD["panels"] for each in panel.get("targets", [])]
    yield from (rule["expr"] for group in RULES["groups"] for rule in group["rules"])
    for expression in (
        *(each["expr"] for each in targets),
        *(each["definition"] for each in variables),
    ):
        for variable in variables:
            every = variable.get("allValue", f"({re.escape(target[variable['name']])})")
            expression = expression.replace(f"${variable['name']}", every)
        yield expression


def check_selectors(target: Mapping[str, str]) -> None:
    """A selector of a label that no series has makes an alert fire for ever (absent) or never (all others)."""
    seen = set()
    for expression in all_expressions(target):
        for metric, inside in METRIC.findall(expression):
            seen.add(metric)
            tests = [each for each in MATCHER.findall(inside) if each[0] in target]
            for labels in (target, FOREIGN):
                found = all(matches(labels.get(name, ""), *test) for name, *test in tests)
                assert found is (labels is target) or expression == FINDS_JOBS, expression
    assert seen > {"up", "coredns_dns_requests_total"}


def test_the_templates_make_the_job_that_is_selected() -> None:
    """As the next test, by the text of the template."""
    service, _, monitor = (CHART / "templates/metrics.yaml").read_text().partition("\n---\n")
    assert "\n    jobLabel: {{ .Values.prometheus.monitor.job | quote }}\n" in service
    assert re.search(r"\n  jobLabel: jobLabel\b", monitor)
    job = VALUES["prometheus"]["monitor"]["job"]
    check_selectors({"job": job, "instance": "10.244.0.7:9153"})
