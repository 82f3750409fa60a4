"""The client's Pod: its DNS settings, its address, and the address of the cluster's DNS as its kubelet writes it.

Path: server/explaining.py, cli/resolve.py -> here -> the source's read_pod() (cluster/pod_reading.py).
Rule: the kubelet's settings are not in the API.  The cluster's DNS is the given address, else the cluster IP of the
      Service kube-system/kube-dns; a remark says which.  The domain is the first zone of the block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from hsdns.assemble import Configuration
from hsdns.cluster.controllers.kinds import PodSpec
from hsdns.cluster.pack import pack_label
from hsdns.cluster.pod_reading import PodReading, PodUnreadable
from hsdns.cluster.reverse import is_reverse
from hsdns.corefile.tree import did_you_mean
from hsdns.explanation.asker_causes import Asker
from hsdns.explanation.asking import Asking, AskingError, overridden
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.resolver.pod import POLICIES, PodDns, pod_resolv_conf
from hsdns.sources.api_server import ApiServer
from hsdns.sources.manifest_pods import USUAL_DNS
from hsdns.sources.manifests import Manifests
from hsdns.wire.rdata import address_to_text

Tried = PodReading | PodUnreadable
InWatch = Callable[[Coroutine[Any, Any, Tried]], Awaitable[Tried]]
UNREAD_POLICIES: Final = "NetworkPolicies are not read; one of them may keep the Pod from the DNS"
_KUBE_DNS: Final = (pack_label("kube-system"), pack_label("kube-dns"))


class AskingPod(NamedTuple):
    """A Pod; `address` is empty if it has none, `domain` is the cluster domain, `server` the address of its DNS.

    `denied` has the transports over which it cannot reach the cluster's DNS, each with a sentence.  `remarks` name the
    origins of the settings, and facts that were not seen.
    """

    dns: PodDns
    address: str
    domain: str
    server: str
    denied: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


async def find_pod(
    configuration: Configuration, path: str, given: str, in_watch: InWatch
) -> AskingPod:
    """Read a pod from the first block that has pods, once the cluster is read; raise AskingError.

    `given` is the address of the cluster's DNS, "" if none is.  `in_watch` runs a coroutine where a source is watched.
    """
    namespace, slash, name = path.partition("/")
    if not (namespace and slash and name):
        raise AskingError(f'-from needs a namespace and a pod, as in shop/web-0, found "{path}"')
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    with_pods = [each for each in blocks if isinstance(each.source, ApiServer | Manifests)]
    if not with_pods:
        found = " and ".join(str(each.source) for each in blocks) or "nothing of a cluster"
        raise AskingError(
            f"-from needs a source with pods, manifests or an API server, and here is {found}"
        )
    block = with_pods[0]
    source = block.source
    assert isinstance(source, ApiServer | Manifests), "as it was chosen"
    try:
        reading = await in_watch(_tried(source, namespace, name))
    except TimeoutError:
        raise AskingError(f"the pod {path} could not be read in time; ask again") from None
    if isinstance(reading, PodUnreadable):
        raise AskingError(str(reading))
    server, told = _cluster_dns(block, given)
    zone = next((each for each in block.zones if not is_reverse(each)), block.zones[0])
    remarks = [f"the cluster's DNS is {server}, {told}"]
    if reading.denied is None:
        remarks.append(UNREAD_POLICIES)
    return AskingPod(
        _dns_of(reading.spec, namespace, path),
        next(iter(reading.addresses), ""),
        zone.to_text().removesuffix("."),
        server,
        tuple((reading.denied or {}).items()),
        tuple(remarks),
    )


async def _tried(source: ApiServer | Manifests, namespace: str, name: str) -> Tried:
    """Return an error as a result, because a failed task would be logged."""
    try:
        return await source.read_pod(namespace, name)
    except PodUnreadable as error:
        return error


async def asker_of(configuration: Configuration, asking: Asking, in_watch: InWatch) -> Asker:
    """The client, once the cluster has been read; raise AskingError."""
    node, added = asking.resolv_conf, asking.added
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    names = sorted({name for each in blocks for name in each.store.namespaces.copy()})
    namespaces = tuple(name.decode("ascii", "replace") for name in names)
    if not asking.pod:
        zones = [zone for each in blocks for zone in each.zones if not is_reverse(zone)]
        domain = zones[0].to_text().removesuffix(".") if zones else ""
        text = overridden(node, asking.search, asking.ndots)
        return Asker(asking.resolvers, text, domain, namespaces, added=added)
    pod = await find_pod(configuration, asking.pod, asking.cluster_dns, in_watch)
    text = pod_resolv_conf(pod.dns, pod.server, pod.domain, node)
    return Asker(
        asking.resolvers,
        overridden(text, asking.search, asking.ndots),
        pod.domain,
        namespaces,
        asking.pod,
        pod.dns,
        pod.address,
        pod.server,
        node,
        added,
        pod.denied,
        pod.remarks,
    )


def _cluster_dns(block: Kubernetes, given: str) -> tuple[str, str]:
    """The address of the cluster's DNS, and its origin; raise AskingError if it is not known."""
    if given:
        try:
            return str(ip_address(given)), "as given"
        except ValueError:
            raise AskingError(f'-cluster-dns needs an IP address, found "{given}"') from None
    value = block.store.services.values.get(_KUBE_DNS)  # type: ignore[arg-type]  # both are labels
    if value is not None and value.cluster_ips:
        return address_to_text(value.cluster_ips[0]), "the cluster IP of Service kube-system/kube-dns"  # fmt: skip
    if isinstance(block.source, ApiServer):
        raise AskingError(
            "there is no Service kube-system/kube-dns with a cluster IP, so the address that the kubelet writes "
            "is not known; give it with -cluster-dns ADDRESS"
        )
    return USUAL_DNS, "as usual: no Service kube-system/kube-dns"


def _dns_of(spec: PodSpec, namespace: str, path: str) -> PodDns:
    policy = spec.dns_policy or "ClusterFirst"
    if policy not in POLICIES:
        hint = did_you_mean(policy, POLICIES)
        raise AskingError(f'dnsPolicy of the pod {path} is "{policy}", which is none{hint}')
    config = spec.dns_config
    nameservers: Sequence[str] = (config.nameservers if config else None) or []
    for address in nameservers:
        try:
            ip_address(address)
        except ValueError:
            raise AskingError(
                f'dnsConfig of the pod {path} has the nameserver "{address}", which is no IP address'
            ) from None
    if policy == "None" and not nameservers:
        raise AskingError(f"the pod {path} has dnsPolicy None, but no nameserver in its dnsConfig")
    return PodDns(
        namespace,
        policy,
        bool(spec.host_network),
        nameservers,
        (config.searches if config else None) or [],
        {each.name: each.value or "" for each in (config.options if config else None) or ()},
    )
