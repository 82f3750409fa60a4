"""A pod of manifests: its own, or that of a workload, with what NetworkPolicies deny it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cluster.pod_reading import PodReading, PodUnreadable
from hsdns.sources import manifests
from hsdns.sources.manifests import read_pod

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {hostNetwork: true, dnsConfig: {nameservers: [192.0.2.1]}}
status: {phase: Running, podIP: 10.244.0.7, podIPs: [{ip: 10.244.0.7}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {dnsPolicy: Default}}
"""
POLICY = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, egress: [{to: [{namespaceSelector: {}}], ports: [{protocol: UDP, port: 53}]}]}
"""


def read(folder: Path, name: str, more: str = "") -> PodReading:
    (folder / "pods.yaml").write_text(PODS + more)
    return read_pod([str(folder)], "shop", name)


def test_a_pod_that_its_workload_would_have(tmp_path: Path) -> None:
    assert read(tmp_path, "db-0").spec.dns_policy == "Default"


def test_what_a_network_policy_denies(tmp_path: Path) -> None:
    assert read(tmp_path, "web", POLICY).denied == {
        "tcp": "NetworkPolicy shop/web allows port 53 over UDP only to the cluster's DNS"
    }


def test_a_pod_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PodUnreadable) as raised:
        read(tmp_path, "wbe")
    assert str(raised.value) == 'the source has no pod shop/wbe; did you mean "shop/web"?'


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has been removed since the folder was listed."""
    monkeypatch.setattr(manifests, "manifest_paths", lambda paths: [f"{tmp_path}/gone.yaml"])
    with pytest.raises(PodUnreadable) as raised:
        read_pod([str(tmp_path)], "shop", "web")
    assert str(raised.value) == f"{tmp_path}/gone.yaml: cannot be read: No such file or directory"


OPENSHIFT = """---
apiVersion: v1
kind: Service
metadata: {name: dns-default, namespace: openshift-dns}
spec:
  clusterIP: 172.30.0.10
  selector: {dns: default}
  ports: [{name: dns, port: 53, protocol: UDP, targetPort: dns}, {name: dns-tcp, port: 53, protocol: TCP, targetPort: dns-tcp}]
---
apiVersion: v1
kind: Pod
metadata: {name: dns-default-x, namespace: openshift-dns, labels: {dns: default}}
spec: {containers: [{name: dns, ports: [{name: dns, containerPort: 5353, protocol: UDP}, {name: dns-tcp, containerPort: 5353}]}]}
status: {phase: Running, podIP: 10.128.0.2, podIPs: [{ip: 10.128.0.2}]}
"""


def test_the_port_of_openshift(tmp_path: Path) -> None:
    far = POLICY.replace("port: 53}", "port: 5353}, {port: 5353}")
    assert read(tmp_path, "web", OPENSHIFT + far).denied == {}
    near = POLICY.replace("port: 53}", "port: 53}, {port: 53}")
    assert read(tmp_path, "web", OPENSHIFT + near).denied == dict.fromkeys(
        ("udp", "tcp"), "NetworkPolicy shop/web allows no port 5353 to the cluster's DNS"
    )
