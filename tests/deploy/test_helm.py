"""The chart: its values, their schema and its templates fit together; rendered where helm is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import NOT_YET, ORDER
from tests.support.manifests.object_schema import check

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/hsdns"
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
- {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
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
    warnings: list[str] = []
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER, not_yet=NOT_YET)
    assemble(corefile, default_port=53, warn=warnings.append)
    assert warnings == []


# --- with helm ---

needs_helm = pytest.mark.skipif(
    shutil.which("helm") is None, reason="helm, which renders the chart, is not installed"
)


def helm(*words: str) -> str:
    found = subprocess.run(
        ["helm", *words], check=False, capture_output=True, text=True, timeout=30
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def render(*words: str) -> dict[tuple[str, str], Any]:
    # A helm that was built without flags takes the cluster to be of 1.20.
    where = ("--namespace", "kube-system", "--kube-version", "1.33.0")
    text = helm("template", "hsdns", str(CHART), *where, *words)
    objects = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


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
    assert {each["name"] for each in pod["volumes"]} == {"config-volume", "tls"}
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
