"""What kubectl would apply: its Corefiles and arguments are valid, its rights CoreDNS's, and an API server takes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns import __version__
from hsdns.audit import cli as audit
from hsdns.audit.report import WORDS, Gauges
from hsdns.cli import control_path, coredns, interface
from hsdns.cli.command import parse_flags
from hsdns.load.cli.load import Load
from hsdns.load.cli.reports import Merge
from hsdns.load.cli.settings import PERFDATA
from hsdns.load.cluster.job import LABEL
from tests.deploy.rendered import (
    CHART,
    DEPLOY,
    containers_of,
    helm,
    kustomize,
    needs_helm,
    needs_kubectl,
    pod_of,
    printed,
)
from tests.deploy.watching import watching
from tests.load.cli.test_settings import settings
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import UdpClient
from tests.support.coroutines.event_loops import run
from tests.support.manifests.facts import by_kind
from tests.support.manifests.known_fields import CLUSTER_WIDE, check
from tests.support.namespaces.container import refusal
from tests.support.plugins.corefiles import KUBEADM, assembled

ROOT = Path(__file__).resolve().parents[2]
JOB = "../loadtest/kubernetes"
# Components and the image of kind's Deployment are no objects by themselves.
RENDERED = [
    JOB,
    *(
        path.parent.relative_to(DEPLOY).as_posix()
        for path in sorted(DEPLOY.rglob("kustomization.yaml"))
        if not {"components", "kind"} & {*path.parts}
    ),
]
FILES = sorted(
    path
    for folder in (DEPLOY, DEPLOY / JOB)
    for path in folder.resolve().rglob("*.yaml")
    if not {"helm", "k9s", "clusterloader2", "testcontainers"}.intersection(path.parts)
)
CONTROL = ["--control", "/run/hsdns/control.sock"]
IMAGE = f"ghcr.io/hsdns/hsdns:{__version__}"
FLAGS = {
    each: command.flags()
    for each, command in (
        ("audit", audit.Audit),
        ("interface", interface.Interface),
        ("load", Load),
    )
}
# What kubeadm's ClusterRole system:coredns allows.
STOCK_RIGHTS = {
    ("", resource, verb)
    for resource in ("endpoints", "services", "pods", "namespaces")
    for verb in ("list", "watch")
} | {("discovery.k8s.io", "endpointslices", verb) for verb in ("list", "watch")}
OF_THE_JOB = {
    ("batch", "jobs", "get"),
    *(("", "configmaps", verb) for verb in ("list", "create", "patch")),
}


def one(objects: list[dict[str, Any]], kind: str) -> Any:
    """The only object of a kind."""
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def of_files(*paths: Path) -> list[Any]:
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


# --- without kubectl ---


@pytest.mark.parametrize("path", of_files(*FILES))
def test_kustomizations_and_files_fit(path: Path) -> None:
    for document in documents(path):
        assert document["kind"]
        if path.name == "kustomization.yaml":
            for name in [*document.get("resources", []), *document.get("components", [])]:
                assert (path.parent / name).exists()
            for image in document.get("images", []):
                assert f"{image['name']}:{image['newTag']}" == IMAGE
        elif path.parent.name != "kind":
            (listed,) = documents(path.with_name("kustomization.yaml"))
            patches = [each["path"] for each in listed.get("patches", [])]
            assert path.name in listed.get("resources", []) + patches


def test_the_base_has_the_corefile_of_kubeadm() -> None:
    (found,) = documents(DEPLOY / "base/configmap.yaml")
    assert found["data"] == {"Corefile": KUBEADM}


@pytest.mark.parametrize(
    "path", of_files(*(each for each in FILES if not {"doctor", "faults"} & {*each.parts}))
)
def test_rights_are_those_of_coredns_and_no_others(path: Path) -> None:
    """The doctor and the faults are for people; tests/sources/test_cluster_dump.py and tests/cli/test_doctor_pod.py have what it needs."""
    for document in documents(path):
        rights = {
            (group, resource, verb)
            for rule in document.get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        if document["kind"] == "ClusterRole":
            assert rights == STOCK_RIGHTS
        elif rights and "loadtest" in path.parts:
            assert rights == OF_THE_JOB
        else:
            assert rights <= STOCK_RIGHTS


@pytest.mark.parametrize(
    "path", of_files(*(each for each in FILES if each.name == "configmap.yaml"))
)
def test_corefiles_are_valid(path: Path) -> None:
    (found,) = documents(path)
    there = {"hsdns": ["169.254.20.10", "fd68:7364:6e73::53"]}
    environ = {"POD_NAMESPACE": "shop", "CLUSTER_DNS": "10.96.0.10"}
    made = assembled(found["data"]["Corefile"], environ=environ, interfaces=lambda: there)
    if path.parent.name == "node-local":
        assert [each.listen.host for each in made.listeners] == there["hsdns"]


@pytest.mark.parametrize("path", of_files(*FILES))
def test_arguments_are_flags_and_files_are_mounted(path: Path) -> None:
    for document in documents(path):
        for container in containers_of(document):
            command, *words = container.get("args", [""])
            if command.startswith("-"):
                command, words = "", [command, *words]
            flags = parse_flags(words, FLAGS.get(command, coredns.Coredns.flags()))
            mounts = {each["name"]: each["mountPath"] for each in container.get("volumeMounts", ())}
            folders = [
                mounts.get(each["name"])
                for each in pod_of(document).get("volumes", ())
                if "configMap" in each
            ]
            if "conf" in flags and any(folders):
                assert str(flags["conf"]).rpartition("/")[0] in folders
            if "metrics" in flags:
                (port,) = container["ports"]
                assert flags["metrics"] == f":{port['containerPort']}"
                assert container["readinessProbe"]["httpGet"]["port"] == port["containerPort"]
            if command == "load":
                load = settings(words)
                assert (load.flags.job, load.flags.verify) == (document["metadata"]["name"], True)
                page = (ROOT / "docs/load.md").read_text()
                assert f"kubectl get configmaps -n hsdns-load -l {LABEL}={load.flags.job} " in page


def test_alerts_of_the_audit_use_metrics_and_verdicts_that_there_are() -> None:
    known = {metric.name for metric in Gauges().registry}
    (found,) = documents(DEPLOY / "audit/watch/alerts.yaml")
    (board,) = documents(DEPLOY / "grafana/fleet.json")
    shown = [target for panel in board["panels"] for target in panel["targets"]]
    for rule in [*found["spec"]["groups"][0]["rules"], *shown]:
        used = set(re.findall(r"hsdns_audit_\w+", rule["expr"]))
        assert used
        assert used <= known
        for words in re.findall(r'verdict[=!~]+"([^"]*)"', rule["expr"]):
            assert set(words.split("|")) <= set(WORDS)


def test_one_image_is_pulled_and_has_one_name() -> None:
    """Not even to look: a cluster without a way out has only the image that was loaded."""
    paths = [each for each in DEPLOY.rglob("*") if each.is_file() and each.suffix != ".pyc"]
    # The compose file in testing.md is for no cluster.
    paths += [each for each in (ROOT / "docs").glob("*.md") if each.name != "testing.md"]
    pulled = re.compile(r"(?:^[ -]*image: *|--image[= ])\"?([\w./:-]+)", re.MULTILINE)
    found = [
        name for path in [*paths, ROOT / "README.md"] for name in pulled.findall(path.read_text())
    ]
    assert found
    assert [name for name in found if not name.startswith("ghcr.io/hsdns/hsdns")] == []
    # One name everywhere: who builds the image gives it the name that is published.
    texts = [*paths, ROOT / "README.md", ROOT / "Dockerfile", *(ROOT / "hsdns").rglob("*.py")]
    short = re.compile(r"(?<![\w./@-])hsdns/hsdns(?=[:\s\"']|$)")
    assert [path for path in texts if short.search(path.read_text())] == []
    # A dot or a colon before the first slash would be a host.
    for name in re.findall(
        r"(?:PYTHON=|RUST=|FROM) *([\w./:-]+/[\w./:-]+)", (ROOT / "Dockerfile").read_text()
    ):
        assert not re.search(r"[.:]", name.partition("/")[0]), name


# --- rendered ---


@needs_kubectl
@pytest.mark.slow
@pytest.mark.parametrize("folder", RENDERED)
def test_objects_are_whole(folder: str) -> None:
    objects = kustomize(folder)
    assert objects
    for manifest in objects:
        check(manifest)
        for container in containers_of(manifest):
            assert container["image"] == IMAGE or folder == "overlays/sidecar"
            if CONTROL[1] in container.get("args", []):
                # The folder of the socket is made by hsdns: the volume itself is open to every user of the pod.
                (mount,) = (each for each in container["volumeMounts"] if each["name"] == "run")
                assert Path(CONTROL[1]).parent.parent == Path(mount["mountPath"])
                assert Path(CONTROL[1]).parent == control_path.SYSTEM, "where hsdns looks for it"
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
    wide = {each["metadata"]["name"] for each in objects if each["kind"] in CLUSTER_WIDE}
    assert not wide or folder != "overlays/sidecar", "it needs rights in one namespace only"


@needs_kubectl
@pytest.mark.slow
def test_the_sidecar_serves_only_its_own_pod() -> None:
    objects = kustomize("overlays/sidecar")
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    corefile = one(objects, "ConfigMap")["data"]["Corefile"]
    assert corefile.count("bind 127.0.0.1\n") == corefile.count("{\n    bind")
    environ = {each["name"]: each.get("value", "shop") for each in sidecar["env"]}
    assert set(re.findall(r"{\$(\w+)}", corefile)) == {*environ}
    assert pod["dnsConfig"]["nameservers"] == ["127.0.0.1", environ["CLUSTER_DNS"]]
    shipped = [re.sub(r"{\$(\w+)}", lambda word: environ[word[1]], each) for each in corefile.splitlines()]  # fmt: skip
    shown = (ROOT / "docs/sidecar.md").read_text().partition("```corefile\n")[2].partition("```")[0]
    assert [each for each in shown.splitlines() if each not in shipped] == []
    probes = {sidecar[f"{name}Probe"]["httpGet"]["port"] for name in ("readiness", "liveness")}
    assert {int(port) for port in re.findall(r"(?:health|ready) :(\d+)", corefile)} == probes


@needs_kubectl
@pytest.mark.slow
def test_the_node_local_server_has_one_address_everywhere() -> None:
    objects = kustomize("overlays/node-local")
    found = one(objects, "DaemonSet")["spec"]
    pod = found["template"]["spec"]
    (container,), (creation,) = pod["containers"], pod["initContainers"]
    address = container["livenessProbe"]["httpGet"]["host"]
    # Two pods at once: a port on the host network is one that only one of them can have.
    assert found["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert ("--reuseport" in container["args"], "ports" in container) == (True, False)
    assert container["readinessProbe"]["exec"]["command"][-2:] == CONTROL
    flags = parse_flags(creation["args"][1:], interface.Interface.flags())
    assert isinstance(flags["address"], list)
    assert [ip_address(each).version for each in flags["address"]] == [4, 6]
    assert flags["address"][0] == address
    assert not ip_address(flags["address"][1]).is_global
    corefile = one(objects, "ConfigMap")["data"]["Corefile"]
    for line in (f"bind {flags['name']} ", f"health {address}:8080 {{"):
        assert line in corefile


@pytest.mark.night
@pytest.mark.skipif(bool(refusal()), reason=refusal() or "namespaces can be made")
@pytest.mark.parametrize("how", [(), ("--by-hand",)])
def test_no_lookup_fails_while_the_node_local_server_is_replaced(how: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "loadtest.handover", "2000", *how]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, ""), found.stdout


# --- the sidecar at work ---

CLUSTER_DNS = """
.:PORT_UPSTREAM {
    bind 127.0.0.1
    hosts {
        10.96.0.99 db.shop.svc.cluster.local db.other.svc.cluster.local example.org
    }
}
"""
OBJECTS = Path(__file__).with_name("manifests.txt").read_text()


async def answers(folder: Path, *questions: str) -> list[str]:
    found = yaml.safe_load((DEPLOY / "components/sidecar/configmap.yaml").read_text())
    text = found["data"]["Corefile"] + CLUSTER_DNS
    text = text.replace("cluster.local {\n", "cluster.local {\nendpoint URL\n")
    text = text.replace(":53 {", ":PORT_DNS {").replace("lameduck 5s", "lameduck 0s")
    text = re.sub(r" :(1\d{4})\b", r" 127.0.0.1:PORT_\1", text)
    environ = {"POD_NAMESPACE": "shop", "CLUSTER_DNS": "127.0.0.1:PORT_UPSTREAM"}
    async with watching(folder, text, OBJECTS, environ=environ) as found:
        with UdpClient() as client:
            address = "127.0.0.1", found.ports["PORT_DNS"]
            asked = [query(qname).to_wire() for qname in questions]
            return [summary((await client.ask(each, address))[0]) for each in asked]


@pytest.mark.sockets
def test_what_the_sidecar_answers(tmp_path: Path) -> None:
    """Its own namespace from its watch, all else from the cluster's DNS; of its own it does not ask the other."""
    names = ("web.shop.svc", "db.shop.svc", "db.other.svc", "alias.shop.svc")
    questions = [*(f"{name}.cluster.local" for name in names), "example.org"]
    own, none, other, alias, outside = run(answers(tmp_path, *questions))
    assert own == "1 NOERROR qr aa rd | web.shop.svc.cluster.local. 5 IN A 10.96.0.1 |  | "
    assert none.startswith(
        "1 NXDOMAIN qr aa rd |  | cluster.local. 5 IN SOA ns.dns.cluster.local. "
    )
    assert other == "1 NOERROR qr aa rd | db.other.svc.cluster.local. 30 IN A 10.96.0.99 |  | "
    to = "alias.shop.svc.cluster.local. 5 IN CNAME db.other.svc.cluster.local."
    assert (
        alias == f"1 NOERROR qr aa rd | {to} db.other.svc.cluster.local. 30 IN A 10.96.0.99 |  | "
    )
    assert outside == "1 NOERROR qr aa rd | example.org. 30 IN A 10.96.0.99 |  | "


