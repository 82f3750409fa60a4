"""A dump of a cluster: the objects that rules check, read once from the API server, without secrets.

Path: doctor/cli.py -> here -> apiserver/client.py; rules/judging.py reads the dump like any file of manifests.
Rule 1: only lists are requested, in pages; nothing is written to the cluster, and Secrets are not requested.
Rule 2: it omits environment variables, commands, arguments and volumes of Pods, except istiod's domain, and annotations
        except those that rules read: kubectl repeats whole objects in them.  It contains only the Corefile of a
        ConfigMap, and the DNS settings of the kubelets' ConfigMap.
Rule 3: the dump records what could not be read, with the reason, and contains the rest.
Rule 4: answers of DNS servers are in it as objects of a separate kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

from hsdns.apiserver.reflector import MAX_PAGE_LEN
from hsdns.apiserver.transport import Transport, Unreachable, read_body
from hsdns.cluster.controllers.network_policy import KNOWN
from hsdns.cluster.objects import TOLERATE, labels_text
from hsdns.sources.manifest_yaml import ManifestLoader

NOTE: Final = "hsdns.io/unread"  # an annotation of the dump: a JSON object of reasons by plural
DNS_PODS: Final = (
    "pods of the cluster's DNS"  # used like a plural, if only one namespace is read with its DNS
)
MEMORY: Final = "memory of the cluster's DNS"  # used like a plural
_METRICS_OF: Final = "PodMetrics"  # the kind of object that has it
ISTIOD: Final = "istiod"  # used like a plural, if only one namespace is read
RUNNING: Final = (
    "pods that run"  # used in place of the plural "pods", if a file has workloads but no Pods
)
ANSWERS: Final = "answers"  # of DNS servers; used like a plural
OWN_ANSWERS: Final = "answers of this cluster"  # used like a plural
POD_VIEW: Final = "from-pod"  # answers of DNS servers to a Pod; used like a plural
MESH: Final = "istioctl"  # its output; used like a plural
QUERIES: Final = "queries"  # recorded queries; used like a plural
QUERIES_OF: Final = "RecordedQueries"  # the kind of object with recorded queries
DNS_SERVER: Final = "DnsServer"  # the kind of object with the answers of a server
PAGE: Final = 500  # objects
MAX_ERROR_LEN: Final = 4096
READ_TIMEOUT: Final = 30.0  # seconds without data
_OWN: Final = "hsdns.io/"
_METADATA: Final = (
    "name namespace uid resourceVersion labels annotations ownerReferences deletionTimestamp"
)
_KUBELET: Final = "kubelet"  # the key of kubeadm's ConfigMap kubelet-config
_DOMAIN: Final = "--domain"  # of istiod
_CONFIG_MAPS: Final = ("coredns", "node-local-dns", "coredns-custom", "hsdns", "kubelet-config")
_WORKLOADS: Final = ("StatefulSet", "Deployment", "DaemonSet")  # each has a pod template
_OFTEN_NONE: Final = ("DaemonSet", "ReplicaSet")  # so a file without them may be complete
_ROLES: Final = ("system:coredns", "coredns", "hsdns")


class Listed(NamedTuple):
    """A kind of object to list; with `names` only those objects, with a list request each, in `namespace`.

    With `labels` only objects that have them.
    """

    plural: str
    kind: str
    group_version: str
    names: tuple[str, ...] = ()
    namespace: str = ""
    is_namespaced: bool = True
    labels: str = ""

    def path(self, namespace: str) -> str:
        """The path of the list, in one namespace or, if `namespace` is empty, in all."""
        prefix = "/apis/" if "/" in self.group_version else "/api/"
        place = self.namespace or (namespace if self.is_namespaced else "")
        return (
            f"{prefix}{self.group_version}/{f'namespaces/{place}/' if place else ''}{self.plural}"
        )


KINDS: Final = (
    Listed("services", "Service", "v1"),
    Listed("endpointslices", "EndpointSlice", "discovery.k8s.io/v1"),
    Listed("pods", "Pod", "v1"),
    Listed("statefulsets", "StatefulSet", "apps/v1"),
    Listed("deployments", "Deployment", "apps/v1"),
    Listed("replicasets", "ReplicaSet", "apps/v1"),
    Listed("daemonsets", "DaemonSet", "apps/v1"),
    Listed("networkpolicies", "NetworkPolicy", "networking.k8s.io/v1"),
    Listed("namespaces", "Namespace", "v1", is_namespaced=False),
    Listed("configmaps", "ConfigMap", "v1", names=_CONFIG_MAPS, namespace="kube-system"),
    Listed(
        "clusterroles",
        "ClusterRole",
        "rbac.authorization.k8s.io/v1",
        names=_ROLES,
        is_namespaced=False,
    ),
)


def _dns_kinds(namespace: str) -> list[Listed]:
    """The lists of the cluster's DNS, read in addition to a namespace."""
    found = []
    for kind in KNOWN if namespace else ():
        if kind.namespace != namespace:
            labels = labels_text(kind.labels)
            found += [
                Listed("services", "Service", "v1", (kind.name,), kind.namespace),
                Listed("pods", "Pod", "v1", namespace=kind.namespace, labels=labels),
                Listed(
                    "deployments", "Deployment", "apps/v1", namespace=kind.namespace, labels=labels
                ),
            ]
    return found


