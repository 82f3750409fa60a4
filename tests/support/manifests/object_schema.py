"""The Kubernetes objects of deploy/, field by field, as an API server with strict validation accepts them.

Path: tests/deploy -> check().
Rule 1: an unknown field is an error, and so is a missing field without a default; a new field in deploy/ is added here
        after a look at the API reference (Kubernetes 1.29, the first with native sidecars by default).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Port = Annotated[int, Meta(ge=1, le=65535)]
Seconds = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Label = Annotated[str, Meta(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
DnsName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
PortName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$")]
Quantity = Annotated[str, Meta(pattern=r"^[0-9]+(m|[KMG]i)?$")]
Amount = Count | Annotated[str, Meta(pattern=r"^[0-9]+%$")]
Protocol = Literal["UDP", "TCP"]


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """Fields in the API's spelling."""


class Metadata(Strict, rename="camel"):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.:]{0,251}[a-z0-9])?$")]
    namespace: DnsName | UnsetType = UNSET
    labels: dict[str, Label] = {}
    annotations: dict[str, str] = {}


class TemplateMetadata(Strict):
    labels: dict[str, Label]
    annotations: dict[str, str] = {}


class Selector(Strict, rename="camel"):
    match_labels: dict[str, Label]


class Capabilities(Strict):
    drop: list[Literal["ALL"]]
    add: list[Literal["NET_BIND_SERVICE", "NET_ADMIN"]] = []


class SeccompProfile(Strict):
    type: Literal["RuntimeDefault"]


class SecurityContext(Strict, rename="camel"):
    allow_privilege_escalation: Literal[False]
    read_only_root_filesystem: Literal[True]
    capabilities: Capabilities
    run_as_non_root: Literal[True] | UnsetType = UNSET
    run_as_user: Seconds | UnsetType = UNSET
    run_as_group: Seconds | UnsetType = UNSET
    seccomp_profile: SeccompProfile | UnsetType = UNSET


class PodSecurityContext(Strict, rename="camel"):
    seccomp_profile: SeccompProfile
    run_as_non_root: Literal[True] | UnsetType = UNSET
    run_as_user: Seconds | UnsetType = UNSET
    run_as_group: Seconds | UnsetType = UNSET


class ContainerPort(Strict, rename="camel"):
    container_port: Port
    name: PortName | UnsetType = UNSET
    protocol: Protocol = "TCP"
    host_port: Port | UnsetType = UNSET


class HttpGet(Strict):
    path: Literal["/health", "/ready"]
    port: Port
    host: str | UnsetType = UNSET
    scheme: Literal["HTTP"] = "HTTP"


class Probe(Strict, rename="camel"):
    http_get: HttpGet
    initial_delay_seconds: Seconds = 0
    period_seconds: Count = 10
    timeout_seconds: Count = 1
    success_threshold: Count = 1
    failure_threshold: Count = 3


class Resources(Strict):
    limits: dict[Literal["cpu", "memory"], Quantity]
    requests: dict[Literal["cpu", "memory"], Quantity]


class FieldRef(Strict, rename="camel"):
    field_path: str


class ValueFrom(Strict, rename="camel"):
    field_ref: FieldRef


class Variable(Strict, rename="camel"):
    name: str
    value: str | UnsetType = UNSET
    value_from: ValueFrom | UnsetType = UNSET


class VolumeMount(Strict, rename="camel"):
    name: DnsName
    mount_path: Annotated[str, Meta(pattern="^/")]
    read_only: bool = False


class Container(Strict, rename="camel"):
    name: DnsName
    image: Annotated[
        str, Meta(pattern=r"^[a-z0-9]+(/[a-z0-9]+)?:[\w.-]+$")
    ]  # no host of a registry
    image_pull_policy: Literal["IfNotPresent"] = "IfNotPresent"
    restart_policy: Literal["Always"] | UnsetType = UNSET
    command: list[str] = []
    args: list[str] = []
    env: list[Variable] = []
    ports: list[ContainerPort] = []
    startup_probe: Probe | UnsetType = UNSET
    liveness_probe: Probe | UnsetType = UNSET
    readiness_probe: Probe | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    security_context: SecurityContext | UnsetType = UNSET
    volume_mounts: list[VolumeMount] = []


class KeyToPath(Strict):
    key: str
    path: str


class ConfigMapVolume(Strict):
    name: DnsName
    items: list[KeyToPath] = []


class EmptyDir(Strict, rename="camel"):
    medium: Literal["", "Memory"] = ""
    size_limit: Annotated[str, Meta(pattern=r"^\d+[KMG]i$")] = ""


class Volume(Strict, rename="camel"):
    name: DnsName
    config_map: ConfigMapVolume | UnsetType = UNSET
    empty_dir: EmptyDir | UnsetType = UNSET


class Toleration(Strict):
    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    effect: Literal["NoSchedule", "NoExecute", ""] = ""


class Spread(Strict, rename="camel"):
    max_skew: Count
    topology_key: str
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"]
    label_selector: Selector


class DnsOption(Strict):
    name: str
    value: str


class DnsConfig(Strict):
    nameservers: list[str]
    searches: list[DnsName]
    options: list[DnsOption]


