"""Defaults of the API server, and their table in docs/sources.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hsdns.cluster.controllers.defaults import DEFAULTS, with_defaults
from hsdns.cluster.controllers.kinds import KINDS

PAGE = Path(__file__).resolve().parents[3] / "docs/sources.md"
WORKLOADS = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job")
_STRUCTS = {kind: struct for (_, kind), struct in KINDS.items()}


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        pytest.param("Service", "spec: {}", "spec: {type: ClusterIP, ipFamilyPolicy: SingleStack}", id="type"),
        pytest.param("Service", "spec: {type: '', ipFamilyPolicy: PreferDualStack}", "spec: {type: ClusterIP, ipFamilyPolicy: PreferDualStack}", id="empty-type"),
        pytest.param("Service", "spec: {type: ExternalName, externalName: a}", "spec: {type: ExternalName, externalName: a}", id="external-name"),
        pytest.param("Service", "spec: {clusterIP: None}", "spec: {type: ClusterIP, clusterIP: None, clusterIPs: [None], ipFamilyPolicy: RequireDualStack}", id="headless"),
        pytest.param("Service", "spec: {clusterIP: None, selector: {a: b}}", "spec: {type: ClusterIP, clusterIP: None, clusterIPs: [None], ipFamilyPolicy: SingleStack, selector: {a: b}}", id="headless-with-selector"),
        pytest.param(
            "Service",
            "spec: {type: NodePort, ipFamilyPolicy: SingleStack, ports: [{port: 80}, {port: 53, protocol: UDP, targetPort: dns}, {port: 1, protocol: '', targetPort: 0}, {port: 2, targetPort: ''}]}",
            "spec: {type: NodePort, ipFamilyPolicy: SingleStack, ports: [{port: 80, protocol: TCP, targetPort: 80}, {port: 53, protocol: UDP, targetPort: dns},"
            " {port: 1, protocol: TCP, targetPort: 1}, {port: 2, protocol: TCP, targetPort: 2}]}",
            id="ports",
        ),
        pytest.param("EndpointSlice", "ports: [{port: 1}, {name: a, protocol: UDP}]", "ports: [{name: '', protocol: TCP, port: 1}, {name: a, protocol: UDP}]", id="slice"),
        pytest.param("EndpointSlice", "ports: [{name: '', protocol: ''}]", "ports: [{name: '', protocol: ''}]", id="empty-is-not-absent-in-a-slice"),
        pytest.param("Endpoints", "subsets: [{ports: [{port: 1}]}, {}]", "subsets: [{ports: [{port: 1, protocol: TCP}]}, {}]", id="endpoints"),
        pytest.param("Namespace", "metadata: {labels: {a: b, kubernetes.io/metadata.name: c}}", "metadata: {labels: {a: b, kubernetes.io/metadata.name: x}}", id="namespace"),
        pytest.param(
            "Pod",
            "spec: {containers: [{ports: [{containerPort: 1}]}, {}], initContainers: [{ports: [{containerPort: 2}]}]}",
            "spec: {containers: [{ports: [{containerPort: 1, protocol: TCP}]}, {}], initContainers: [{ports: [{containerPort: 2, protocol: TCP}]}]}",
            id="pod",
        ),
        pytest.param("Pod", "spec: {dnsPolicy: ''}", "spec: {dnsPolicy: ClusterFirst}", id="empty-dns-policy"),
        pytest.param("Pod", "spec: {dnsPolicy: Default}", "spec: {dnsPolicy: Default}", id="dns-policy"),
        pytest.param("Pod", "status: {podIP: 10.0.0.1}", "status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}", id="pod-ip"),
        pytest.param("Pod", "status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.2}, {ip: 'fd00::1'}]}", "status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}", id="pod-ip-counts"),
        pytest.param("Pod", "status: {podIPs: [{ip: 10.0.0.2}, {ip: 'fd00::1'}]}", "status: {podIPs: [{ip: 10.0.0.2}, {ip: 'fd00::1'}]}", id="pod-ips"),
        *(
            pytest.param(
                kind,
                "spec: {template: {spec: {containers: [{ports: [{containerPort: 1}]}], initContainers: [{ports: [{containerPort: 2}]}]}}, replicas: 0, podManagementPolicy: Parallel, parallelism: 0, completionMode: Indexed, suspend: true}",
                "spec: {template: {spec: {containers: [{ports: [{containerPort: 1, protocol: TCP}]}], initContainers: [{ports: [{containerPort: 2, protocol: TCP}]}]}},"
                " replicas: 0, podManagementPolicy: Parallel, parallelism: 0, completionMode: Indexed, suspend: true}",
                id=f"template-of-{kind}",
            )
            for kind in WORKLOADS
        ),
        *(
            pytest.param(kind, "spec: {}", "spec: {replicas: 1}", id=f"replicas-of-{kind}")
            for kind in ("Deployment", "ReplicaSet")
        ),
        pytest.param("StatefulSet", "spec: {}", "spec: {replicas: 1, podManagementPolicy: OrderedReady}", id="StatefulSet"),
        pytest.param("DaemonSet", "spec: {}", "spec: {}", id="no-replicas-of-a-DaemonSet"),
        pytest.param("Job", "spec: {}", "spec: {completions: 1, parallelism: 1, completionMode: NonIndexed, suspend: false}", id="job"),
        pytest.param("Job", "spec: {parallelism: 3}", "spec: {parallelism: 3, completionMode: NonIndexed, suspend: false}", id="job-with-parallelism"),
        pytest.param("Job", "spec: {completions: 3}", "spec: {completions: 3, parallelism: 1, completionMode: NonIndexed, suspend: false}", id="job-with-completions"),
        # Its definition has no default, though its description names TCP.
        pytest.param("ServiceImport", "spec: {ports: [{port: 80}]}", "spec: {ports: [{port: 80}]}", id="import"),
    ],
)  # fmt: skip
def test_defaults(kind: str, before: str, after: str) -> None:
    expected = decoded(kind, after, dns_policy="ClusterFirst")
    assert with_defaults(kind, decoded(kind, before)) == expected
    assert with_defaults(kind, expected) is expected


def decoded(kind: str, text: str, dns_policy: str = "") -> Any:
    """The object; `dns_policy` is what its pods have if the text says nothing."""
    found = yaml.safe_load(text)
    path = {"Pod": ("spec",)} | dict.fromkeys(WORKLOADS, ("spec", "template", "spec"))
    if dns_policy and kind in path:
        spec = found
        for key in path[kind]:
            spec = spec.setdefault(key, {})
        spec.setdefault("dnsPolicy", dns_policy)
    found["metadata"] = {"name": "x"} | found.get("metadata", {})
    return msgspec.convert(found, _STRUCTS[kind])


def test_the_page_has_the_same_rows() -> None:
    rows = [f"| {', '.join(row.kinds)} | `{row.field}` | {row.text} |" for row in DEFAULTS]
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("### Defaults")[2].partition("\n### ")[0]
    assert [line for line in table.splitlines() if line.startswith("| ")][1:] == rows
