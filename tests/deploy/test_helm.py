"""The chart: its values, their schema and its templates fit together; rendered where helm is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import NOT_YET, ORDER
from tests.support.manifests.chart import CHART, helm, needs_helm, render
from tests.support.manifests.object_schema import check

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((CHART / "templates").iterdir())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
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
ACTION = re.compile(r"{{-?\s*(.*?)\s*-?}}", re.DOTALL)
OPENS = re.compile(r"(if|range|with|define|block)\b")

FULL = """
image: {tag: "1.2.3", pullSecrets: [mirror]}
k8sAppLabelOverride: kube-dns
service: {name: kube-dns, clusterIP: 10.96.0.10, annotations: {a: b}, ipFamilyPolicy: SingleStack}
serviceType: NodePort
prometheus:
  service: {enabled: true}
  monitor: {enabled: true, interval: 15s, additionalLabels: {release: prometheus}}
podDisruptionBudget: {maxUnavailable: 1}
topologySpreadConstraints:
- {maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}
hpa: {enabled: true, minReplicas: 2, maxReplicas: 4}
customLabels: {team: net}
customAnnotations: {owner: net}
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


# --- without helm ---


def test_versions() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["name"], chart["version"], chart["appVersion"]) == (
        "hsdns",
        __version__,
        __version__,
    )


def test_names_of_coredns_chart_are_kept() -> None:
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


def referenced(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w)])\.Values\.([\w.]+)", text))


def test_templates_use_exactly_the_existing_values() -> None:
    used = {path for template in TEMPLATES for path in referenced(template.read_text())}
    for path in used:
        place: Any = VALUES
        for name in path.split("."):
            assert name in place, f".Values.{path} is not in values.yaml"
            place = place[name]

    def unused(values: dict[str, Any], above: str) -> list[str]:
        found = []
        for name, value in values.items():
            path = f"{above}{name}"
            if any(path == each or path.startswith(f"{each}.") for each in used):
                continue
            if isinstance(value, dict) and value:
                found += unused(value, f"{path}.")
            else:
                found.append(path)
        return found

    assert unused(VALUES, "") == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_close_what_they_open(template: Path) -> None:
    depth = 0
    for action in ACTION.findall(template.read_text()):
        if OPENS.match(action):
            depth += 1
        elif action == "end":
            depth -= 1
        assert depth >= 0
    assert depth == 0


def test_templates_include_what_is_defined() -> None:
    text = "".join(template.read_text() for template in TEMPLATES)
    defined = set(re.findall(r'define "([\w.]+)"', text))
    assert set(re.findall(r'include "([\w.]+)"', text)) == defined


def test_rights_are_those_of_the_base() -> None:
    base = (ROOT / "deploy/base/rbac.yaml").read_text()
    rules = base[base.index("rules:") : base.index("---")]
    assert rules in (CHART / "templates/rbac.yaml").read_text()


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


def test_the_default_spreads_the_pods() -> None:
    """As the test below that renders it."""
    (constraint,) = VALUES["topologySpreadConstraints"]
    base = yaml.safe_load((ROOT / "deploy/base/deployment.yaml").read_text())["spec"]
    pod = base["template"]["spec"]
    assert [{**constraint, "labelSelector": base["selector"]}] == pod["topologySpreadConstraints"]
    template = (CHART / "templates/deployment.yaml").read_text()
    assert '{{- if not (hasKey .Values.affinity "podAntiAffinity") }}' in template


# --- with helm ---


@needs_helm
def test_lint() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@needs_helm
def test_default_objects_have_only_known_fields() -> None:
    objects = render()
    assert set(objects) == {
        ("ServiceAccount", "hsdns"),
        ("ClusterRole", "hsdns"),
        ("ClusterRoleBinding", "hsdns"),
        ("ConfigMap", "hsdns"),
        ("Deployment", "hsdns"),
        ("Service", "hsdns"),
    }
    for manifest in objects.values():
        check(manifest)
    check_corefile(objects["ConfigMap", "hsdns"]["data"]["Corefile"] + "\n")


@needs_helm
def test_all_values(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(FULL)
    objects = render("-f", str(tmp_path / "values.yaml"))
    assert objects["ConfigMap", "hsdns"]["data"] == {
        "Corefile": "import /etc/coredns/extra/*.server\n"
        ".:1053 dns://example.org.:1053 {\n    errors\n    cache 30\n}\n"
        "tls://.:853 {\n    whoami\n}\n"
        "udp.example.org:5353 {\n    whoami\n}",
        "example.db": "example.org. IN SOA a. b. 1 2 3 4 5\n",
    }
    service = objects["Service", "kube-dns"]["spec"]
    assert service["clusterIP"] == "10.96.0.10"
    assert [
        (port["name"], port["port"], port["targetPort"], port.get("nodePort"))
        for port in service["ports"]
    ] == [
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
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == deployment["selector"]
    assert {each["name"] for each in pod["volumes"]} == {"config-volume", "run", "tls"}
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert service["selector"].items() <= labels.items()
    assert (labels["team"], labels["p"], labels["k8s-app"]) == ("net", "q", "kube-dns")
    assert (
        objects["HorizontalPodAutoscaler", "hsdns"]["spec"]["scaleTargetRef"]["name"] == "coredns"
    )
    monitor = objects["ServiceMonitor", "hsdns"]
    metrics = objects["Service", "hsdns-metrics"]
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= metrics["metadata"]["labels"].items()
    )
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "15s"}]
    assert objects["PodDisruptionBudget", "hsdns"]["spec"]["maxUnavailable"] == 1


def spreading(objects: Any, selector: Any) -> Any:
    """How the pods of a Deployment are spread; its own selector is replaced by a word."""
    text = json.dumps({each: objects[each] for each in ("affinity", "topologySpreadConstraints")})
    return json.loads(text.replace(json.dumps(selector), '"its pods"'))


@needs_helm
def test_pods_are_spread_as_in_the_base() -> None:
    base = yaml.safe_load((ROOT / "deploy/base/deployment.yaml").read_text())["spec"]
    chart = render()["Deployment", "hsdns"]["spec"]
    expected = spreading(base["template"]["spec"], base["selector"])
    assert spreading(chart["template"]["spec"], chart["selector"]) == expected


@needs_helm
@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param("nodeAffinity={}", {"nodeAffinity", "podAntiAffinity"}, id="beside-another"),
        pytest.param("podAntiAffinity={}", set(), id="none"),
    ],
)
def test_affinity_of_ones_own(affinity: str, expected: set[str]) -> None:
    pod = render("--set-json", f"affinity.{affinity}")["Deployment", "hsdns"]["spec"]["template"]
    found = pod["spec"]["affinity"]
    assert {each for each in found if found[each] or each == "nodeAffinity"} == expected
