"""The kinds that only controllers read, with the field names of the API; other fields are skipped.

Path: sources/manifest_file decodes them -> document.py checks them -> workload.py and endpointslice.py.
The structs of kinds that DNS needs are in cluster/objects.py.
"""

from __future__ import annotations

import msgspec

from hsdns.cluster.objects import (
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Namespace,
    ObjectMeta,
    ObjectReference,
    Service,
    ServiceImport,
)


class OwnerReference(msgspec.Struct, frozen=True):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""


class OwnedMeta(ObjectMeta, frozen=True, rename="camel"):
    """metav1.ObjectMeta of objects that a controller may own."""

    owner_references: list[OwnerReference] | None = None


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 ContainerPort."""

    container_port: int = 0
    name: str | None = None
    protocol: str | None = None


class HttpGet(msgspec.Struct, frozen=True):
    """core/v1 HTTPGetAction."""

    path: str | None = None
    port: int | str | None = None


class ProbePort(msgspec.Struct, frozen=True):
    """core/v1 TCPSocketAction and GRPCAction."""

    port: int | str | None = None


class Probe(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 Probe; one without these actions runs a command."""

    http_get: HttpGet | None = None
    tcp_socket: ProbePort | None = None
    grpc: ProbePort | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 Container; an init container with `restartPolicy: Always` is a sidecar, whose ports count."""

    name: str = ""
    ports: list[ContainerPort] | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    restart_policy: str | None = None
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None


class PodDnsOption(msgspec.Struct, frozen=True):
    """core/v1 PodDNSConfigOption."""

    name: str = ""
    value: str | None = None


class PodDnsConfig(msgspec.Struct, frozen=True):
    """core/v1 PodDNSConfig."""

    nameservers: list[str] | None = None
    searches: list[str] | None = None
    options: list[PodDnsOption] | None = None


class ReadinessGate(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 PodReadinessGate."""

    condition_type: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 PodSpec."""

    hostname: str | None = None
    subdomain: str | None = None
    node_name: str | None = None
    host_network: bool | None = None
    dns_policy: str | None = None
    dns_config: PodDnsConfig | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    readiness_gates: list[ReadinessGate] | None = None


class PodIP(msgspec.Struct, frozen=True):
    """core/v1 PodIP."""

    ip: str = ""


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.Condition, and core/v1 PodCondition with the message that cluster/objects.py leaves out."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Waiting(msgspec.Struct, frozen=True):
    """core/v1 ContainerStateWaiting."""

    reason: str | None = None
    message: str | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 ContainerStateTerminated, without the message, which is what the program wrote."""

    exit_code: int | None = None
    reason: str | None = None


