"""Kubernetes objects in one line each, and a kubernetes plugin that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hsdns.chain import Next
from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Deleted,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.source import Deliver, Report, Surroundings
from hsdns.corefile.properties import read_properties
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.eager import finish
from tests.support.requests import FakeRuntime, make_request, next_with

HTTP = "http/TCP/80"


def meta(path: str, version: str = "1", labels: dict[str, str] | None = None) -> ObjectMeta:
    """Metadata from `namespace/name`, or from a name alone."""
    namespace, _, name = path.rpartition("/")
    return ObjectMeta(name=name, namespace=namespace, resource_version=version, labels=labels)


def namespace(name: str, labels: dict[str, str] | None = None) -> Namespace:
    """Make a Namespace."""
    return Namespace(meta(name, labels=labels))


def service(
    path: str,
    *addresses: str,
    ports: Sequence[str] = (HTTP,),
    external: str | None = None,
    version: str = "1",
    labels: dict[str, str] | None = None,
) -> Service:
    """Make a Service: headless without addresses, ExternalName with `external`; ports as `name/protocol/number`."""
    spec = ServiceSpec(
        type="ExternalName" if external is not None else "ClusterIP",
        cluster_ips=None if external is not None else list(addresses) or ["None"],
        external_name=external,
        ports=[ServicePort(_number(port) or 0, *_words(port)) for port in ports],
    )
    return Service(meta(path, version, labels), spec)


def endpoint_slice(
    path: str,
    owner: str | None,
    *endpoints: str,
    ports: Sequence[str] = (HTTP,),
    version: str = "1",
    address_type: str = "IPv4",
    labels: dict[str, str] | None = None,
) -> EndpointSlice:
    """Make an EndpointSlice; an endpoint is `ADDRESS[,ADDRESS] [host=H] [pod=P] [ready=true|false]`."""
    own = {} if owner is None else {SERVICE_NAME_LABEL: owner}
    return EndpointSlice(
        meta(path, version, own | (labels or {})),
        address_type,
        [_endpoint(text) for text in endpoints],
        [EndpointPort(*_words(port), _number(port)) for port in ports],
    )


def pod(path: str, address: str, phase: str = "Running", version: str = "1") -> Pod:
    """Make a Pod."""
    return Pod(meta(path, version), PodStatus(address, phase))


def upserts(*objects: Object) -> list[Event]:
    """Events that add objects."""
    return [Upserted(found) for found in objects]


def deletes(*objects: Object) -> list[Event]:
    """Events that delete objects."""
    return [Deleted(found) for found in objects]


class EmptySource:
    """A source that delivers nothing: tests apply their events to the store."""

    def check(self) -> list[str]:
        """Nothing is missing."""
        return []

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver nothing."""

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver nothing."""

    def silence(self, now: float) -> float:
        """Always sure of the cluster's state."""
        return 0.0


class Cluster:
    """A started kubernetes plugin over objects, asked without sockets; `existing` namespaces have an object."""

    def __init__(
        self,
        *objects: Object,
        zones: str = "cluster.local in-addr.arpa ip6.arpa",
        synced: bool = True,
        existing: Sequence[str] = ("testns",),
        local: Sequence[str] = (),
        **options: Any,
    ) -> None:
        values = read_properties([], Kubernetes.PROPERTIES) | options
        values |= {"source": EmptySource(), "startup_timeout": 0.0}
        names = tuple(map(Name.from_text, zones.split()))
        self.plugin = Kubernetes(names, values)
        self.runtime = FakeRuntime()
        self.runtime.addresses = list(local)
        finish(self.plugin.start(self.runtime))
        for coro in self.runtime.spawned.values():
            coro.close()
        self.apply(*upserts(*map(namespace, existing)), *upserts(*objects))
        if synced:
            self.apply(Synced())

    def apply(self, *events: Event) -> None:
        """Let events happen."""
        self.plugin.store.apply(events)

    def ask(self, question: str, below: Reply | None = None, **fields: Any) -> Reply:
        """The reply to `QNAME [QTYPE]`; `below` is what the rest of the chain would say."""
        qname, _, qtype = question.partition(" ")
        following: Next = next_with(below or unwritten(2, "nothing below"))
        return finish(self.plugin.handle(make_request(qname, qtype or "A", **fields), following))


def _words(port: str) -> tuple[str | None, str | None]:
    name, protocol, _ = port.split("/")
    return name or None, protocol or None


def _number(port: str) -> int | None:
    number = port.rpartition("/")[2]
    return int(number) if number else None


def _endpoint(text: str) -> Endpoint:
    addresses, *rest = text.split()
    words = dict(word.split("=") for word in rest)
    return Endpoint(
        addresses=addresses.split(","),
        conditions=EndpointConditions(ready=words["ready"] == "true") if "ready" in words else None,
        hostname=words.get("host"),
        target_ref=ObjectReference("Pod", words["pod"]) if "pod" in words else None,
    )
