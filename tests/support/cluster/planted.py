"""Small clusters whose names all resolve, and mistakes to plant in them: each is what a person may have written or met.

Path: tests only: a seed -> applications -> plant() -> dumped.py (a cluster) -> explain, doctor, lint.
Rule 1: an application has a name of its own that is like no other, so that what a tool names is not found by chance.
Rule 2: a mistake is one change; the words with it are those that a sentence about it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

Item = dict[str, Any]
_NAMES: Final = ("accounts", "billing", "catalog", "delivery", "events", "forecast", "gateway", "harbor", "invoices")  # fmt: skip
_SPACES: Final = ("shop-prod", "lab-two")
_READY: Final = [{"type": "Ready", "status": "True"}]
_UNREADY: Final = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]


class App(NamedTuple):
    """A Service with what stands behind it; `source` is the workload, the Pod or the EndpointSlice."""

    service: Item
    source: Item | None
    items: list[Item]

    @property
    def name(self) -> str:
        """The name of the Service."""
        return str(self.service["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.service["metadata"]["namespace"])

    @property
    def kind(self) -> str:
        """The kind of what stands behind it."""
        return self.source["kind"] if self.source is not None else "ExternalName"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its pods."""
        assert self.source is not None
        meta = self.source["spec"]["template"]["metadata"] if "template" in self.source.get("spec", {}) else self.source["metadata"]  # fmt: skip
        found: dict[str, str] = meta.setdefault("labels", {})
        return found

    @property
    def ports(self) -> list[Item]:
        """The ports of the Service."""
        found: list[Item] = self.service["spec"].get("ports", [])
        return found


class Planted(NamedTuple):
    """A mistake: its kind, and words of which a sentence about it has all; "a|b" stands for one of two."""

    kind: str
    words: tuple[str, ...]
    app: App


def applications(random: Random, count: int) -> list[App]:
    """Applications whose names resolve and lead somewhere."""
    found: list[App] = []
    for name in random.sample(_NAMES, count):
        made = random.choice(
            (_deployment, _deployment, _stateful_set, _stateful_set, _pod, _slice, _others)
        )
        namespace = random.choice(_SPACES)
        key = random.choice(("app", "app", "app.kubernetes.io/name"))
        found.append(made(random, namespace, name, {key: name}))
    if random.random() < 0.3:
        found.append(_external(random, found))
    return found


def _object(version: str, kind: str, namespace: str, name: str, **fields: Any) -> Item:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}  # fmt: skip


def _service(random: Random, namespace: str, name: str, labels: dict[str, str]) -> Item:
    port: Item = {"name": random.choice(("http", "grpc")), "port": 8080}
    if random.random() < 0.5:
        port["targetPort"] = "serve"
    spec: Item = {"ports": [port], **({"selector": dict(labels)} if labels else {})}
    if labels and random.random() < 0.2:
        spec["ports"].append({"name": "metrics", "port": 9090})
    if random.random() < 0.1:
        spec["publishNotReadyAddresses"] = True
    if random.random() < 0.5:
        spec["clusterIP"] = "None"
    else:
        spec["clusterIP"] = f"10.96.{random.randrange(200)}.{random.randrange(1, 250)}"
    return _object("v1", "Service", namespace, name, spec=spec)


def _template(labels: dict[str, str]) -> Item:
    container = {
        "name": "main",
        "image": "registry.example.org/main:1",
        "ports": [{"name": "serve", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
    }
    return {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container]}}


def _deployment(random: Random, namespace: str, name: str, labels: dict[str, str]) -> App:
    spec = {
        "replicas": random.choice((1, 2)),
        "selector": {"matchLabels": dict(labels)},
        "template": _template(labels),
    }
    source = _object("apps/v1", "Deployment", namespace, name, spec=spec)
    service = _service(random, namespace, name, labels)
    return App(service, source, [service, source])


def _stateful_set(random: Random, namespace: str, name: str, labels: dict[str, str]) -> App:
    service = _service(random, namespace, name, labels)
    service["spec"]["clusterIP"] = "None"
    spec = {
        "serviceName": name,
        "replicas": random.choice((1, 2, 3)),
        "selector": {"matchLabels": dict(labels)},
        "template": _template(labels),
    }
    source = _object("apps/v1", "StatefulSet", namespace, name, spec=spec)
    return App(service, source, [service, source])


