"""HS181, HS211 to HS216, HS221, HS222, HS231, HS232: the cluster's own DNS, its domain and its answers.

Path: judging.py -> here -> cluster/controllers/network_policy.py, which names their Service.
Rule 1: the pods are those that the Service of the DNS selects or, if the Service is not among the objects, those in its
        namespace with the usual labels.
Rule 2: a Deployment without `replicas` leaves the number to an autoscaler, as kubeadm's manifest does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product
from typing import Any, Final, NamedTuple

import yaml

from hsdns.causes.pod import trouble_of
from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.controllers.network_policy import KNOWN, PORT, DnsService
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import CorefileError
from hsdns.rules.corefile_text import zones_of
from hsdns.rules.mesh import is_istiod
from hsdns.rules.objects import Manifest, Objects, PodSet, check, mapping_at, mappings_at, value_at
from hsdns.rules.rule import Remark
from hsdns.sources.manifest_yaml import ManifestLoader
from hsdns.wire.name import ROOT, Name

_SCALED: Final = ("Deployment", "StatefulSet", "DaemonSet")
_ENDED: Final = ("Succeeded", "Failed")
_NO_MEMORY: Final = "OOMKilled"
_PODS: Final = "services|pods|pods that run|pods of the cluster's DNS"


def dns_pods(objects: Objects) -> Sequence[PodSet]:
    """The pods of the cluster's DNS, and the workloads that make them."""
    for kind, (manifest, service) in product(KNOWN, objects.services):
        if kind.is_named(service):
            return objects.selected(manifest, service.spec.selector or kind.labels)
    return [each for each in objects.pod_sets if any(_is_labelled(each, kind) for kind in KNOWN)]


def _is_labelled(pods: PodSet, kind: DnsService) -> bool:
    return pods.manifest.namespace == kind.namespace and pods.matches(kind.labels)


@check("HS211", needs="services|deployments|daemonsets|pods of the cluster's DNS", of_servers=True)
def one_replica(objects: Objects) -> Iterator[Remark]:
    """A Deployment that is all of the cluster's DNS and has one replica."""
    scaled = [each for each in dns_pods(objects) if each.manifest.kind in _SCALED]
    if any("replicas" not in mapping_at(each.manifest.content, "spec") for each in scaled):
        return
    if sum(each.replicas or 0 for each in scaled) != 1:
        return
    for pods in scaled:
        if pods.replicas == 1:
            yield pods.manifest.remark(
                "spec.replicas",
                "the cluster's DNS has one replica, so no name resolves while its pod is restarted, replaced or moved "
                "to another node; write replicas: 2, or more",
            )


@check("HS212", needs=_PODS, of_servers=True)
def one_node(objects: Objects) -> Iterator[Remark]:
    """DNS pods that are all on one of several nodes."""
    running = [
        (each, each.spec.node_name)
        for each in dns_pods(objects)
        if isinstance(each.manifest.object, PodManifest) and _runs(each)
    ]
    nodes = {node for _, node in running}
    others = {each.spec.node_name for each in objects.pod_sets if _runs(each)}
    if len(running) > 1 and len(nodes) == 1 and others - nodes:
        pods, node = running[0]
        yield pods.manifest.remark(
            "spec.nodeName",
            f"all {len(running)} pods of the cluster's DNS are on node {node}, so no name resolves while it is down; "
            "delete one of them, and spread them with podAntiAffinity or topologySpreadConstraints for "
            "kubernetes.io/hostname",
        )


def _runs(pods: PodSet) -> bool:
    """Whether they are a Pod that runs on a node and is not terminating."""
    found = pods.manifest.object
    return (
        isinstance(found, PodManifest)
        and bool(found.spec.node_name)
        and found.status.phase not in _ENDED
        and "deletionTimestamp" not in pods.manifest.metadata
    )