class ContainerState(msgspec.Struct, frozen=True):
    """core/v1 ContainerState; one that runs has neither."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 ContainerStatus."""

    name: str = ""
    ready: bool | None = None
    started: bool | None = None
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodState(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 PodStatus, as controllers and causes read it."""

    phase: str | None = None
    reason: str | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    pod_ips: list[PodIP] | None = msgspec.field(name="podIPs", default=None)
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodManifest(msgspec.Struct, frozen=True):
    """core/v1 Pod, as controllers read it."""

    metadata: OwnedMeta
    spec: PodSpec = PodSpec()
    status: PodState = PodState()


class PodTemplate(msgspec.Struct, frozen=True):
    """core/v1 PodTemplateSpec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Ordinals(msgspec.Struct, frozen=True):
    """apps/v1 StatefulSetOrdinals."""

    start: int = 0


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The specs of apps/v1 and batch/v1 combined; each kind has some of the fields."""

    replicas: int | None = None
    template: PodTemplate = PodTemplate()
    service_name: str | None = None
    ordinals: Ordinals = Ordinals()
    pod_management_policy: str | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None


class WorkloadState(msgspec.Struct, frozen=True):
    """The statuses of apps/v1 and batch/v1 combined."""

    conditions: list[Condition] | None = None


class Workload(msgspec.Struct, frozen=True):
    """A StatefulSet, Deployment, ReplicaSet, DaemonSet or Job; the document has the kind."""

    metadata: OwnedMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadState = WorkloadState()


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 Event: why a controller could not create a pod, which no status of a StatefulSet or DaemonSet says."""

    metadata: ObjectMeta
    involved_object: ObjectReference = ObjectReference()
    message: str | None = None
    last_timestamp: str | None = None


class NodeAddress(msgspec.Struct, frozen=True):
    """core/v1 NodeAddress."""

    type: str = ""
    address: str = ""


class NodeStatus(msgspec.Struct, frozen=True):
    """core/v1 NodeStatus."""

    addresses: list[NodeAddress] | None = None


class Node(msgspec.Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()


class EndpointAddress(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 EndpointAddress."""

    ip: str = ""
    hostname: str | None = None
    target_ref: ObjectReference | None = None


class EndpointSubset(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 EndpointSubset."""

    addresses: list[EndpointAddress] | None = None
    not_ready_addresses: list[EndpointAddress] | None = None
    ports: list[EndpointPort] | None = None


class Endpoints(msgspec.Struct, frozen=True):
    """core/v1 Endpoints, the predecessor of EndpointSlice."""

    metadata: ObjectMeta
    subsets: list[EndpointSubset] | None = None


class LabelExpression(msgspec.Struct, frozen=True):
    """metav1.LabelSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.LabelSelector; an empty one matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelExpression] | None = None


class IpBlock(msgspec.Struct, frozen=True):
    """networking/v1 IPBlock; `excluded` is its field `except`."""

    cidr: str = ""
    excluded: list[str] | None = msgspec.field(name="except", default=None)


class PolicyPeer(msgspec.Struct, frozen=True, rename="camel"):
    """networking/v1 NetworkPolicyPeer."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IpBlock | None = None


class PolicyPort(msgspec.Struct, frozen=True, rename="camel"):
    """networking/v1 NetworkPolicyPort; without a protocol it means TCP, without a port all ports."""

    protocol: str | None = None
    port: int | str | None = None
    end_port: int | None = None


class EgressRule(msgspec.Struct, frozen=True):
    """networking/v1 NetworkPolicyEgressRule; without ports or peers it means all."""

    to: list[PolicyPeer] | None = None
    ports: list[PolicyPort] | None = None


class IngressRule(msgspec.Struct, frozen=True):
    """networking/v1 NetworkPolicyIngressRule; `peers` is its field `from`."""

    peers: list[PolicyPeer] | None = msgspec.field(name="from", default=None)
    ports: list[PolicyPort] | None = None


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """networking/v1 NetworkPolicySpec."""

    pod_selector: LabelSelector = LabelSelector()
    policy_types: list[str] | None = None
    egress: list[EgressRule] | None = None
    ingress: list[IngressRule] | None = None


class NetworkPolicy(msgspec.Struct, frozen=True):
    """networking/v1 NetworkPolicy; it changes no answer, but decides which Pods reach the cluster's DNS."""

    metadata: ObjectMeta
    spec: PolicySpec = PolicySpec()


Manifest = (
    Service
    | EndpointSlice
    | Namespace
    | Endpoints
    | Node
    | PodManifest
    | Workload
    | ServiceImport
    | NetworkPolicy
)

# By API group and kind: other groups have kinds of the same name (a Knative Service, for example).
KINDS: dict[tuple[str, str], type[Manifest]] = {
    ("", "Service"): Service,
    ("", "Endpoints"): Endpoints,
    ("", "Namespace"): Namespace,
    ("", "Node"): Node,
    ("", "Pod"): PodManifest,
    ("discovery.k8s.io", "EndpointSlice"): EndpointSlice,
    ("apps", "StatefulSet"): Workload,
    ("apps", "Deployment"): Workload,
    ("apps", "ReplicaSet"): Workload,
    ("apps", "DaemonSet"): Workload,
    ("batch", "Job"): Workload,
    ("multicluster.x-k8s.io", "ServiceImport"): ServiceImport,
    ("networking.k8s.io", "NetworkPolicy"): NetworkPolicy,
}
CLUSTER_SCOPED = frozenset({"Namespace", "Node"})


def is_ready(endpoint: Endpoint) -> bool:
    """Whether an endpoint is ready; one without the condition is."""
    return endpoint.conditions is None or endpoint.conditions.ready is not False
