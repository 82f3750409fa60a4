"""Small clusters whose names all resolve, and mistakes to plant in them: each is what a person may have written or met.

Path: tests only: a seed -> applications -> plant() -> dumped.py (a cluster) -> explain, doctor, lint.
Rule 1: an application has a name of its own that is like no other, so that what a tool names is not found by chance.
Rule 2: planted.txt has the mistakes, each one change, and the words of a sentence about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from tests.support.tables import section

Item = dict[str, Any]
_NAMES: Final = ("accounts", "billing", "catalog", "delivery", "events", "forecast", "gateway", "harbor", "invoices")  # fmt: skip
_SPACES: Final = ("shop-prod", "lab-two")
_READY: Final = [{"type": "Ready", "status": "True"}]
_UNREADY: Final = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
_MADE: Final = ("Deployment", "StatefulSet", "Job", "DaemonSet", "Pod")
_KINDS: Final = {"made": _MADE, "named": _MADE, "several": ("Deployment", "StatefulSet", "Pod")}


class App(NamedTuple):
    """A Service with what stands behind it: `source` is the workload, the Pod or the EndpointSlice, {} for an alias."""

    service: Item
    source: Item
    items: list[Item]

    @property
    def name(self) -> str:
        """The name of the Service."""
        return str(self.service["metadata"]["name"])

    @property
    def kind(self) -> str:
        """The kind of what stands behind it."""
        return str(self.source.get("kind", "ExternalName"))

    @property
    def template(self) -> Item:
        """What has the labels and the spec of its pods."""
        found: Item = self.source["spec"].get("template", self.source)
        return found


class Planted(NamedTuple):
    """A mistake: its kind, and words of which a sentence about it has all; "a|b" stands for one of two."""

    kind: str
    words: tuple[str, ...]
    app: App


class Mistake(NamedTuple):
    """A row of the table."""

    kinds: str
    changes: list[str]
    words: str

    def fits(self, app: App) -> bool:
        """Whether an application can have it."""
        ports = app.service["spec"].get("ports", [{}])
        is_named = self.kinds != "named" or ports[0].get("targetPort")
        return app.kind in _KINDS.get(self.kinds, self.kinds.split()) and bool(is_named)


def _mistakes() -> Iterator[tuple[str, Mistake]]:
    for line in section(Path(__file__).with_suffix(".txt"), "mistakes").splitlines():
        given, words = line.rsplit(" => ", 1)
        name, kinds, changes = given.split(" | ", 2)
        yield name, Mistake(kinds, changes.split(" ; "), words)


MISTAKES: Final = dict(_mistakes())


def applications(random: Random, count: int) -> list[App]:
    """Applications whose names resolve and lead somewhere."""
    found: list[App] = []
    for name in random.sample(_NAMES, count):
        kind = random.choice((*_MADE, "Deployment", "StatefulSet", "EndpointSlice"))
        key = random.choice(("app", "app", "app.kubernetes.io/name"))
        found.append(_application(random, kind, random.choice(_SPACES), name, {key: name}))
    if random.random() < 0.3:
        other = random.choice(found)
        inside = f"{other.name}.{other.service['metadata']['namespace']}.svc.cluster.local"
        spec = {"type": "ExternalName", "externalName": random.choice((inside, "db.example.com"))}
        service = _object("v1", "Service", random.choice(_SPACES), "outside", spec)
        found.append(App(service, {}, [service]))
    return found


def plant(random: Random, apps: list[App], kinds: Sequence[str] = ()) -> Iterator[Planted]:
    """Plant a mistake in each of the applications, of one of the kinds, or any, that fit."""
    for app in apps:
        fitting = [each for each in kinds or MISTAKES if MISTAKES[each].fits(app)]
        if fitting:
            kind = random.choice(fitting)
            yield Planted(kind, _planted(random, app, MISTAKES[kind]), app)


def text_of(apps: list[App]) -> str:
    """The manifests, a line for each."""
    return "\n---\n".join(json.dumps(item) for app in apps for item in app.items) + "\n"


def _object(version: str, kind: str, namespace: str, name: str, spec: Item) -> Item:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}  # fmt: skip


def _application(
    random: Random, kind: str, namespace: str, name: str, labels: dict[str, str]
) -> App:
    port: Item = {"name": random.choice(("http", "grpc")), "port": 8080}
    spec: Item = {"ports": [port]}
    service = _object("v1", "Service", namespace, name, spec)
    is_headless = kind in ("StatefulSet", "Pod") or random.random() < 0.5
    address = f"10.96.{random.randrange(200)}.{random.randrange(1, 250)}"
    spec["clusterIP"] = "None" if is_headless else address
    if kind == "EndpointSlice":
        source: Item = {
            **_object("discovery.k8s.io/v1", kind, namespace, f"{name}-1", {}),
            "addressType": "IPv4",
            "ports": [{"name": port["name"], "protocol": "TCP", "port": 8080}],
            "endpoints": [{"addresses": [_address(random)], "conditions": {"ready": True}}],
        }
        del source["spec"]
        source["metadata"]["labels"] = {"kubernetes.io/service-name": name}
        return App(service, source, [service, source])
    spec["selector"] = dict(labels)
    if random.random() < 0.5:
        port["targetPort"] = "serve"
    if random.random() < 0.2:
        spec["ports"].append({"name": "metrics", "port": 9090})
    if random.random() < 0.1:
        spec["publishNotReadyAddresses"] = True
    container = {
        "name": "main",
        "image": "registry.example.org/main:1",
        "ports": [{"name": "serve", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
    }
    template: Item = {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container]}}
    if kind == "Pod":
        source = _object("v1", kind, namespace, f"{name}-pod", template["spec"])
        source["metadata"]["labels"] = dict(labels)
        source["spec"] |= {"hostname": "one", "subdomain": name}
        source["status"] = _running(random)
    else:
        of_job = {"parallelism": 1, "completions": 1} if kind == "Job" else {"selector": {"matchLabels": dict(labels)}}  # fmt: skip
        version = "batch/v1" if kind == "Job" else "apps/v1"
        source = _object(version, kind, namespace, name, {**of_job, "template": template})
        if kind in ("Deployment", "StatefulSet"):
            source["spec"]["replicas"] = random.choice((1, 2))
        if kind == "StatefulSet":
            source["spec"]["serviceName"] = name
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
    return App(service, source, [service, source])


def _address(random: Random) -> str:
    return f"10.244.{random.randrange(250)}.{random.randrange(1, 250)}"


def _running(random: Random) -> Item:
    at = _address(random)
    return {"phase": "Running", "podIP": at, "podIPs": [{"ip": at}], "conditions": list(_READY)}


def _planted(random: Random, app: App, mistake: Mistake) -> tuple[str, ...]:
    """Change an application; the words, with what they stand for."""
    known = {"name": app.name, "kind": app.kind, "space": app.service["metadata"]["namespace"]}
    for change in mistake.changes:
        subject, _, rest = change.partition(" ")
        if subject in ("pods", "last", "deleted"):
            pods = [each for each in app.items if each["kind"] == "Pod"]
            if subject == "pods":
                pods = _pods(random, app)
                app.service["spec"].pop("publishNotReadyAddresses", None)
            for each in pods if subject == "deleted" else ():
                each["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
            pods = pods[-1:] if subject == "last" else pods
            for each in pods if rest else ():
                each["status"] |= json.loads(rest.replace("UNREADY", json.dumps(_UNREADY)))
            known["pods"] = "|".join(each["metadata"]["name"] for each in pods)
        elif subject == "items":
            app.items.remove(app.source)
        else:
            item = app.template if subject == "template" else getattr(app, subject)
            _change(random, item, rest, known)
    return tuple(word.replace("_", " ").format(**known) for word in mistake.words.split(" "))


def _change(random: Random, item: Any, change: str, known: dict[str, str]) -> None:
    path, sign, value = [*change.split(" ", 2), ""][:3]
    *steps, last = re.split(r"(?<!\*)\.", path)
    for step in steps:
        if step not in item and not isinstance(item, list):
            return  # a Pod has no selector
        item = item[int(step)] if isinstance(item, list) else item[step]
    key: Any = int(last) if isinstance(item, list) else next(iter(item)) if last == "*" else last
    if sign != "=" or isinstance(item.get(key), str):
        known |= {"key": str(key), "old": str(item[key])}
    if sign == "-":
        del item[key]
    elif sign == ">":
        other = value if key != value else "app"
        item[other] = item.pop(key)
    else:
        wrong = _misspelt(random, item[key]) if sign == "~" else json.loads(_filled(value, known))
        item[key] = wrong
        known["new"] = str(wrong)


def _filled(text: str, known: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: known[found[1]], text)


def _misspelt(random: Random, word: str) -> str:
    at = random.randrange(1, len(word) - 1)
    left_out, swapped = word[:at] + word[at + 1 :], word[:at] + word[at + 1] + word[at] + word[at + 2 :]  # fmt: skip
    return random.choice([each for each in (word[:at] + word[at - 1 :], left_out, swapped) if each != word])  # fmt: skip


def _pods(random: Random, app: App) -> list[Item]:
    """The pods of an application; those of a workload are made, as they are in a cluster."""
    if app.kind == "Pod":
        return [app.source]
    meta, spec, made = app.source["metadata"], app.source["spec"], []
    for number in range(spec["replicas"]):
        name, labels = f"{meta['name']}-{number}", dict(spec["template"]["metadata"]["labels"])
        identity = {"hostname": name, "subdomain": spec.get("serviceName")}
        owner = {"kind": app.kind, "name": meta["name"], "controller": True}
        if app.kind == "Deployment":
            name, identity = f"{meta['name']}-6d4f9-abcd{number}", {}
            labels["pod-template-hash"] = "6d4f9"
            owner = {"kind": "ReplicaSet", "name": f"{meta['name']}-6d4f9", "controller": True}
        pod = _object("v1", "Pod", meta["namespace"], name, {**spec["template"]["spec"], **identity})  # fmt: skip
        pod["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
        pod["status"] = _running(random)
        made.append(pod)
    app.items.extend(made)
    return made


def failing_names(items: list[Item]) -> Iterator[str]:
    """The names that the objects mean, and that have no record, or lead to nothing: without a look at hsdns.

    Source: https://github.com/kubernetes/dns/blob/master/docs/specification.md
    """
    services = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]
        for each in items
        if each["kind"] == "Service"
    }
    slices = [each for each in items if each["kind"] == "EndpointSlice"]

    def behind(key: tuple[str, str]) -> Iterator[tuple[Item, Item]]:
        """The endpoints that are ready, each with its slice."""
        for each in slices:
            meta = each["metadata"]
            owner = (meta.get("labels") or {}).get("kubernetes.io/service-name")
            is_skipped = each["addressType"] == "FQDN" and services[key].get("clusterIP") != "None"
            for endpoint in each.get("endpoints") or ():
                is_ready = (endpoint.get("conditions") or {}).get("ready", True) is not False
                if (meta["namespace"], owner) == key and is_ready and not is_skipped:
                    yield each, endpoint

    def reaches(key: tuple[str, str], port: str) -> bool:
        """Whether there are SRV records, which host names do not have."""
        parts = [part for part, _ in behind(key) if part["addressType"] != "FQDN"]
        return any((each.get("name") or "") == port for part in parts for each in part.get("ports") or ())  # fmt: skip

    def leads(key: tuple[str, str], depth: int = 0) -> bool:
        """Whether the name of a Service leads to something."""
        spec = services.get(key)
        if spec is None or depth > len(services):
            return False
        if spec.get("type") == "ExternalName":
            target = spec["externalName"].rstrip(".")
            inside = target.removesuffix(".svc.cluster.local")
            if inside == target:
                return not target.replace(".", "").isdigit() and not target.endswith(".svc")
            name, namespace = inside.split(".")
            return leads((namespace, name), depth + 1)
        if spec.get("clusterIP") == "None" or not spec.get("ports"):
            return any(True for _ in behind(key))
        return any(reaches(key, each.get("name") or "") for each in spec["ports"])

    for (namespace, name), spec in services.items():
        own = f"{name}.{namespace}.svc"
        if not leads((namespace, name)):
            yield own
        for port in spec.get("ports") or ():
            if port.get("name") and not reaches((namespace, name), port["name"]):
                yield f"_{port['name']}._{port.get('protocol', 'TCP').lower()}.{own}"
    hostnames = {
        f"{endpoint['hostname']}.{name}.{namespace}.svc"
        for namespace, name in services
        for _, endpoint in behind((namespace, name))
        if endpoint.get("hostname")
    }
    for each in items:
        meta, spec = each["metadata"], each.get("spec", {})
        meant = set()
        if each["kind"] == "StatefulSet" and spec.get("serviceName"):
            below = f"{spec['serviceName']}.{meta['namespace']}.svc"
            meant = {f"{meta['name']}-{number}.{below}" for number in range(spec.get("replicas", 1))}  # fmt: skip
        owners = [owner["kind"] for owner in meta.get("ownerReferences", ())]
        is_over = each.get("status", {}).get("phase") in ("Succeeded", "Failed")
        is_own = each["kind"] == "Pod" and "StatefulSet" not in owners and not is_over
        if is_own and spec.get("hostname") and spec.get("subdomain"):
            meant = {f"{spec['hostname']}.{spec['subdomain']}.{meta['namespace']}.svc"}
        yield from sorted(meant - hostnames)