# Served where metrics-server is, or what stands for it.
_METRICS: Final = tuple(
    Listed(
        "pods",
        _METRICS_OF,
        "metrics.k8s.io/v1beta1",
        namespace=kind.namespace,
        labels=labels_text(kind.labels),
    )
    for kind in KNOWN
)
# Istio has it here, unless told otherwise; where all namespaces are read it is found anywhere.
_ISTIOD_LABELS: Final = {"app": "istiod"}
_ISTIOD: Final = Listed(
    "deployments", "Deployment", "apps/v1", namespace="istio-system", labels="app=istiod"
)


@dataclass
class ClusterDump:
    """The objects of a cluster, in the form of the API, and why others could not be read, by plural."""

    items: list[dict[str, Any]]
    unread: dict[str, str]

    def encode(self) -> bytes:
        """The dump as a List in JSON."""
        note = {"annotations": {NOTE: json.dumps(self.unread)}}
        dump = {"apiVersion": "v1", "kind": "List", "metadata": note, "items": self.items}
        return json.dumps(dump, indent=1).encode() + b"\n"


async def config_maps(transport: Transport) -> list[dict[str, Any]]:
    """The ConfigMaps of the cluster's DNS, the one of the Corefile first; raise Unreachable."""
    (kind,) = (each for each in KINDS if each.plural == "configmaps")
    return [each for name in kind.names for each in await list_all(transport, kind, "", name)]


async def collect(
    transport: Transport,
    namespace: str = "",
    progress: Callable[[str, int], None] = lambda plural, count: None,
) -> ClusterDump:
    """Read a cluster, or one namespace of it and the pods of its DNS.

    `progress` takes the plural of what is read, and the number of objects so far.  Raise Unreachable if nothing could
    be read.
    """
    dump = ClusterDump([], {})
    beside = _dns_kinds(namespace)
    istiod = [_ISTIOD] if namespace not in ("", _ISTIOD.namespace) else []
    for kind in (*KINDS, *beside, *istiod, *_METRICS):
        try:
            for name in kind.names or ("",):
                found = await list_all(transport, kind, namespace, name)
                dump.items += [pruned(kind, each) for each in found]
                progress(kind.plural, len(dump.items))
        except Unreachable as fault:
            dump.unread[_word(kind, beside, istiod)] = str(fault)
    if {each.plural for each in KINDS} <= dump.unread.keys():
        raise Unreachable(next(iter(dump.unread.values())))
    return dump


def _word(kind: Listed, beside: Sequence[Listed], istiod: Sequence[Listed]) -> str:
    """The word for what could not be read."""
    if kind in _METRICS:
        return MEMORY
    return DNS_PODS if kind in beside else ISTIOD if kind in istiod else kind.plural


def with_object(dump: bytes, added: Mapping[str, Any]) -> bytes:
    """The content of a file of manifests, with one more object."""
    try:
        value = json.loads(dump)
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        value["items"].append(added)
        return json.dumps(value, indent=1).encode() + b"\n"
    return dump + b"\n---\n" + json.dumps(added).encode() + b"\n"


