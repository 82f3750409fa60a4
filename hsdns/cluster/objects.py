"""Kubernetes objects with the names and structure of the API, reduced to the fields that DNS needs.

Path: sources decode them, store.py packs them and does not keep them.
msgspec decodes the API's JSON (and YAML loaded into dicts) into these structs; other fields are skipped.  `null` is
valid wherever the API's Go types have a slice or a pointer, so such fields allow None.

Label selectors, as `kubectl -l` accepts them:
Source: Kubernetes "Labels and Selectors": `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a`, `!a`, separated by
commas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

import msgspec


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """metav1.ObjectMeta.  `resource_version` is opaque: compared for equality only."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class ApiObject(msgspec.Struct, frozen=True, gc=False):
    """An object of the API; those that compiled code has read (read_object.py) have the same properties."""

    metadata: ObjectMeta

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def resource_version(self) -> str:
        """The version of its content; "" if it is unknown."""
        return self.metadata.resource_version

    @property
    def changed_at(self) -> str | None:
        """The time of the change that led to this one, as annotated by a controller."""
        return (self.metadata.annotations or {}).get(CHANGE_TIME)

    @property
    def whole(self) -> Self:
        """The object with all fields that any part of the program reads."""
        return self


class ServicePort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """core/v1 ServicePort.  `target_port` is a number or the name of a container port; only controllers/ reads it."""

    port: int = 0
    name: str | None = None
    protocol: str | None = None
    target_port: int | str | None = None


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """core/v1 ServiceSpec."""

    type: str | None = None
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    cluster_ips: list[str] | None = msgspec.field(name="clusterIPs", default=None)
    ip_families: list[str] | None = None
    ip_family_policy: str | None = None
    external_name: str | None = None
    external_ips: list[str] | None = msgspec.field(name="externalIPs", default=None)
    ports: list[ServicePort] | None = None
    selector: dict[str, str] | None = None
    publish_not_ready_addresses: bool | None = None


class LoadBalancerIngress(msgspec.Struct, frozen=True, gc=False):
    """core/v1 LoadBalancerIngress."""

    ip: str | None = None
    hostname: str | None = None


class LoadBalancerStatus(msgspec.Struct, frozen=True, gc=False):
    """core/v1 LoadBalancerStatus."""

    ingress: list[LoadBalancerIngress] | None = None


class ServiceStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """core/v1 ServiceStatus."""

    load_balancer: LoadBalancerStatus | None = None


class Service(ApiObject, frozen=True, gc=False):
    """core/v1 Service."""

    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus | None = None

    @property
    def is_headless(self) -> bool:
        """Whether its name leads to the endpoints themselves."""
        spec = self.spec
        is_none = (spec.cluster_ips or [spec.cluster_ip or ""])[0] == "None"
        return is_none and spec.type != "ExternalName"


class ServiceImportSpec(msgspec.Struct, frozen=True, gc=False):
    """multicluster.x-k8s.io/v1alpha1 ServiceImportSpec; `type` is ClusterSetIP or Headless."""

    type: str | None = None
    ips: list[str] | None = None
    ports: list[ServicePort] | None = None


class ServiceImport(ApiObject, frozen=True, gc=False):
    """multicluster.x-k8s.io/v1alpha1 ServiceImport: a Service of a clusterset, as seen in one of its clusters."""

    spec: ServiceImportSpec = ServiceImportSpec()


