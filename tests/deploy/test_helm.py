"""The chart: its values, their schema and its templates fit together, and Prometheus stores what alerts and dashboard select."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import NOT_YET, ORDER
from tests.support.manifests.known_fields import check

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/hsdns"
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
FULL = """
image: {tag: "1.2.3", pullSecrets: [mirror]}
k8sAppLabelOverride: kube-dns
service: {name: kube-dns, clusterIP: 10.96.0.10, annotations: {a: b}, ipFamilyPolicy: SingleStack}
serviceType: NodePort
prometheus:
  service: {enabled: true}
  monitor: {enabled: true, interval: 15s, additionalLabels: {release: prometheus}}
podDisruptionBudget: {maxUnavailable: 1}
hpa: {enabled: true, minReplicas: 2, maxReplicas: 4}
customLabels: {team: net}
podLabels: {p: q}
extraSecrets: [{name: tls, mountPath: /etc/tls}]
extraConfig: {import: {parameters: "/etc/coredns/extra/*.server"}}
zoneFiles: [{filename: example.db, contents: "example.org. IN SOA a. b. 1 2 3 4 5"}]
deployment: {name: coredns}
servers:
- zones: [{zone: .}, {zone: example.org., scheme: "dns://"}]
  port: 1053
  servicePort: 53
  nodePort: 30053
  plugins: [{name: errors}, {name: cache, parameters: 30}]
- zones: [{zone: ., scheme: "tls://"}]
  port: 853
  plugins: [{name: whoami}]
- zones: [{zone: udp.example.org, use_tcp: false}]
  port: 5353
  plugins: [{name: whoami}]
"""

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
    objects = yaml.safe_load_all(helm("template", "hsdns", str(CHART), *where, *words))
    return {(each["kind"], each["metadata"]["name"]): each for each in objects if each}


def test_versions_and_names_of_coredns_chart() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert set(VALUES) == SHARED


def compare(values: Any, schema: dict[str, Any], path: str) -> None:
    """The schema knows each value, refuses all others, and the values are of its types."""
    if "enum" in schema:
        assert values in schema["enum"], path
        return
    assert isinstance(values, TYPES[schema["type"]]), path
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
    warnings: list[str] = []
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER, not_yet=NOT_YET)
    assert re.search(r"^ *prometheus :9153 *$", text, re.MULTILINE)
    assemble(corefile, default_port=53, warn=warnings.append)
    assert warnings == []


@needs_helm
@pytest.mark.slow
def test_default_objects() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    objects = render()
    for manifest in objects.values():
        check(manifest)
    check_corefile(objects["ConfigMap", "hsdns"]["data"]["Corefile"] + "\n")
    base = yaml.safe_load((ROOT / "deploy/base/deployment.yaml").read_text())["spec"]
    chart = objects["Deployment", "hsdns"]["spec"]
    expected = spreading(base["template"]["spec"], base["selector"])
    assert spreading(chart["template"]["spec"], chart["selector"]) == expected


def spreading(objects: Any, selector: Any) -> Any:
    """How the pods of a Deployment are spread; its own selector is replaced by a word."""
    text = json.dumps({each: objects[each] for each in ("affinity", "topologySpreadConstraints")})
    return json.loads(text.replace(json.dumps(selector), '"its pods"'))


@needs_helm
@pytest.mark.slow
def test_all_values(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(FULL)
    objects = render("-f", str(tmp_path / "values.yaml"))
    for manifest in objects.values():
        check(manifest)
    assert objects["ConfigMap", "hsdns"]["data"] == {
        "Corefile": "import /etc/coredns/extra/*.server\n"
        ".:1053 dns://example.org.:1053 {\n    errors\n    cache 30\n}\n"
        "tls://.:853 {\n    whoami\n}\n"
        "udp.example.org:5353 {\n    whoami\n}",
        "example.db": "example.org. IN SOA a. b. 1 2 3 4 5\n",
    }
    service = objects["Service", "kube-dns"]["spec"]
    fields = ("name", "port", "targetPort", "nodePort")
    assert [tuple(map(port.get, fields)) for port in service["ports"]] == [
        ("udp-1053", 53, 1053, 30053),
        ("tcp-1053", 53, 1053, 30053),
        ("tcp-853", 853, 853, None),
        ("udp-5353", 5353, 5353, None),
    ]
    deployment = objects["Deployment", "coredns"]["spec"]
    assert "replicas" not in deployment
    pod = deployment["template"]["spec"]
    assert pod["containers"][0]["image"] == "hsdns/hsdns:1.2.3"
    assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    assert {each["name"] for each in pod["volumes"]} == {"config-volume", "run", "tls"}
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert (labels["team"], labels["p"], labels["k8s-app"]) == ("net", "q", "kube-dns")
    scaled = objects["HorizontalPodAutoscaler", "hsdns"]["spec"]["scaleTargetRef"]
    assert scaled["name"] == "coredns"


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


@needs_helm
@pytest.mark.slow
def test_rules_and_dashboard_select_what_the_monitor_makes() -> None:
    """With the labels that the Prometheus operator gives to the series of a pod of the chart."""
    objects = render("--set", "prometheus.service.enabled=true,prometheus.monitor.enabled=true")
    monitor = objects["ServiceMonitor", "hsdns"]["spec"]
    service = objects["Service", "hsdns-metrics"]
    metadata = service["metadata"]
    assert monitor["selector"]["matchLabels"].items() <= metadata["labels"].items()
    (port,) = service["spec"]["ports"]
    job = metadata["labels"].get(monitor.get("jobLabel"), metadata["name"])
    assert job == "kube-dns"
    check_selectors(
        {"job": job, "instance": f"10.244.0.7:{port['targetPort']}", "service": metadata["name"]}
    )