def unread_kinds(dump: bytes) -> dict[str, str]:
    """What a dump lacks, by plural, with the reasons; for a dump by kubectl, the kinds without objects."""
    try:
        value = json.loads(dump)
    except ValueError:
        value = {}
    if not isinstance(value, dict):
        value = {}
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    note = annotations.get(NOTE) if isinstance(annotations, dict) else None
    if isinstance(note, str):
        try:
            found = json.loads(note)
            unread = {str(key): str(reason) for key, reason in found.items()}
        except (ValueError, AttributeError):
            unread = {}
    else:
        unread = {
            each.plural: "there are none in the file"
            for each in KINDS
            if each.kind not in _OFTEN_NONE and not _has(dump, each.kind)
        }
        if "pods" in unread and any(_has(dump, each) for each in _WORKLOADS):
            unread = {RUNNING if key == "pods" else key: each for key, each in unread.items()}
    if ANSWERS not in unread and not _has(dump, DNS_SERVER):
        unread[ANSWERS] = "no DNS server is asked with -from, and the file has no answers"
    if MEMORY not in unread and not _has(dump, _METRICS_OF):
        unread[MEMORY] = "there are no figures of it, of metrics.k8s.io (PodMetrics)"
    if QUERIES not in unread and not _has(dump, QUERIES_OF):
        unread[QUERIES] = "no recording is given; name one with -recording"
    return unread


def _has(dump: bytes, kind: str) -> bool:
    """Whether a dump seems to have an object of a kind."""
    return f'"{kind}"'.encode() in dump or f"kind: {kind}".encode() in dump


async def list_all(
    transport: Transport, kind: Listed, namespace: str, name: str
) -> list[dict[str, Any]]:
    """All objects of a kind, or the one with the name; raise Unreachable."""
    query = {"limit": str(PAGE)}
    if name:
        query["fieldSelector"] = f"metadata.name={name}"
    if kind.labels:
        query["labelSelector"] = kind.labels
    found: list[dict[str, Any]] = []
    while True:
        page = await _page(transport, kind, kind.path(namespace), query)
        listed = page.get("items")
        found += [each for each in listed or () if isinstance(each, dict)]
        metadata = page.get("metadata")
        following = metadata.get("continue") if isinstance(metadata, dict) else None
        if not isinstance(following, str) or not following:
            return found
        query = {**query, "continue": following}


async def _page(
    transport: Transport, kind: Listed, path: str, query: Mapping[str, str]
) -> dict[str, Any]:
    async with transport.get(path, query) as answer:
        if answer.status != 200:
            said = transport.redact((await answer.text(MAX_ERROR_LEN)).strip())
            raise Unreachable(_reason(kind, answer.status, said))
        body = await read_body(answer, MAX_PAGE_LEN, READ_TIMEOUT)
    if len(body) > MAX_PAGE_LEN:
        raise Unreachable(f"a page of {kind.plural} is longer than {MAX_PAGE_LEN} octets")
    try:
        page = json.loads(body)
    except ValueError:
        page = None
    if not isinstance(page, dict):
        raise Unreachable(f"what the server sends for {kind.plural} is not a list")
    return page


def _reason(kind: Listed, status: int, said: str) -> str:
    if status == 401:
        return "the server does not accept the credentials (401)"
    if status == 403:
        return f"no right to list {kind.plural} ({status})"
    if status == 404:
        return f"the server does not know {kind.group_version} {kind.plural} (404)"
    try:
        message = json.loads(said).get("message", "")
    except (ValueError, AttributeError):
        message = said
    return f"{kind.plural} could not be read: {str(message)[:200] or 'no reason given'} ({status})"


# What is kept of an object: a key without a shape is kept whole; a shape applies to each item of a list.
_Shape = dict[str, "_Shape | None"]


def _keep(words: str, **inner: _Shape) -> _Shape:
    return {**dict.fromkeys(words.split()), **inner}


