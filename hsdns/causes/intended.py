"""The names that the objects mean to exist, with what each should lead to.

Path: failing.py -> here.
Rule 1: a Service means its own name and those of its named ports, `_NAME._PROTOCOL`; a StatefulSet with a serviceName
        the name of each ordinal below it; a pod with hostname and subdomain its own.
Rule 2: an ExternalName means its own name only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hsdns.causes.view import Controlled, View
from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.controllers.workload import TERMINAL
from hsdns.cluster.objects import Service, ServicePort

MOST_PODS: Final = 10_000  # of a StatefulSet; a cluster has 150,000 at most


class Intended(NamedTuple):
    """A name without its zone, such as "db-0.db.shop.svc".

    `service` is the one that it is below, by name; `port` is that of an SRV name, `pod` the pod that it leads to.
    """

    name: str
    namespace: str
    service: str
    port: ServicePort | None = None
    pod: str = ""


def of_service(service: Service) -> Iterator[Intended]:
    """The names of a Service."""
    namespace, name = service.key
    own = f"{name}.{namespace}.svc"
    yield Intended(own, namespace, name)
    if service.spec.type == "ExternalName":
        return
    for port in service.spec.ports or ():
        if port.name:
            protocol = (port.protocol or "TCP").lower()
            yield Intended(f"_{port.name}._{protocol}.{own}", namespace, name, port)


def of_workload(found: Controlled) -> Iterator[Intended]:
    """The names of the pods of a StatefulSet."""
    meta, spec = found.workload.metadata, found.workload.spec
    if found.kind != "StatefulSet" or not spec.service_name:
        return
    count = min(spec.replicas or 0, MOST_PODS)
    for ordinal in range(spec.ordinals.start, spec.ordinals.start + count):
        pod = f"{meta.name}-{ordinal}"
        name = f"{pod}.{spec.service_name}.{meta.namespace}.svc"
        yield Intended(name, meta.namespace, spec.service_name, None, pod)


def of_pod(pod: PodManifest) -> Iterator[Intended]:
    """The name of a pod with a hostname and a subdomain."""
    meta, spec = pod.metadata, pod.spec
    if spec.hostname and spec.subdomain:
        name = f"{spec.hostname}.{spec.subdomain}.{meta.namespace}.svc"
        yield Intended(name, meta.namespace, spec.subdomain, None, meta.name)


def intended(view: View) -> Iterator[Intended]:
    """All names that the objects mean to exist, each once."""
    for service in view.services.values():
        yield from of_service(service)
    for namespace in sorted(view.namespaces):
        found: dict[str, Intended] = {}
        for workload in view.workloads(namespace):
            found |= {each.name: each for each in of_workload(workload)}
        for pod in view.pods(namespace):
            if pod.status.phase not in TERMINAL:
                found |= {each.name: each for each in of_pod(pod) if each.name not in found}
        yield from found.values()
