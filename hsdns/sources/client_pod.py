"""The surroundings of the Pod that looks a name up: where the cluster's DNS answers it, and NetworkPolicies between.

Path: sources/manifests.py, sources/api_server.py -> here -> PodReading, for explanation/client.py, and View, for
explanation/explain.py.
Rule 1: manifests and an API server are read alike: the lists of a server become documents first.
Rule 2: only lists are requested, in the namespaces of the Pod and of the DNS.  What may not be read is not known:
        it is no cause, and PodReading.unread says why.
Rule 3: a server of the node answers for the cluster's DNS: node-local-dns, which forwards to it, and hsdns.  So does a
        container of the Pod with the image of either server.
Source: kubernetes/dns node-cache, flag -localip, and its default.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from itertools import product
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from hsdns.apiserver.resource import ENDPOINT_SLICES, PODS, SERVICES, Resource, Scope
from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.causes.view import View
from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.kinds import Container, NetworkPolicy, PodManifest, Workload
from hsdns.cluster.controllers.kinds import Event as EventObject
from hsdns.cluster.controllers.network_policy import (
    KNOWN,
    NAME_LABEL,
    USUAL,
    Denial,
    Peer,
    denied,
    pod_ports,
)
from hsdns.cluster.controllers.simulation import running_pods
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import EndpointSlice, Namespace, Service, ServiceSpec, labels_text
from hsdns.cluster.source import MAX_PODS, OTHER_PODS, PodReading
from hsdns.sources.api_server import DEADLINE, SLICES_PAGE, ListOf, list_page, pods_page
from hsdns.sources.cluster_dump import Listed, list_all
from hsdns.sources.manifest_file import read_manifest_file, read_objects

USUAL_DNS: Final = "10.96.0.10"  # the cluster's DNS if no Service has its address
SERVERS: Final = ("hsdns", "coredns")  # the last part of an image
KUBELET_CONFIG: Final = "kubelet-config"
NODE_CACHE: Final = "k8s-dns-node-cache"
NODE_LOCAL: Final = "169.254.20.10"  # the default of its -localip
_ON_NODES: Final = "k8s-app in (node-local-dns,hsdns-node-local,nodelocaldns)"


class AroundPod(NamedTuple):
    """Documents, why NetworkPolicies are not among them, and the address of the DNS that kubelets write."""

    documents: Sequence[Document]
    unread: str = ""
    cluster_dns: str = ""


def pod_reading(pod: PodManifest, addresses: Sequence[str], found: AroundPod) -> PodReading:
    """A Pod with its surroundings."""
    around, unread = _Dns(found.documents), found.unread
    servers = dict(around.servers())
    if any(_image(each) in SERVERS for each in _running(pod)):
        servers |= dict.fromkeys(("127.0.0.1", "::1"), "a container of the Pod")
    own = around.peer(pod.metadata.namespace, pod.metadata.labels or {}, addresses)
    can_tell = None if unread else lambda address: around.denied(own, address)
    return PodReading(
        pod.spec, tuple(addresses), servers, can_tell, unread, found.cluster_dns, around.caches()
    )


def cluster_dns_in(content: bytes, path: str) -> str:
    """The first clusterDNS of kubeadm's ConfigMap of the kubelets in a file, "" if there is none."""
    for each in read_objects(content, path) if KUBELET_CONFIG.encode() in content else ():
        item = each.item
        if item is not None and (item.head.metadata or {}).get("name") == KUBELET_CONFIG:
            is_json = isinstance(item.value, msgspec.Raw)
            return _cluster_dns(msgspec.json.decode(item.value) if is_json else item.value)
    return ""


def _cluster_dns(config_map: Mapping[str, Any]) -> str:
    try:
        (address, *_) = yaml.safe_load(config_map["data"]["kubelet"])["clusterDNS"]
        return str(ip_address(address))
    except (KeyError, TypeError, ValueError, yaml.YAMLError):
        return ""