class PodSpec(Strict, rename="camel"):
    containers: Annotated[list[Container], Meta(min_length=1)]
    init_containers: list[Container] = []
    service_account_name: DnsName | UnsetType = UNSET
    priority_class_name: DnsName | UnsetType = UNSET
    host_network: bool = False
    dns_policy: Literal["Default", "None", "ClusterFirst"] = "ClusterFirst"
    dns_config: DnsConfig | UnsetType = UNSET
    termination_grace_period_seconds: Seconds = 30
    node_selector: dict[str, Label] = {}
    tolerations: list[Toleration] = []
    affinity: dict[Literal["podAntiAffinity"], dict[str, list[dict[str, Any]]]] = {}
    topology_spread_constraints: list[Spread] = []
    security_context: PodSecurityContext | UnsetType = UNSET
    volumes: list[Volume] = []


class Template(Strict):
    metadata: TemplateMetadata
    spec: PodSpec


class RollingUpdate(Strict, rename="camel"):
    max_unavailable: Amount
    max_surge: Amount | UnsetType = UNSET


class Strategy(Strict, rename="camel"):
    rolling_update: RollingUpdate
    type: Literal["RollingUpdate"] = "RollingUpdate"


class DeploymentSpec(Strict):
    selector: Selector
    template: Template
    replicas: Count = 1
    strategy: Strategy | UnsetType = UNSET


class DaemonSetSpec(Strict, rename="camel"):
    selector: Selector
    template: Template
    update_strategy: Strategy | UnsetType = UNSET


class ServicePort(Strict, rename="camel"):
    name: PortName
    port: Port
    target_port: Port
    protocol: Protocol


class ServiceSpec(Strict, rename="camel"):
    selector: dict[str, Label]
    ports: Annotated[list[ServicePort], Meta(min_length=1)]
    type: Literal["ClusterIP"] = "ClusterIP"


class BudgetSpec(Strict, rename="camel"):
    selector: Selector
    max_unavailable: Amount


class Rule(Strict, rename="camel"):
    api_groups: list[str]
    resources: list[str]
    verbs: list[Literal["list", "watch"]]


class RoleRef(Strict, rename="camel"):
    api_group: Literal["rbac.authorization.k8s.io"]
    kind: Literal["Role", "ClusterRole"]
    name: str


class Subject(Strict):
    kind: Literal["ServiceAccount"]
    name: DnsName
    namespace: DnsName


class Alert(Strict, rename={"wait": "for"}):
    alert: Annotated[str, Meta(pattern="^[A-Z][A-Za-z]+$")]
    expr: str
    labels: dict[Literal["severity"], Literal["warning", "critical"]]
    annotations: dict[Literal["summary", "description"], str]
    wait: Annotated[str, Meta(pattern="^[0-9]+[smh]$")] | UnsetType = UNSET


class AlertGroup(Strict):
    name: str
    rules: list[Alert]


class AlertGroups(Strict):
    groups: list[AlertGroup]


def _kind(name: str, version: str, **fields: Any) -> tuple[str, tuple[str, type[Any]]]:
    named = [("apiVersion", str), ("kind", str), ("metadata", Metadata), *fields.items()]
    return name, (version, msgspec.defstruct(name, named, forbid_unknown_fields=True))


RBAC: Final = "rbac.authorization.k8s.io/v1"
KINDS: Final = dict(
    (
        _kind("ServiceAccount", "v1"),
        _kind("ConfigMap", "v1", data=dict[str, str]),
        _kind("Service", "v1", spec=ServiceSpec),
        _kind("Deployment", "apps/v1", spec=DeploymentSpec),
        _kind("DaemonSet", "apps/v1", spec=DaemonSetSpec),
        _kind("PodDisruptionBudget", "policy/v1", spec=BudgetSpec),
        _kind("Role", RBAC, rules=list[Rule]),
        _kind("ClusterRole", RBAC, rules=list[Rule]),
        _kind("RoleBinding", RBAC, roleRef=RoleRef, subjects=list[Subject]),
        _kind("ClusterRoleBinding", RBAC, roleRef=RoleRef, subjects=list[Subject]),
        _kind("PrometheusRule", "monitoring.coreos.com/v1", spec=AlertGroups),
    )
)
CLUSTER_WIDE: Final = ("ClusterRole", "ClusterRoleBinding")


def check(manifest: dict[str, Any]) -> Any:
    """Read an object; raise AssertionError or msgspec.ValidationError with the path of the field."""
    version, struct = KINDS[manifest["kind"]]
    assert manifest["apiVersion"] == version
    found = msgspec.convert(manifest, struct)
    if manifest["kind"] not in CLUSTER_WIDE:
        assert found.metadata.namespace is not UNSET
    template = getattr(getattr(found, "spec", None), "template", None)
    if isinstance(template, Template):
        _check_pods(found.spec.selector, template)
    return found


def _check_pods(selector: Selector, template: Template) -> None:
    """What holds between fields of a workload."""
    pod = template.spec
    assert selector.match_labels.items() <= template.metadata.labels.items()
    volumes = {volume.name for volume in pod.volumes}
    for container in [*pod.init_containers, *pod.containers]:
        assert {mount.name for mount in container.volume_mounts} <= volumes
        names = [port.name for port in container.ports if port.name]
        assert len(set(names)) == len(names)
        numbers = [(port.container_port, port.protocol) for port in container.ports]
        assert len(set(numbers)) == len(numbers)