# The test for clusterloader2: its templates make the objects of loadtest/kubernetes, and its commands are valid.

FOLDER = DEPLOY / "clusterloader2"
NAMESPACE = "hsdns-load-1"
DEFAULT = re.compile(r"(?m)^\{\{\$(\w+) := DefaultParam \.CL2_HSDNS_\1 (.+)\}\}$")


def rendered(name: str, values: dict[str, str]) -> Any:
    """A template with the values of its placeholders."""
    text = DEFAULT.sub("", (FOLDER / name).read_text())
    return yaml.safe_load(re.sub(r"\{\{([$.]\w+)\}\}", lambda found: values[found[1]], text))


def test_objects_are_those_of_the_job() -> None:
    defaults = {
        f"${name}": json.loads(value)
        for name, value in DEFAULT.findall((FOLDER / "config.yaml").read_text())
    }
    config = rendered("config.yaml", {name: str(value) for name, value in defaults.items()})
    assert config["namespace"] == {"number": 1, "prefix": NAMESPACE.removesuffix("-1")}
    tuning = {each["name"] for each in config["tuningSets"]}
    made: dict[str, list[Any]] = {"0": [], "1": []}
    for phase in (each for step in config["steps"] for each in step.get("phases", ())):
        assert phase["tuningSet"] in tuning
        for each in phase["objectBundle"]:
            own = {
                f".{name}": str(value) for name, value in each.get("templateFillMap", {}).items()
            }
            values = {".Name": f"{each['basename']}-0", ".Namespace": NAMESPACE, **own}
            made[str(phase["replicasPerNamespace"])].append(
                rendered(each["objectTemplatePath"], values)
            )
    assert [each["kind"] for each in made["0"]] == ["ClusterRole", "ClusterRoleBinding"]
    assert made["0"] == made["1"][:2]
    paths = (DEPLOY.parent / "loadtest/kubernetes").glob("*.yaml")
    there = [
        each
        for path in paths
        for each in yaml.safe_load_all(path.read_text())
        if each["kind"] not in ("Kustomization", "Namespace")
    ]
    (job,) = (each for each in made["1"] if each["kind"] == "Job")
    assert job["metadata"].pop("labels") == {"group": NAMESPACE.removesuffix("-1")}
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"ghcr.io/hsdns/hsdns:{__version__}"
    container["image"] = "ghcr.io/hsdns/hsdns"
    assert container["args"].pop() == f"--fail-if={defaults['$FAIL_IF']}"
    assert Load.parse(container["args"][1:]) is not None
    assert sorted(map(plain, made["1"])) == sorted(map(plain, there))
    *_, measured = (each for step in config["steps"] for each in step.get("measurements", ()))
    command = measured["Params"]["command"][-1]
    assert (
        f"kubectl get configmaps -n {NAMESPACE} -l {LABEL}={job['metadata']['name']} -o json | hsdns load"
        in command
    )
    merge = Merge.parse(command.partition("hsdns load merge ")[2].partition(" > ")[0].split())
    assert merge is not None
    assert (merge.words, merge.o) == (["-"], PERFDATA)


def plain(found: Any) -> str:
    """An object without what its names and its namespace have of clusterloader2."""
    found["metadata"].pop("namespace", None)
    return (
        re.sub(r"-[01]\b(?=\")", "", json.dumps(found, sort_keys=True))
        .replace("-0=", "=")
        .replace("=load-0", "=load")
    )


# The chart: its values, their schema and its templates fit together, and Prometheus stores what alerts and dashboard select.

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