async def read_surroundings(transport: Transport, namespace: str, seconds: float) -> AroundPod:
    """What surrounds the Pods of a namespace at an API server."""
    config = Listed("configmaps", "ConfigMap", "v1", (KUBELET_CONFIG,), USUAL.namespace)
    policies = Listed("networkpolicies", "NetworkPolicy", "networking.k8s.io/v1", namespace=namespace)  # fmt: skip
    kinds = [
        config,
        policies,
        Listed("pods", "Pod", "v1", namespace=USUAL.namespace, labels=_ON_NODES),
    ]
    for each in KNOWN:
        place, labels = each.namespace, labels_text(each.labels)
        if place != namespace:
            kinds.append(policies._replace(namespace=place))
        kinds += [
            Listed("services", "Service", "v1", (each.name,), place),
            Listed("pods", "Pod", "v1", namespace=place, labels=labels),
            Listed("namespaces", "Namespace", "v1", (place,), is_namespaced=False),
        ]
    items: list[dict[str, Any]] = []
    reasons: dict[Listed, str] = {}

    async def read(kind: Listed) -> None:
        try:
            for name in kind.names or ("",):
                head = {"apiVersion": kind.group_version, "kind": kind.kind}
                items.extend({**each, **head} for each in await list_all(transport, kind, "", name))
        except Unreachable as fault:
            reasons[kind] = str(fault)

    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*map(read, kinds))
    except TimeoutError:
        reasons[policies] = f"{transport.server} did not answer within {seconds:g} s"
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    documents = read_manifest_file(listed, "the API server").documents
    cluster_dns = [_cluster_dns(each) for each in items if each["kind"] == config.kind]
    return AroundPod(documents, reasons.get(policies, ""), "".join(cluster_dns))


class _Dns:
    """The cluster's DNS and the NetworkPolicies among documents."""

    def __init__(self, documents: Sequence[Document]) -> None:
        objects = [each.object for each in documents]
        self._policies = [each for each in objects if isinstance(each, NetworkPolicy)]
        namespaces = [each.metadata for each in objects if isinstance(each, Namespace)]
        self._labels = {each.name: each.labels or {} for each in namespaces}
        self._pods = running_pods(documents)
        self._kind, self._service = USUAL, ServiceSpec()
        services = [each for each in objects if isinstance(each, Service)]
        for known, service in product(KNOWN, services):
            if known.is_named(service):
                self._kind, self._service = known, service.spec
                break

    def servers(self) -> Iterator[tuple[str, str]]:
        """The addresses at which the cluster's DNS answers, each with its origin."""
        for each in self._pods:
            if each.manifest.spec.host_network:
                where = f"node-local, of Pod {each.manifest.metadata.namespace}/{each.manifest.metadata.name}"
                for container in _all(each.manifest):
                    yield from ((address, where) for address in _local_addresses(container))
        spec = self._service
        for address in spec.cluster_ips or filter(None, [spec.cluster_ip]):
            if address != "None":
                yield address, f"the cluster IP of Service {self._kind.namespace}/{self._kind.name}"

    def caches(self) -> frozenset[str]:
        """The addresses of NodeLocal DNSCache."""
        on_nodes = (each.manifest for each in self._pods if each.manifest.spec.host_network)
        containers = (one for each in on_nodes for one in _all(each) if _image(one) == NODE_CACHE)
        return frozenset(address for each in containers for address in _local_addresses(each))

    def peer(
        self,
        namespace: str,
        labels: Mapping[str, str],
        addresses: Sequence[str],
        ports: frozenset[int] = frozenset(),
    ) -> Peer:
        """A Pod for policies."""
        of_namespace = {NAME_LABEL: namespace, **self._labels.get(namespace, {})}
        return Peer(namespace, labels, of_namespace, addresses, ports)

    def denied(self, own: Peer, address: str) -> Mapping[str, Denial]:
        """What NetworkPolicies deny on the way to a server; without its Pods, the usual ones are assumed."""
        if ip_address(address).is_loopback:
            return {}
        on_nodes = {each for each, where in self.servers() if where.startswith("node-local")}
        if address in on_nodes and address not in (self._service.cluster_ips or ()):
            # Selectors of Pods do not choose those on the host network.
            on_node = Peer("", {}, {}, (address,))
            return denied(self._policies, own, [on_node], address)
        kind, spec = self._kind, self._service
        selector = spec.selector or kind.labels
        found = [each for each in self._pods if _is_selected(each, kind.namespace, selector)]
        ports = pod_ports(spec, [port for each in found for port in each.ports], kind)
        dns = spec.cluster_ip or USUAL_DNS
        servers = [
            self.peer(kind.namespace, each.labels, (*each.addresses, dns), ports) for each in found
        ]
        return denied(
            self._policies, own, servers or [self.peer(kind.namespace, selector, (dns,), ports)]
        )


def _is_selected(pod: RunningPod, namespace: str, selector: Mapping[str, str]) -> bool:
    return pod.manifest.metadata.namespace == namespace and selector.items() <= pod.labels.items()


def _all(pod: PodManifest) -> list[Container]:
    return [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]