_CONTAINER: Final = _keep(
    "name ports restartPolicy",
    # Headers of a probe may contain a password.
    readinessProbe=_keep("tcpSocket grpc", httpGet=_keep("path port scheme")),
    resources=_keep("", limits=_keep("memory")),
)
_POD_SPEC: Final = _keep(
    "hostname subdomain nodeName hostNetwork dnsPolicy dnsConfig",
    containers=_CONTAINER,
    initContainers=_CONTAINER,
)
_CONTAINER_STATUS: Final = _keep(
    "name ready restartCount",
    state=_keep("", waiting=_keep("reason")),
    # The message of a terminated container may contain anything that it wrote.
    lastState=_keep("", terminated=_keep("reason exitCode finishedAt")),
)
_TEMPLATE: Final = _keep("", metadata=_keep("labels"), spec=_POD_SPEC)
_SHAPES: Final[dict[str, _Shape]] = {
    "ConfigMap": {},
    "Namespace": {},
    "Pod": _keep(
        "",
        spec=_POD_SPEC,
        status=_keep(
            "phase podIP podIPs",
            conditions=_keep("type status reason"),
            containerStatuses=_CONTAINER_STATUS,
        ),
    ),
    _METRICS_OF: _keep("", containers=_keep("name", usage=_keep("memory"))),
    "apps/v1": _keep("", spec=_keep("replicas serviceName ordinals selector", template=_TEMPLATE)),
}
_OTHERS: Final = _keep("spec status addressType endpoints ports rules")
_NEVER_EMPTY: Final = ("resources", "limits", "waiting", "terminated")


def pruned(kind: Listed, item: Mapping[str, Any]) -> dict[str, Any]:
    """An object with its kind and the fields that rules check."""
    shape = _SHAPES.get(kind.kind, _SHAPES.get(kind.group_version, _OTHERS))
    found: dict[str, Any] = {
        "apiVersion": kind.group_version,
        "kind": kind.kind,
        "metadata": _pruned(item.get("metadata"), _keep(_METADATA)),
        **_pruned(item, shape),
    }
    metadata = found["metadata"]
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = {
            key: each
            for key, each in annotations.items()
            if key == TOLERATE or key.startswith(_OWN)
        }
    if kind.kind == "ConfigMap":
        data = item.get("data")
        found["data"] = {
            key: _kubelet(each) if key == _KUBELET else each
            for key, each in (data.items() if isinstance(data, dict) else ())
            if key in ("Corefile", _KUBELET) or key.endswith(".server")
        }
    elif kind.kind == "Deployment" and _is_istiod(metadata):
        _add_domains(found.get("spec", {}), item.get("spec"))
    return found


def _pruned(value: object, shape: _Shape | None) -> Any:
    if shape is None:
        return value
    if isinstance(value, list):
        return [_pruned(each, shape) for each in value]
    given = value if isinstance(value, dict) else {}
    found = {key: _pruned(given[key], inner) for key, inner in shape.items() if key in given}
    return {key: each for key, each in found.items() if each or key not in _NEVER_EMPTY}


def _kubelet(text: object) -> str:
    """The DNS settings that a KubeletConfiguration gives pods, as JSON, which is also YAML."""
    try:
        value = yaml.load(str(text).encode(), ManifestLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        value = None
    value = value if isinstance(value, dict) else {}
    return json.dumps(_pruned(value, _keep("clusterDomain clusterDNS")))


def _is_istiod(metadata: Mapping[str, Any]) -> bool:
    labels = metadata.get("labels")
    is_labelled = isinstance(labels, dict) and _ISTIOD_LABELS.items() <= labels.items()
    return is_labelled or metadata.get("name") == ISTIOD


def _add_domains(pruned_spec: dict[str, Any], spec: Any) -> None:
    """Add the arguments of containers with which istiod is given its domain, each in its place."""
    template = pruned_spec.get("template")
    chosen = template.get("spec", {}).get("containers", []) if isinstance(template, dict) else []
    whole = spec["template"]["spec"]["containers"] if chosen else []
    for own, container in zip(chosen, whole, strict=True):
        listed = container.get("args") if isinstance(container, dict) else None
        words = [str(each) for each in listed] if isinstance(listed, list) else []
        kept = [
            word if word.partition("=")[0] == _DOMAIN or last == _DOMAIN else ""
            for last, word in zip(["", *words], words, strict=False)
        ]
        if any(kept):
            own["args"] = kept