@check("HS213", needs=_PODS, each=dns_pods, of_servers=True)
def restarted(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """DNS containers that have been restarted."""
    if not isinstance(pods.manifest.object, PodManifest):
        return
    for at, each in mappings_at(pods.manifest.content, "status.containerStatuses"):
        count = each.get("restartCount")
        if not isinstance(count, int) or count < 1:
            continue
        ended = mapping_at(each, "lastState.terminated")
        times = "once" if count == 1 else f"{count} times"
        last = f", last at {ended['finishedAt']}" if ended.get("finishedAt") else ""
        found = f"container {each.get('name')} of the cluster's DNS was restarted {times}{last}"
        field = f"status.containerStatuses[{at}].restartCount"
        if ended.get("reason") == _NO_MEMORY:
            yield pods.manifest.remark(
                field,
                f"{found}, because it needed more memory than its limit ({_NO_MEMORY}), and this may happen again "
                "under load; raise the limit, and see which clients send so many queries",
                level="warning",
            )
        else:
            code = (
                f", exit code {ended['exitCode']}" if isinstance(ended.get("exitCode"), int) else ""
            )
            why = f" ({ended['reason']}{code})" if ended.get("reason") else ""
            yield pods.manifest.remark(
                field,
                f"{found}{why}, and the queries in progress were lost; see why in the log of the container before "
                "(kubectl logs --previous)",
            )


@check(
    "HS214", needs="services|pods|deployments|daemonsets|pods of the cluster's DNS", of_servers=True
)
def without_probe(objects: Objects) -> Iterator[Remark]:
    """DNS containers that get queries before they are ready."""
    known = {id(each) for each in dns_pods(objects)}
    for pods in objects.templates:
        if id(pods) not in known:
            continue
        spec = mapping_at(pods.manifest.content, pods.field)
        containers = list(_running(spec))
        if any("readinessProbe" in each for _, each in containers):
            continue  # a pod is ready when all its containers are, as kube-dns with its dnsmasq
        serving = [field for field, each in containers if _listens(each)]
        if not serving and len(containers) == 1:
            serving = [containers[0][0]]
        for field in serving:
            yield pods.manifest.remark(
                f"{pods.field}.{field}.readinessProbe",
                "without a readiness probe the pod gets queries as soon as it has started, before it knows "
                "the cluster, and still gets them when it hangs; add one for /ready on port 8181",
                at=f"{pods.field}.{field}",
            )


@check("HS215", needs=_PODS, each=dns_pods, of_servers=True)
def not_ready(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """DNS pods that are not ready."""
    found = pods.manifest.object
    if not isinstance(found, PodManifest) or not _runs(pods):
        return
    trouble = trouble_of(found)
    if trouble is None:
        return
    why = f" ({trouble.short})" if trouble.short else ""
    yield pods.manifest.remark(
        "status.conditions",
        f"the pod of the cluster's DNS is not ready{why}, so it gets no queries, and the "
        "others take its share; see its log, and kubectl describe pod",
    )


def _running(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The containers that run as long as the pod, with their fields, including sidecars among the init containers."""
    for key in ("containers", "initContainers"):
        for at, each in mappings_at(spec, key):
            if key == "containers" or each.get("restartPolicy") == "Always":
                yield f"{key}[{at}]", each


def _listens(container: dict[str, Any]) -> bool:
    """Whether a container has a port for DNS."""
    return any(
        each.get("containerPort") == PORT or each.get("name") in ("dns", "dns-tcp")
        for _, each in mappings_at(container, "ports")
    )


# HS216: memory that the pods of the cluster's DNS use, beside their limit.
#
# Rule: a container without a limit of its own is not near one, whatever its node has.


METRICS: Final = "PodMetrics"  # of metrics.k8s.io
NEAR: Final = Decimal("0.8")  # of the limit
_QUANTITY: Final = re.compile(
    r"(\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:([eE][-+]?\d{1,2})|([numkMGTPE]?|[KMGTPE]i))"
)
_FACTORS: Final = {
    "": Decimal(1),
    **{each: Decimal(1000) ** power for each, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)},
    **{f"{each}i": Decimal(1024) ** power for power, each in enumerate("KMGTPE", 1)},
}  # fmt: skip


@check("HS216", needs=f"{_PODS}|memory of the cluster's DNS", of_servers=True)
def near_limit(objects: Objects) -> Iterator[Remark]:
    """DNS containers that use most of the memory that they may."""
    metrics = {(each.namespace, each.name): each for each in objects.written(METRICS)}
    for pods in dns_pods(objects):
        manifest = pods.manifest
        found = metrics.get((manifest.namespace, manifest.name))
        if found is None or not isinstance(manifest.object, PodManifest):
            continue
        used = _memory(found, "containers", "usage")
        limits = _memory(manifest, "spec.containers", "resources.limits")
        for name, (at, limit) in limits.items():
            _, use = used.get(name, (0, ""))
            octets, most = _octets(use), _octets(limit)
            if octets is None or not most or octets < NEAR * most:
                continue
            yield manifest.remark(
                f"spec.containers[{at}].resources.limits.memory",
                f"container {name} of the cluster's DNS uses {octets * 100 // most} % of the memory that it may ({use} "
                f"of {limit}), and is killed when it needs more, with the queries in progress; raise the limit, and "
                "see which clients send so many queries",
            )


def _memory(manifest: Manifest, path: str, inner: str) -> dict[str, tuple[int, str]]:
    """The memory of each container, with the position of the container."""
    return {
        str(each.get("name")): (at, str(value))
        for at, each in mappings_at(manifest.content, path)
        if (value := value_at(each, f"{inner}.memory")) is not None
    }


def _octets(text: str) -> Decimal | None:
    """A quantity of the API in octets; None if it is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    number, exponent, unit = found.groups()
    return Decimal(f"{number}{exponent or ''}") * _FACTORS[unit or ""]


# HS231, HS232: the answers of a cluster's DNS servers, compared with its objects.
#
# Rule 1: silent servers are ignored if no server can be reached from where the queries were sent.
# Rule 2: answers that are not known to be of this cluster are ignored, except those of servers that were named, and
#         those that a Pod gets: its clients get them too, wherever they come from.


DNS_SERVER: Final = "DnsServer"  # as in sources/cluster_dump.py, which lint does not import
_SERVICE: Final = "service"
_VIEW: Final = "view"  # queried from a Pod, which the finding is about
_MOST: Final = 5  # records that a sentence names


@check("HS231", needs="answers", each=lambda objects: objects.written(DNS_SERVER), of_servers=True)
def silent(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Servers that do not answer."""
    found = manifest.content
    silence = found.get("silence")
    if not silence or found.get("counts") is not True:
        return
    if found.get("role") == _VIEW:
        yield _remark(
            manifest,
            f"queried from this Pod, {silence}: see the NetworkPolicies that select it, and the network of its node",
        )
    elif found.get("role") == _SERVICE:
        yield _remark(
            manifest,
            f"the cluster IP does not answer ({silence}), and the pods behind it do; from outside of the cluster "
            "that is usual, on a node or in a pod see what its kube-proxy says",
            "note",
        )
    else:
        yield _remark(
            manifest,
            f"{silence}; clients that use it time out too: see its log, and the network of its node",
        )


@check(
    "HS232",
    needs="answers|answers of this cluster",
    each=lambda objects: objects.written(DNS_SERVER),
    of_servers=True,
)
def wrong(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Servers whose answers differ from the objects."""
    address, answers = manifest.content.get("address"), mappings_at(manifest.content, "answers")
    wrong = [each for _, each in answers if each.get("right") is False]
    if wrong and manifest.content.get("known") is True:
        first, others = wrong[0], len(wrong) - 1
        more = f" ({others} more of {len(answers)} answers are not right)" if others else ""
        yield _remark(
            manifest,
            f"{address} answers {first.get('name')} {first.get('type')} {_said(first)}{more}{first.get('faults', '')}: "
            "check in its log whether it still reads the cluster, and run hsdns explain",
        )


class Asked(NamedTuple):
    """A sentence about a server that was queried; `is_right` if all of its answers are, None if that says nothing."""

    sentence: str
    is_right: bool | None


def asked(objects: Objects) -> list[Asked]:
    """The servers that were queried."""
    found = []
    for manifest in objects.written(DNS_SERVER):
        content = manifest.content
        listed = [each for _, each in mappings_at(content, "answers")]
        right = sum(each.get("right") is True for each in listed)
        said = f"{right} of {len(listed)} answers are right" if listed else ""
        if right < len(listed) and content.get("known") is not True:
            said += ", and none shows that it is of this cluster, so they are not judged"
        silence = str(content.get("silence") or "")
        between = "asked" if content.get("role") == _VIEW else "at"
        where = f"{content.get('about')} {between} {content.get('address')}"
        sentence = f"{where}: {'; '.join(filter(None, [said, silence]))}"
        # From outside of a cluster, its cluster IPs and pods are usually silent.
        is_usual = content.get("counts") is not True or content.get("role") == _SERVICE
        is_right = None if silence and is_usual else right == len(listed) and not silence
        found.append(Asked(sentence, is_right))
    return found


def _said(answer: dict[str, Any]) -> str:
    if "expected" not in answer:
        return f"with {answer.get('rcode')}"
    parts = []
    if answer.get("rcode") != answer["expected"]:
        parts.append(f"with {answer.get('rcode')} instead of {answer['expected']}")
    for word, key in (("without", "lacks"), ("with", "has")):
        records = answer.get(key)
        if isinstance(records, list) and records:
            shown = ", ".join(map(str, records[:_MOST]))
            more = f" and {len(records) - _MOST} more" if len(records) > _MOST else ""
            parts.append(f"{word} {shown}{more}{', which is not right' if key == 'has' else ''}")
    return ", ".join(parts)


def _remark(manifest: Manifest, sentence: str, level: str = "") -> Remark:
    return Remark(manifest.at("address"), str(manifest.content.get("about")), "", sentence, level)


# HS181: the role of a DNS server that does not allow reading EndpointSlices.


_NAME: Final = re.compile(r"(^|[^a-z])(coredns|kube-dns|hsdns)($|[^a-z])")
_VERBS: Final = ("list", "watch")
_GROUP: Final = "discovery.k8s.io"


@check("HS181", needs="clusterroles", each=lambda objects: objects.written("ClusterRole"))
def without_slices(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Roles for CoreDNS or hsdns without EndpointSlices."""
    listed = [each for _, each in mappings_at(manifest.content, "rules")]
    if not _NAME.search(manifest.name) or not any(
        _allows(each, "", "services", "watch") for each in listed
    ):
        return  # the role of an autoscaler, for example
    missing = [
        verb
        for verb in _VERBS
        if not any(_allows(each, _GROUP, "endpointslices", verb) for each in listed)
    ]
    if missing:
        yield manifest.remark(
            "rules",
            f"the role does not allow to {' and '.join(missing)} endpointslices of {_GROUP}, so the server knows "
            "no endpoints: names with a cluster IP resolve, those of headless Services do not; add the rule",
        )


def _allows(rule: dict[str, Any], group: str, resource: str, verb: str) -> bool:
    wanted = {"apiGroups": group, "resources": resource, "verbs": verb}
    return all(
        isinstance(rule.get(key), list) and (value in rule[key] or "*" in rule[key])
        for key, value in wanted.items()
    )


# HS221, HS222: the domain of the cluster, which the Corefile, the kubelets, search lists and istiod must agree on.
#
# Rule 1: the domains are the zones of the kubernetes blocks, without the reverse ones.  If one of them is known only
#         where the server runs, there is no finding.
# Rule 2: a search domain is a cluster domain if it has the label svc.  It may be that of another cluster, with a
#         separate server block in the Corefile.


KUBELET: Final = "kubelet"  # the key of kubeadm's ConfigMap kubelet-config
_SEARCH: Final = re.compile(r"(?:[^.]+\.)?svc\.(.+?)\.?", re.IGNORECASE)
_REVERSE: Final = ("in-addr.arpa", "ip6.arpa")
_SHARED: Final = "clusterset.local"  # of the Multi-Cluster Services API
_OF_CLUSTER: Final = ("", None, "ClusterFirst", "ClusterFirstWithHostNet")


@check("HS221", needs="pods|configmaps")
def differs(objects: Objects) -> Iterator[Remark]:
    """Domains of kubelets and pods that the cluster's DNS does not serve."""
    domains = served_domains(objects)
    if not domains:
        return
    served = " and ".join(domains)
    for manifest in objects.written("ConfigMap"):
        domain = kubelet_domain(manifest.content)
        if domain and domain not in domains:
            yield manifest.remark(
                f"data.{KUBELET}",
                f"the kubelets give pods the search domain svc.{domain}, and the Corefile serves {served}, so names "
                "such as db or db.lab do not resolve in pods; write the same domain in both",
            )
    others = [
        zone for each in objects.corefiles for block in each.blocks for zone in zones_of(block)
    ]
    for pods in objects.templates:
        for at, domain in _searched(pods):
            if domain in (*domains, _SHARED) or _is_below(domain, others):
                continue
            yield pods.manifest.remark(
                f"{pods.field}.dnsConfig.searches[{at}]",
                f"the search domain is of the cluster domain {domain}, and the Corefile serves {served}, so no name is "
                "found with it; write the cluster's own domain, or add a server block that forwards the other one",
                level="warning",
            )


@check("HS222", needs="deployments|configmaps|istiod", of_servers=True)
def istiod_differs(objects: Objects) -> Iterator[Remark]:
    """The domain that istiod gives its proxies."""
    domains = served_domains(objects)
    for pods in objects.templates if domains else ():
        if pods.manifest.kind != "Deployment" or not is_istiod(pods.manifest):
            continue
        for field, domain in _domain_flags(pods):
            if domain not in domains:
                yield pods.manifest.remark(
                    field,
                    f"the proxies of istiod assume the cluster domain {domain}, and the Corefile serves "
                    f"{' and '.join(domains)}, so DNS answers none of the names that the proxies know; write the "
                    "same domain in both",
                )


def _domain_flags(pods: PodSet) -> Iterator[tuple[str, str]]:
    """The values of --domain in the arguments of containers, with their fields."""
    for number, container in mappings_at(pods.manifest.content, f"{pods.field}.containers"):
        listed = container.get("args")
        words = [str(each) for each in listed] if isinstance(listed, list) else []
        for at, word in enumerate(words):
            flag, assigned, value = word.partition("=")
            if flag == "--domain":
                at, value = (at, value) if assigned else (at + 1, "".join(words[at + 1 : at + 2]))
                if value and "$" not in value:
                    field = f"{pods.field}.containers[{number}].args[{at}]"
                    yield field, value.rstrip(".").lower()


def served_domains(objects: Objects) -> list[str]:
    """The domains that the kubernetes blocks of all Corefiles serve, in order; empty if some are unknown."""
    found: dict[str, None] = {}
    for placed in objects.directives("kubernetes"):
        try:
            zones = list(zones_from_args(placed.directive.args)) or zones_of(placed.block)
        except CorefileError:
            return []
        for zone in zones:
            text = _text(zone)
            if zone == ROOT or "_" in text:  # a placeholder such as __PILLAR__DNS__DOMAIN__
                return []
            if not text.endswith(_REVERSE):
                found[text] = None
    return list(found)


def kubelet_domain(config_map: Any) -> str:
    """The clusterDomain of a ConfigMap with a KubeletConfiguration; "" if it has none."""
    domain = kubelet_setting(config_map, "clusterDomain")
    return domain.rstrip(".").lower() if isinstance(domain, str) else ""


def kubelet_setting(config_map: Any, name: str) -> Any:
    """A setting of a ConfigMap with a KubeletConfiguration; None if it has none."""
    text = value_at(config_map, f"data.{KUBELET}")
    if not isinstance(text, str) or name not in text:
        return None
    try:
        return value_at(yaml.load(text.encode(), ManifestLoader), name)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _searched(pods: PodSet) -> Iterator[tuple[int, str]]:
    """The cluster domains in the search list of pods that use the cluster's DNS, with their positions."""
    spec = pods.spec
    if spec.dns_config is None or spec.dns_policy not in _OF_CLUSTER:
        return
    for at, search in enumerate(spec.dns_config.searches or ()):
        found = _SEARCH.fullmatch(search)
        if found is not None:
            yield at, found[1].lower()


def _is_below(domain: str, zones: list[Name]) -> bool:
    try:
        name = Name.from_text(f"{domain}.")
    except ValueError:
        return True
    return any(zone != ROOT and name.is_at_or_below(zone) for zone in zones)


def _text(zone: Name) -> str:
    return zone.to_text().rstrip(".").lower()