class EndpointConditions(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """discovery/v1 EndpointConditions; an absent `ready` means ready."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """core/v1 ObjectReference."""

    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class Endpoint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """discovery/v1 Endpoint."""

    addresses: list[str] | None = None
    conditions: EndpointConditions | None = None
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    zone: str | None = None


class EndpointPort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """discovery/v1 EndpointPort; all fields may be absent."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None


class EndpointSlice(ApiObject, frozen=True, rename="camel", gc=False):
    """discovery/v1 EndpointSlice."""

    address_type: str = ""
    endpoints: list[Endpoint] | None = None
    ports: list[EndpointPort] | None = None


class Namespace(ApiObject, frozen=True, gc=False):
    """core/v1 Namespace."""


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """core/v1 PodCondition."""

    type: str = ""
    status: str = ""
    reason: str | None = None


class PodNames(msgspec.Struct, frozen=True, gc=False):
    """The fields of core/v1 PodSpec that name a pod below a headless Service; only explanation/ reads them."""

    hostname: str | None = None
    subdomain: str | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """core/v1 PodStatus; only explanation/ reads `conditions`."""

    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    phase: str | None = None
    conditions: list[PodCondition] | None = None


class Pod(ApiObject, frozen=True, gc=False):
    """core/v1 Pod: the fields that `pods verified` and the explanations of its endpoints need."""

    status: PodStatus = PodStatus()
    spec: PodNames = PodNames()


Object = Service | EndpointSlice | Namespace | Pod | ServiceImport
KINDS: Final[dict[str, type[Object]]] = {
    each.__name__: each for each in (Service, EndpointSlice, Namespace, Pod, ServiceImport)
}
# msgspec 0.22 shows a type to other threads before it is complete: two that decode one for the first time at once crash
# the process.  So all of it happens here.
for _kind in KINDS.values():
    msgspec.json.Decoder(_kind)
UNDECODED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # raised by decoding
Identity = tuple[type[Object], str, str]  # kind, namespace, name
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
# Labels on slices of a ServiceImport: its name, and the cluster of the endpoints.
IMPORT_NAME_LABEL = "multicluster.kubernetes.io/service-name"
SOURCE_CLUSTER_LABEL = "multicluster.kubernetes.io/source-cluster"
CHANGE_TIME = "endpoints.kubernetes.io/last-change-trigger-time"  # an annotation of slices
# An annotation of Services that EndpointSlices ignore; publishNotReadyAddresses replaced it.
TOLERATE = "service.alpha.kubernetes.io/tolerate-unready-endpoints"


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as a selector of the API, which matches those that have all of them."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


def read_object(text: msgspec.Raw | bytes) -> Object:
    """The object in a text of JSON; raise ValueError."""
    try:
        return msgspec.json.decode(text, type=KINDS[msgspec.json.decode(text, type=_Kind).kind])
    except KeyError:
        raise ValueError(f"an object is none of {', '.join(KINDS)}") from None
    except UNDECODED as error:
        raise ValueError(f"an object cannot be read: {error}") from None


def identity(found: Object) -> Identity:
    """The identity of an object."""
    return type(found), found.metadata.namespace, found.metadata.name


def stub(of: Identity) -> Object:
    """An object with only an identity, such as that of a deleted one."""
    kind, namespace, name = of
    return kind(ObjectMeta(name=name, namespace=namespace))


class Upserted(NamedTuple):
    """An object was added or changed, or was delivered again."""

    object: Object


class Deleted(NamedTuple):
    """An object was deleted; only its kind, namespace and name are used."""

    object: Object


class Synced(NamedTuple):
    """All objects that existed when the source began have been delivered."""


Event = Upserted | Deleted | Synced


def differences(before: Mapping[Identity, Object], after: Mapping[Identity, Object]) -> list[Event]:
    """The events between two states."""
    events: list[Event] = [Upserted(each) for key, each in after.items() if before.get(key) != each]
    return events + [Deleted(each) for key, each in before.items() if key not in after]


_KEY = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9._]*[a-zA-Z0-9])?/)?[a-zA-Z0-9](?:[-a-zA-Z0-9._]*[a-zA-Z0-9])?"
_VALUE = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9._]*[a-zA-Z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!\s*{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_op>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})\s*(?P<op>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<present>{_KEY}))\s*(?:,|$)"
)


class Requirement(NamedTuple):
    """One condition: the value of a label is, or with `wanted` False is not, one of `values` (None: any value)."""

    key: str
    values: frozenset[str] | None
    wanted: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement; `!=` and `notin` also match objects without the label."""
        value = labels.get(self.key)
        found = value is not None and (self.values is None or value in self.values)
        return found is self.wanted

    def __str__(self) -> str:
        """The form that the API accepts."""
        if self.values is None:
            return self.key if self.wanted else f"!{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.wanted else '!='}{min(self.values)}"
        return f"{self.key} {'in' if self.wanted else 'notin'} ({','.join(sorted(self.values))})"


class Selector(NamedTuple):
    """Selects the objects that meet all requirements."""

    requirements: tuple[Requirement, ...]

    def __str__(self) -> str:
        """The form that the API accepts."""
        return ",".join(map(str, self.requirements))

    @classmethod
    def from_text(cls, text: str) -> Selector:
        """Parse a selector; raise ValueError with the part that is wrong."""
        found, at = [], 0
        while at < len(text):
            match = _REQUIREMENT.match(text, at)
            if match is None:
                raise ValueError(
                    f'"{text[at:].strip()}" is not a label selector; write for example "app=web"'
                )
            found.append(_requirement(match))
            at = match.end()
        if not found or text.rstrip().endswith(","):
            raise ValueError(f'"{text}" is not a label selector; write for example "app=web"')
        return cls(tuple(found))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


def _requirement(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent"][1:].strip(), None, wanted=False)
    if match["present"]:
        return Requirement(match["present"], None, wanted=True)
    if match["set_op"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["set_key"], values, wanted=match["set_op"] == "in")
    return Requirement(match["key"], frozenset((match["value"],)), wanted=match["op"] != "!=")