def _others(random: Random, namespace: str, name: str, labels: dict[str, str]) -> App:
    """A Job that runs, or a DaemonSet."""
    kind, version = random.choice((("Job", "batch/v1"), ("DaemonSet", "apps/v1")))
    spec: Item = {"parallelism": 1, "completions": 1} if kind == "Job" else {}
    template = _template(labels)
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": dict(labels)}
    source = _object(version, kind, namespace, name, spec={**spec, "template": template})
    service = _service(random, namespace, name, labels)
    return App(service, source, [service, source])


def _pod(random: Random, namespace: str, name: str, labels: dict[str, str]) -> App:
    service = _service(random, namespace, name, labels)
    service["spec"]["clusterIP"] = "None"
    spec = {**_template(labels)["spec"], "hostname": "one", "subdomain": name}
    source = _object("v1", "Pod", namespace, f"{name}-pod", spec=spec)
    source["metadata"]["labels"] = dict(labels)
    source["status"] = _running(random)
    return App(service, source, [service, source])


def _slice(random: Random, namespace: str, name: str, labels: dict[str, str]) -> App:
    service = _service(random, namespace, name, {})
    port = {"name": service["spec"]["ports"][0]["name"], "protocol": "TCP", "port": 8080}
    service["spec"]["ports"][0].pop("targetPort", None)
    source = _object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        namespace,
        f"{name}-1",
        addressType="IPv4",
        ports=[port],
        endpoints=[{"addresses": [_address(random)], "conditions": {"ready": True}}],
    )
    source["metadata"]["labels"] = {"kubernetes.io/service-name": name}
    return App(service, source, [service, source])


def _external(random: Random, others: list[App]) -> App:
    target = "db.example.com"
    if others and random.random() < 0.6:
        other = random.choice(others)
        target = f"{other.name}.{other.namespace}.svc.cluster.local"
    spec = {"type": "ExternalName", "externalName": target}
    service = _object("v1", "Service", random.choice(_SPACES), "outside", spec=spec)
    return App(service, None, [service])


def _address(random: Random) -> str:
    return f"10.244.{random.randrange(250)}.{random.randrange(1, 250)}"


def _running(random: Random) -> Item:
    at = _address(random)
    return {"phase": "Running", "podIP": at, "podIPs": [{"ip": at}], "conditions": list(_READY)}


# Mistakes: a function changes an application, and gives the words; None if it has nothing that can be wrong so.

Mistake = Callable[[Random, App], "tuple[str, ...] | None"]
MISTAKES: Final[dict[str, Mistake]] = {}


def _mistake(function: Mistake) -> Mistake:
    MISTAKES[function.__name__.strip("_").replace("_", " ")] = function
    return function


def plant(random: Random, apps: list[App], kinds: Sequence[str] = ()) -> Iterator[Planted]:
    """Plant a mistake in each of the applications, of one of the kinds, or any, that fit."""
    for app in apps:
        for kind in random.sample([*(kinds or MISTAKES)], len(kinds or MISTAKES)):
            words = MISTAKES[kind](random, app)
            if words is not None:
                yield Planted(kind, words, app)
                break


def text_of(apps: list[App]) -> str:
    """The manifests, a line for each."""
    return "\n---\n".join(json.dumps(item) for app in apps for item in app.items) + "\n"


def _misspelt(random: Random, word: str) -> str:
    at = random.randrange(1, len(word) - 1)
    doubled, left_out = word[:at] + word[at:at + 1] + word[at:], word[:at] + word[at + 1:]  # fmt: skip
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return random.choice([each for each in (doubled, left_out, swapped) if each != word])


def _selects(app: App) -> dict[str, str]:
    found: dict[str, str] = app.service["spec"].get("selector", {})
    return found


@_mistake
def _selector_value(random: Random, app: App) -> tuple[str, ...] | None:
    for key, value in _selects(app).items():
        wrong = _misspelt(random, value)
        _selects(app)[key] = wrong
        return f"{key}={wrong}", f"{key}={value}"
    return None


