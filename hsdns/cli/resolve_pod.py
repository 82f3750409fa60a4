"""The pod of `hsdns resolve -from NS/POD`: what its manifest says about DNS, and its address.

Path: cli/resolve.py -> here -> sources/, cluster/controllers/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from hsdns.assemble import Configuration
from hsdns.cli.flags import FlagError
from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.kinds import NetworkPolicy
from hsdns.cluster.controllers.network_policy import NAME_LABEL, Peer, denied
from hsdns.cluster.controllers.simulation import running_pods
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import Namespace, Service
from hsdns.cluster.pack import pack_key, pack_label
from hsdns.corefile.tree import did_you_mean
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.resolver.pod import POLICIES, PodDns
from hsdns.sources.manifest_file import MAX_FILE_LEN, read_manifest_file
from hsdns.sources.manifest_folder import STANDARD_INPUT, manifest_paths
from hsdns.sources.manifests import Manifests
from hsdns.sources.standard_input import standard_input
from hsdns.wire.rdata import address_to_text

CLUSTER_DNS: Final = "10.96.0.10"  # where the source has no Service kube-system/kube-dns
_KUBE_SYSTEM: Final = "kube-system"
_KUBE_DNS: Final = (pack_label("kube-system"), pack_label("kube-dns"))


class Pod(NamedTuple):
    """A pod; `address` is empty if it has none, `domain` is that of its cluster.

    `denied` has the transports over which it cannot reach the cluster's DNS, each with a sentence.
    """

    dns: PodDns
    address: str
    domain: str
    denied: tuple[tuple[str, str], ...] = ()


def find_pod(configuration: Configuration, path: str) -> Pod:
    """Find a pod, or one that a workload would have; raise FlagError."""
    namespace, slash, name = path.partition("/")
    if not (namespace and slash and name):
        raise FlagError(f'-from needs a namespace and a pod, as in shop/web-0, found "{path}"')
    for block in configuration.plugins:
        if not isinstance(block, Kubernetes) or not isinstance(block.source, Manifests):
            continue
        documents = _documents(block.source)
        pods = {
            f"{pod.manifest.metadata.namespace}/{pod.manifest.metadata.name}": pod
            for pod in running_pods(documents)
        }
        if path not in pods:
            raise FlagError(f"the source has no pod {path}{did_you_mean(path, pods)}")
        domain = block.zones[0].to_text().removesuffix(".")
        found = pods[path]
        return Pod(
            _dns_of(found),
            next(iter(found.addresses), ""),
            domain,
            tuple(_denied(documents, found, list(pods.values())).items()),
        )
    raise FlagError(
        "-from reads pods from manifests only; give them with -source manifests, "
        "for example the output of kubectl get pods,svc,endpointslices,namespaces -A -o json"
    )


def _denied(
    documents: Sequence[Document], pod: RunningPod, pods: Sequence[RunningPod]
) -> dict[str, str]:
    """What NetworkPolicies deny; without a Service kube-system/kube-dns, its Pods are taken to be as usual."""
    objects = [each.object for each in documents]
    policies = [each for each in objects if isinstance(each, NetworkPolicy)]
    namespaces = [each.metadata for each in objects if isinstance(each, Namespace)]
    labels = {each.name: each.labels or {} for each in namespaces}

    def peer(namespace: str, own: Mapping[str, str], addresses: Sequence[str]) -> Peer:
        of_namespace = {NAME_LABEL: namespace, **labels.get(namespace, {})}
        return Peer(namespace, own, of_namespace, addresses)

    services = [each for each in objects if isinstance(each, Service)]
    services = [each for each in services if pack_key(each.metadata) == _KUBE_DNS]
    selector = (services[0].spec.selector if services else None) or {"k8s-app": "kube-dns"}
    address = (services[0].spec.cluster_ip if services else None) or CLUSTER_DNS
    servers = [
        peer(_KUBE_SYSTEM, each.labels, (*each.addresses, address))
        for each in pods
        if each.manifest.metadata.namespace == _KUBE_SYSTEM
        and selector.items() <= each.labels.items()
    ] or [peer(_KUBE_SYSTEM, selector, (address,))]
    return denied(
        policies, peer(pod.manifest.metadata.namespace, pod.labels, pod.addresses), servers
    )


def cluster_dns(configuration: Configuration) -> str:
    """The address of the Service kube-system/kube-dns, once the source has been read, or what it usually is."""
    for block in configuration.plugins:
        if isinstance(block, Kubernetes):
            value = block.store.services.values.get(_KUBE_DNS)  # type: ignore[arg-type]  # both are labels
            if value is not None and value.cluster_ips:
                return address_to_text(value.cluster_ips[0])
    return CLUSTER_DNS


def _documents(source: Manifests) -> list[Document]:
    """All documents without errors; what is wrong with the others, the source itself reports."""
    documents: list[Document] = []
    for path in manifest_paths(source.paths):
        if path == STANDARD_INPUT:
            given = standard_input()
            documents += given.documents if given is not None else []
            continue
        with open(path, "rb") as file:
            documents += read_manifest_file(file.read(MAX_FILE_LEN + 1), path).documents
    return documents


def _dns_of(pod: RunningPod) -> PodDns:
    spec, meta = pod.manifest.spec, pod.manifest.metadata
    path = f"{meta.namespace}/{meta.name}"
    policy = spec.dns_policy or "ClusterFirst"
    if policy not in POLICIES:
        hint = did_you_mean(policy, POLICIES)
        raise FlagError(f'dnsPolicy of the pod {path} is "{policy}", which is none{hint}')
    config = spec.dns_config
    nameservers = (config.nameservers if config else None) or []
    for address in nameservers:
        try:
            ip_address(address)
        except ValueError:
            raise FlagError(
                f'dnsConfig of the pod {path} has the nameserver "{address}", which is no IP address'
            ) from None
    if policy == "None" and not nameservers:
        raise FlagError(f"the pod {path} has dnsPolicy None, but no nameserver in its dnsConfig")
    return PodDns(
        meta.namespace,
        policy,
        bool(spec.host_network),
        nameservers,
        (config.searches if config else None) or [],
        {each.name: each.value or "" for each in (config.options if config else None) or ()},
    )
