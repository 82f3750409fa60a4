"""A dump of a cluster: the objects that rules check, read once from the API server, without secrets.

Path: doctor/cli.py -> here -> apiserver/client.py; rules/judging.py reads the dump like any file of manifests.
Rule 1: only lists are requested, in pages; nothing is written to the cluster, and Secrets are not requested.
Rule 2: it omits environment variables, commands, arguments and volumes of Pods, except istiod's domain, what containers
        wrote, and annotations except those that rules read: kubectl repeats whole objects in them.  It contains only
        the Corefile of a ConfigMap with what it may import, and the DNS settings of the kubelets' ConfigMap.
Rule 3: the dump records what could not be read, with the reason, and contains the rest.
Rule 4: answers of DNS servers are in it as objects of a separate kind.
Rule 5: an object is decoded once, into the fields that are kept, and stays in JSON: large clusters have 200 MB.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import GenericAlias
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from hsdns.apiserver.reflector import MAX_PAGE_LEN
from hsdns.apiserver.transport import Transport, Unreachable, read_body
from hsdns.cluster.controllers.network_policy import KNOWN
from hsdns.cluster.objects import TOLERATE, labels_text
from hsdns.sources.manifest_yaml import ManifestLoader

FIRST_LINE: Final = 2  # of its objects
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
_KUBELET: Final = "kubelet"  # the key of kubeadm's ConfigMap kubelet-config
_IMPORTED: Final = (
    ".server",
    ".override",
    ".conf",
)  # what Corefiles import, as those of AKS and k3s
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
    """The objects of a cluster in JSON, in the form of the API, and why others could not be read, by plural."""

    items: list[bytes]
    unread: dict[str, str]
    kinds: set[str] = field(default_factory=set)  # those of the items

    def add(self, *items: Mapping[str, Any]) -> None:
        """Add objects."""
        self.items += map(msgspec.json.encode, items)
        self.kinds |= {each["kind"] for each in items}

    def encode(self) -> bytes:
        """The dump as a List in JSON, with a line for each object; the first one is in line FIRST_LINE."""
        note = msgspec.json.encode({"annotations": {NOTE: json.dumps(self.unread)}})
        head = b'{"apiVersion": "v1", "kind": "List", "metadata": %b, "items": [' % note
        return b"%b\n%b\n]}\n" % (head, b",\n".join(self.items))

    @property
    def lacking(self) -> dict[str, str]:
        """What it lacks, as unread_kinds() of its text."""
        return _completed(self.unread, self.kinds.__contains__)


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
        prune = pruner(kind)
        try:
            for name in kind.names or ("",):
                async for page in _pages(transport, kind, namespace, name):
                    dump.items += map(prune, page)
                    dump.kinds |= {kind.kind} if page else set()
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


class _Metadata(msgspec.Struct):
    """The metadata of a list."""

    annotations: dict[str, Any] | None = None
    following: Any = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    """A list of objects, each in JSON; no object of another kind has items."""

    metadata: _Metadata | None = None
    items: list[msgspec.Raw] | None = None


def unread_kinds(dump: bytes) -> dict[str, str]:
    """What a dump lacks, by plural, with the reasons; for a dump by kubectl, the kinds without objects."""
    try:
        metadata = msgspec.json.decode(dump, type=_List).metadata
        note = metadata.annotations.get(NOTE) if metadata and metadata.annotations else None
    except msgspec.MsgspecError:
        note = None
    if isinstance(note, str):
        try:
            unread = msgspec.json.decode(note, type=dict[str, str], strict=False)
        except msgspec.MsgspecError:
            unread = {}
    else:
        unread = {
            each.plural: "there are none in the file"
            for each in KINDS
            if each.kind not in _OFTEN_NONE and not _has(dump, each.kind)
        }
        if "pods" in unread and any(_has(dump, each) for each in _WORKLOADS):
            unread = {RUNNING if key == "pods" else key: each for key, each in unread.items()}
    return _completed(unread, partial(_has, dump))


def _completed(unread: Mapping[str, str], has: Callable[[str], bool]) -> dict[str, str]:
    """What could not be read, and what no API server has and is not in the dump."""
    found = dict(unread)
    for word, kind, reason in (
        (ANSWERS, DNS_SERVER, "no DNS server is queried with --source; the file has no answers"),
        (MEMORY, _METRICS_OF, "there are no figures of it, of metrics.k8s.io (PodMetrics)"),
        (QUERIES, QUERIES_OF, "no recording is given; name one with --recording"),
    ):
        if word not in found and not has(kind):
            found[word] = reason
    return found


def _has(dump: bytes, kind: str) -> bool:
    """Whether a dump seems to have an object of a kind."""
    return f'"{kind}"'.encode() in dump or f"kind: {kind}".encode() in dump


async def list_all(
    transport: Transport, kind: Listed, namespace: str, name: str
) -> list[dict[str, Any]]:
    """All objects of a kind, or the one with the name; raise Unreachable."""
    return [
        msgspec.json.decode(each)
        async for page in _pages(transport, kind, namespace, name)
        for each in page
    ]


async def _pages(
    transport: Transport, kind: Listed, namespace: str, name: str
) -> AsyncGenerator[list[msgspec.Raw], None]:
    """The objects in JSON, as they come; raise Unreachable."""
    query = {"limit": str(PAGE)}
    if name:
        query["fieldSelector"] = f"metadata.name={name}"
    if kind.labels:
        query["labelSelector"] = kind.labels
    while True:
        page = await _page(transport, kind, kind.path(namespace), query)
        yield page.items or []
        following = page.metadata.following if page.metadata else None
        if not isinstance(following, str) or not following:
            return
        query = {**query, "continue": following}


async def _page(transport: Transport, kind: Listed, path: str, query: Mapping[str, str]) -> _List:
    async with transport.get(path, query) as answer:
        if answer.status != 200:
            said = transport.redact((await answer.text(MAX_ERROR_LEN)).strip())
            raise Unreachable(_reason(kind, answer.status, said))
        body = await read_body(answer, MAX_PAGE_LEN, READ_TIMEOUT)
    if len(body) > MAX_PAGE_LEN:
        raise Unreachable(f"a page of {kind.plural} is longer than {MAX_PAGE_LEN} octets")
    try:
        return msgspec.json.decode(body, type=_List)
    except msgspec.MsgspecError:
        raise Unreachable(f"the server's response for {kind.plural} is not a list") from None


def _reason(kind: Listed, status: int, said: str) -> str:
    if status == 401:
        return "the server rejects the credentials (401)"
    if status == 403:
        return f"no right to list {kind.plural} ({status})"
    if status == 404:
        return f"the server does not know {kind.group_version} {kind.plural} (404)"
    try:
        message = json.loads(said).get("message", "")
    except (ValueError, AttributeError):
        message = said
    return f"{kind.plural} could not be read: {str(message)[:200] or 'no reason given'} ({status})"


# What is kept of an object: a field without a shape is kept as it is; others are left out.
_UNSEEN: Final = msgspec.Raw(b"")


def _keep(words: str, **inner: Any) -> Any:
    """The type of a mapping of which these fields are kept, and of others a part."""
    fields = [
        *((each, msgspec.Raw, _UNSEEN) for each in words.split()),
        *((key, shape | None, None) for key, shape in inner.items()),
    ]
    return msgspec.defstruct("Kept", fields, omit_defaults=True)


_CONTAINER: Final = _keep(
    "name ports restartPolicy args",
    # Headers of a probe may contain a password, and so may its command.
    readinessProbe=_keep("tcpSocket grpc", httpGet=_keep("path port scheme")),
    resources=_keep("", limits=_keep("memory")),
)
_POD_SPEC: Final = _keep(
    "hostname subdomain nodeName hostNetwork dnsPolicy dnsConfig readinessGates",
    containers=GenericAlias(list, _CONTAINER),
    initContainers=GenericAlias(list, _CONTAINER),
)
# The message of a container that has ended may contain anything that it wrote; others are of controllers and kubelets.
_STATE: Final = _keep(
    "", waiting=_keep("reason message"), terminated=_keep("reason exitCode finishedAt")
)
_CONTAINER_STATUS: Final = _keep("name ready restartCount", state=_STATE, lastState=_STATE)
_CONDITION: Final = _keep("type status reason message lastTransitionTime")
_POD: Final = _keep(
    "",
    spec=_POD_SPEC,
    status=_keep(
        "phase reason podIP podIPs",
        conditions=GenericAlias(list, _CONDITION),
        containerStatuses=GenericAlias(list, _CONTAINER_STATUS),
        initContainerStatuses=GenericAlias(list, _CONTAINER_STATUS),
    ),
)
_TEMPLATE: Final = _keep("", metadata=_keep("labels"), spec=_POD_SPEC)
_WORKLOAD: Final = _keep(
    "",
    spec=_keep(
        "replicas serviceName ordinals selector podManagementPolicy suspend", template=_TEMPLATE
    ),
    status=_keep("", conditions=GenericAlias(list, _CONDITION)),
)
_FIGURES: Final = _keep("", containers=GenericAlias(list, _keep("name", usage=_keep("memory"))))
_SHAPES: Final[Mapping[str, Any]] = {
    "ConfigMap": _keep("", data=dict[str, str]),
    "Namespace": _keep(""),
    "Pod": _POD,
    _METRICS_OF: _FIGURES,
    "apps/v1": _WORKLOAD,
}
_OTHERS: Final = _keep("spec status addressType endpoints ports rules")


class _Kept(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What is kept of the metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: msgspec.Raw = _UNSEEN
    resource_version: msgspec.Raw = _UNSEEN
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: msgspec.Raw = _UNSEEN
    deletion_timestamp: msgspec.Raw = _UNSEEN


def pruner(kind: Listed) -> Callable[[msgspec.Raw], bytes]:
    """What makes of an object in JSON one with its kind and the fields that rules check; it raises Unreachable."""
    shape = _SHAPES.get(kind.kind, _SHAPES.get(kind.group_version, _OTHERS))
    fields = [(each.name, each.type, each.default) for each in msgspec.structs.fields(shape)]
    whole = msgspec.defstruct(
        "Whole",
        [
            ("apiVersion", str, ""),
            ("kind", str, ""),
            ("metadata", _Kept | None, None),
            *fields,
        ],
        omit_defaults=True,
    )
    decoder, encoder = msgspec.json.Decoder(whole), msgspec.json.Encoder()

    def prune(item: msgspec.Raw) -> bytes:
        try:
            found: Any = decoder.decode(item)
        except msgspec.ValidationError as error:
            raise Unreachable(
                f"the server's response for {kind.plural} is invalid: {error}"
            ) from None
        found.apiVersion, found.kind = kind.group_version, kind.kind
        found.metadata = metadata = found.metadata or _Kept()
        if metadata.annotations:
            metadata.annotations = {
                key: each
                for key, each in metadata.annotations.items()
                if key == TOLERATE or key.startswith(_OWN)
            }
        if kind.kind == "ConfigMap":
            found.data = {
                key: _kubelet(each) if key == _KUBELET else each
                for key, each in (found.data or {}).items()
                if key in ("Corefile", _KUBELET) or key.endswith(_IMPORTED)
            }
        elif shape is _WORKLOAD or shape is _POD:
            template = found if shape is _POD else found.spec and found.spec.template
            for each in _containers(template.spec if template else None):
                _keep_domain(each, is_istiod=kind.kind == "Deployment" and _is_istiod(metadata))
        return encoder.encode(found)

    return prune


def _kubelet(text: str) -> str:
    """The DNS settings that a KubeletConfiguration gives pods, as JSON, which is also YAML."""
    try:
        value = yaml.load(text.encode(), ManifestLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        value = None
    found = value if isinstance(value, dict) else {}
    return json.dumps({key: found[key] for key in ("clusterDomain", "clusterDNS") if key in found})


def _is_istiod(metadata: _Kept) -> bool:
    return metadata.name == ISTIOD or _ISTIOD_LABELS.items() <= (metadata.labels or {}).items()


def _containers(spec: Any) -> list[Any]:
    return [*(spec.containers or ()), *(spec.initContainers or ())] if spec else []


def _keep_domain(container: Any, *, is_istiod: bool) -> None:
    """Leave out the arguments of a container, except those that give istiod its domain, each in its place."""
    if container.args is _UNSEEN:
        return
    listed, container.args = msgspec.json.decode(container.args), _UNSEEN
    words = [str(each) for each in listed or ()] if is_istiod else []
    kept = [
        word if word.partition("=")[0] == _DOMAIN or last == _DOMAIN else ""
        for last, word in zip(["", *words], words, strict=False)
    ]
    if any(kept):
        container.args = msgspec.Raw(msgspec.json.encode(kept))