@_mistake
def _selector_value_of_another_word(random: Random, app: App) -> tuple[str, ...] | None:
    for key, value in _selects(app).items():
        _selects(app)[key] = f"{value}-backend"
        return f"{key}={value}-backend", f"{key}={value}"
    return None


@_mistake
def _selector_key(random: Random, app: App) -> tuple[str, ...] | None:
    for key, value in [*_selects(app).items()]:
        del _selects(app)[key]
        wrong = "name" if key == "app" else "app"
        _selects(app)[wrong] = value
        return f"{wrong}={value}", f"{key}={value}"
    return None


@_mistake
def _selector_with_one_label_more(random: Random, app: App) -> tuple[str, ...] | None:
    if not _selects(app):
        return None
    _selects(app)["tier"] = "front"
    return ("tier=front",)


@_mistake
def _template_label(random: Random, app: App) -> tuple[str, ...] | None:
    for key, value in _selects(app).items():
        wrong = _misspelt(random, value)
        app.labels[key] = wrong
        if app.source is not None and "selector" in app.source["spec"]:
            app.source["spec"]["selector"]["matchLabels"][key] = wrong
        return f"{key}={value}", f"{key}={wrong}"
    return None


@_mistake
def _service_in_another_namespace(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind in ("ExternalName", "StatefulSet"):
        return None
    other = "elsewhere"
    was = app.namespace
    app.service["metadata"]["namespace"] = other
    return other, was


@_mistake
def _target_port(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind in ("ExternalName", "EndpointSlice"):
        return None
    app.ports[0]["targetPort"] = "sevre"
    return "sevre", "serve"


@_mistake
def _container_port_name(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind in ("ExternalName", "EndpointSlice") or app.ports[0].get("targetPort") != "serve":
        return None
    assert app.source is not None
    spec = app.source["spec"].get("template", app.source).get("spec")
    spec["containers"][0]["ports"][0]["name"] = "web"
    return "serve", "web"


@_mistake
def _service_name(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "StatefulSet":
        return None
    assert app.source is not None
    wrong = f"{app.name}-headless"
    app.source["spec"]["serviceName"] = wrong
    return wrong, f"StatefulSet|{app.name}"


@_mistake
def _subdomain(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "Pod":
        return None
    assert app.source is not None
    app.source["spec"]["subdomain"] = f"{app.name}-headless"
    return f"{app.name}-headless", app.name


@_mistake
def _hostname(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "Pod":
        return None
    assert app.source is not None
    del app.source["spec"]["hostname"]
    return "hostname", app.name


@_mistake
def _replicas(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind not in ("StatefulSet", "Deployment"):
        return None
    assert app.source is not None
    app.source["spec"]["replicas"] = 0
    return app.kind, app.name, "replicas"


@_mistake
def _slice_of_another_service(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "EndpointSlice":
        return None
    assert app.source is not None
    wrong = _misspelt(random, app.name)
    app.source["metadata"]["labels"]["kubernetes.io/service-name"] = wrong
    return wrong, f"{app.name}-1"


@_mistake
def _slice_port_name(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "EndpointSlice":
        return None
    assert app.source is not None
    app.source["ports"][0]["name"] = "other"
    return "other", app.ports[0]["name"], f"{app.name}-1"


@_mistake
def _slice_without_ports(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "EndpointSlice":
        return None
    assert app.source is not None
    del app.source["ports"]
    return "no port|without port", f"{app.name}-1"


@_mistake
def _slice_not_ready(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "EndpointSlice":
        return None
    assert app.source is not None
    app.source["endpoints"][0]["conditions"]["ready"] = False
    return "0 of 1", "ready"


@_mistake
def _slice_without_endpoints(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "EndpointSlice":
        return None
    assert app.source is not None
    app.source["endpoints"] = []
    return f"{app.name}-1", "empty|no endpoints"


@_mistake
def _no_slice(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "EndpointSlice":
        return None
    app.items.remove(app.source or {})
    return "selector", "EndpointSlice"


@_mistake
def _external_name_is_an_address(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "ExternalName":
        return None
    app.service["spec"]["externalName"] = "10.1.2.3"
    return "10.1.2.3", "externalName|address"


@_mistake
def _external_name_of_nothing(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "ExternalName":
        return None
    app.service["spec"]["externalName"] = "nothing.lab-two.svc.cluster.local"
    return ("nothing.lab-two.svc.cluster.local|nothing",)


@_mistake
def _external_name_is_itself(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "ExternalName":
        return None
    app.service["spec"]["externalName"] = f"{app.name}.{app.namespace}.svc.cluster.local"
    return "itself|own name", "outside"


def _pods_with(random: Random, app: App, **status: Any) -> list[str] | None:
    """Give the pods of an application a status; their names, None if it has none."""
    app.service["spec"].pop("publishNotReadyAddresses", None)
    if app.kind == "Pod":
        assert app.source is not None
        app.source["status"] |= status
        return [app.source["metadata"]["name"]]
    if app.kind not in ("StatefulSet", "Deployment"):
        return None
    assert app.source is not None
    spec, meta = app.source["spec"], app.source["metadata"]
    names = []
    for number in range(spec["replicas"]):
        owner = {"kind": app.kind, "name": meta["name"], "controller": True}
        name, labels = f"{meta['name']}-{number}", dict(app.labels)
        identity = {"hostname": name, "subdomain": spec.get("serviceName")}
        if app.kind == "Deployment":
            name, identity = f"{meta['name']}-6d4f9-abcd{number}", {}
            labels["pod-template-hash"] = "6d4f9"
            owner = {"kind": "ReplicaSet", "name": f"{meta['name']}-6d4f9", "controller": True}
        pod = _object(
            "v1", "Pod", meta["namespace"], name, spec={**spec["template"]["spec"], **identity}
        )
        pod["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
        pod["status"] = {**_running(random), **status}
        app.items.append(pod)
        names.append(name)
    return names


def _waiting(why: str, message: str = "", **last: Any) -> list[Item]:
    state: Item = {"waiting": {"reason": why, **({"message": message} if message else {})}}
    status: Item = {"name": "main", "image": "registry.example.org/main:1", "ready": False, "state": state}  # fmt: skip
    if last:
        status |= {"restartCount": 4, "lastState": {"terminated": last}}
    return [status]


@_mistake
def _readiness_probe(random: Random, app: App) -> tuple[str, ...] | None:
    running = [{"name": "main", "ready": False, "state": {"running": {}}}]
    names = _pods_with(random, app, conditions=_UNREADY, containerStatuses=running)
    return ("readinessProbe", "|".join(names)) if names else None


@_mistake
def _crash_loop(random: Random, app: App) -> tuple[str, ...] | None:
    states = _waiting("CrashLoopBackOff", exitCode=3, reason="Error")
    names = _pods_with(random, app, conditions=_UNREADY, containerStatuses=states)
    return ("CrashLoopBackOff", "|".join(names), "3") if names else None


@_mistake
def _image(random: Random, app: App) -> tuple[str, ...] | None:
    states = _waiting("ImagePullBackOff", 'Back-off pulling image "registry.example.org/main:1"')
    names = _pods_with(random, app, phase="Pending", conditions=_UNREADY, containerStatuses=states)
    return ("ImagePullBackOff", "registry.example.org/main:1", "|".join(names)) if names else None


@_mistake
def _unschedulable(random: Random, app: App) -> tuple[str, ...] | None:
    message = "0/3 nodes are available: 3 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}  # fmt: skip
    names = _pods_with(random, app, phase="Pending", podIP="", podIPs=[], conditions=[condition])
    return ("Insufficient cpu", "|".join(names)) if names else None


@_mistake
def _one_pod_of_several(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "StatefulSet" or app.service["spec"].get("publishNotReadyAddresses"):
        return None
    names = _pods_with(random, app)
    if not names:
        return None
    status = app.items[-1]["status"]
    status |= {
        "conditions": _UNREADY,
        "containerStatuses": _waiting("CrashLoopBackOff", exitCode=4),
    }
    return "CrashLoopBackOff", names[-1], "4"


@_mistake
def _terminating(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind not in ("StatefulSet", "Pod"):
        return None
    names = _pods_with(random, app) or []
    for each in app.items:
        if each["kind"] == "Pod":
            each["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    return "terminating", "|".join(names)


@_mistake
def _protocol(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind in ("ExternalName", "EndpointSlice") or app.ports[0].get("targetPort") != "serve":
        return None
    app.ports[0]["protocol"] = "UDP"
    return "UDP", "TCP", "serve"


@_mistake
def _readiness_gate(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind not in ("StatefulSet", "Deployment", "Pod"):
        return None
    assert app.source is not None
    spec = app.source["spec"].get("template", app.source).get("spec")
    spec["readinessGates"] = [{"conditionType": "example.com/gate"}]
    conditions = [
        {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"},
        {"type": "ContainersReady", "status": "True"},
    ]
    names = _pods_with(random, app, conditions=conditions)
    return ("example.com/gate", "|".join(names)) if names else None


@_mistake
def _finished(random: Random, app: App) -> tuple[str, ...] | None:
    done = [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]
    names = _pods_with(random, app, phase="Succeeded", conditions=done)
    return ("|".join(names), "finished|Succeeded|completed|ended") if names else None


@_mistake
def _quota(random: Random, app: App) -> tuple[str, ...] | None:
    if app.kind != "Deployment":
        return None
    assert app.source is not None
    message = 'pods "x" is forbidden: exceeded quota: small'
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}  # fmt: skip
    app.source["status"] = {"conditions": [failed]}
    meta, spec = app.source["metadata"], app.source["spec"]
    template = json.loads(json.dumps(spec["template"]))
    template["metadata"]["labels"]["pod-template-hash"] = "6d4f9"
    owned = _object("apps/v1", "ReplicaSet", meta["namespace"], f"{meta['name']}-6d4f9")
    owned["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": meta["name"], "controller": True}]  # fmt: skip
    owned["spec"] = {"replicas": spec["replicas"], "template": template}
    owned["status"] = {"replicas": 0, "conditions": [failed]}
    app.items.append(owned)
    return ("exceeded quota: small",)


# What should be, by the specification of DNS in Kubernetes: https://github.com/kubernetes/dns/blob/master/docs/specification.md


def failing_names(items: list[Item]) -> Iterator[str]:
    """The names that the objects mean, and that have no record, or lead to nothing: without a look at hsdns."""
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
            if (meta["namespace"], owner) != key:
                continue
            for endpoint in each.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready", True) is not False:
                    yield each, endpoint

    def reaches(key: tuple[str, str], port: str) -> bool:
        return any(
            (found.get("name") or "") == port
            for part, _ in behind(key)
            for found in part.get("ports") or ()
        )

    def leads(key: tuple[str, str], depth: int = 0) -> bool:
        """Whether the name of a Service leads to something."""
        spec = services.get(key)
        if spec is None or depth > len(services):
            return False
        if spec.get("type") == "ExternalName":
            target = spec["externalName"].rstrip(".")
            inside = target.removesuffix(".svc.cluster.local")
            if inside == target:
                return not target.replace(".", "").isdigit()
            name, namespace = inside.split(".")
            return leads((namespace, name), depth + 1)
        if spec.get("clusterIP") == "None" or not spec.get("ports"):
            return any(True for _ in behind(key))
        return any(reaches(key, each.get("name") or "") for each in spec["ports"])

    for (namespace, name), spec in services.items():
        own = f"{name}.{namespace}.svc"
        if not leads((namespace, name)):
            yield own
        ports = [each.get("name") or "" for each in spec.get("ports") or ()]
        for port in filter(None, ports):
            if not reaches((namespace, name), port):
                protocol = next(
                    each.get("protocol", "TCP")
                    for each in spec["ports"]
                    if each.get("name") == port
                )
                yield f"_{port}._{protocol.lower()}.{own}"
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
            meant = {
                f"{meta['name']}-{number}.{spec['serviceName']}.{meta['namespace']}.svc"
                for number in range(spec.get("replicas", 1))
            }
        owners = [owner["kind"] for owner in meta.get("ownerReferences", ())]
        is_over = each.get("status", {}).get("phase") in ("Succeeded", "Failed")
        is_own = each["kind"] == "Pod" and "StatefulSet" not in owners and not is_over
        if is_own and spec.get("hostname") and spec.get("subdomain"):
            meant = {f"{spec['hostname']}.{spec['subdomain']}.{meta['namespace']}.svc"}
        yield from sorted(meant - hostnames)