def _running(pod: PodManifest) -> list[Container]:
    """The containers that run beside the program: all but those of the start."""
    starting = [each for each in pod.spec.init_containers or () if each.restart_policy == "Always"]
    return [*starting, *(pod.spec.containers or ())]


def _image(container: Container) -> str:
    """The last part of the name of an image, without tag and digest."""
    return (container.image or "").rpartition("/")[2].partition("@")[0].partition(":")[0]


def _local_addresses(container: Container) -> Iterator[str]:
    """The addresses of the node that a container listens on, or gives to an interface for another one."""
    words = [*(container.command or ()), *(container.args or ())]
    options = [each.lstrip("-").partition("=") for each in words]
    found: list[str] = []
    for at, (option, sign, value) in enumerate(options):
        if option == "localip":
            found += (value if sign else " ".join(words[at + 1 : at + 2])).split(",")
        elif option == "address" and "interface" in words[:at]:
            found += words[at + 1 :]
    if not found and _image(container) == NODE_CACHE:
        found = [NODE_LOCAL]
    for each in found:
        try:
            yield str(ip_address(each))
        except ValueError:
            continue


# Reads what may stand behind the Services of a namespace: its pods, also those that have ended, and its workloads.
#
# Rule: bounded lists only; a kind that may not be read, or was not within the time, is not known.


MOST_ELSEWHERE: Final = 5  # pods of other namespaces
MOST_WORKLOADS: Final = 200  # of a kind
_WORKLOADS: Final = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), "apps/v1"),
    "Job": "batch/v1",
}


async def read_view(
    transport: Transport,
    namespace: str,
    selector: Mapping[str, str],
    seconds: float = DEADLINE,
    refused: Mapping[str, str] | None = None,
) -> View:
    """What may stand behind a Service with a selector, and beside it: pods that it matches, else others, workloads.

    `refused` are the reasons by plural why kinds may not be read, which are not asked for.
    """
    view = View((), refused, is_live=True)

    async def read(plural: str, reading: Coroutine[Any, Any, object]) -> None:
        if plural in (refused or ()):
            reading.close()
            return
        try:
            async with asyncio.timeout(seconds):
                await reading
        except (Unreachable, msgspec.MsgspecError) as fault:
            view.unknown[plural] = transport.redact(str(fault))
        except TimeoutError:
            view.unknown[plural] = f"{transport.server} did not answer within {seconds:g} s"

    async def read_pods() -> None:
        found: list[PodManifest] = []
        labels = {"labelSelector": labels_text(selector), "limit": str(MAX_PODS)}
        if selector:
            found = await pods_page(transport, namespace, labels)
        if not found:
            found = await pods_page(transport, namespace, {"limit": str(OTHER_PODS)})
            if selector:
                labels["limit"] = str(MOST_ELSEWHERE)
                await read("pods elsewhere", read_elsewhere(labels))
        view.add(("Pod", each) for each in found)

    async def read_elsewhere(labels: dict[str, str]) -> None:
        view.add(("Pod", each) for each in await pods_page(transport, None, labels))

    async def read_page(of: Resource, form: Any, limit: int = MOST_WORKLOADS) -> ListOf[Any]:
        page = await list_page(transport, Scope(of, namespace), {"limit": str(limit)}, form)
        view.add((of.kind, each) for each in page.items or ())
        return page

    async def read_workloads(kind: str, group_version: str) -> None:
        resource = Resource(kind, f"{kind.lower()}s", f"/apis/{group_version}", Service)
        if (await read_page(resource, ListOf[Workload])).metadata.continue_:
            view.unknown[resource.plural] = f"only {MOST_WORKLOADS} were read"

    async def read_events() -> None:
        """Why pods were not created, if that may be read."""
        scope = Scope(Resource("Event", "events", "/api/v1", Service), namespace)
        query = {"fieldSelector": "type=Warning,reason=FailedCreate", "limit": str(OTHER_PODS)}
        with suppress(Unreachable, msgspec.MsgspecError, TimeoutError):
            async with asyncio.timeout(seconds):
                page = await list_page(transport, scope, query, ListOf[EventObject])
                view.add(("Event", each) for each in page.items or ())

    kinds = (
        read(f"{kind.lower()}s", read_workloads(kind, each)) for kind, each in _WORKLOADS.items()
    )
    services = [read(SERVICES.plural, read_page(SERVICES, ListOf[Service])), read_events()]
    if not selector:  # they may be meant for it
        slices = read_page(ENDPOINT_SLICES, ListOf[EndpointSlice], SLICES_PAGE)
        services.append(read("slices beside", slices))
    await asyncio.gather(read(PODS.plural, read_pods()), *services, *kinds)
    return view
