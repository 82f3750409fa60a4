"""The pod of -from."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.assemble import Configuration
from hsdns.cli.flags import FlagError
from hsdns.cli.launch import CorefileSource, build
from hsdns.cli.resolve_chain import Chain
from hsdns.cli.resolve_pod import cluster_dns, find_pod
from hsdns.resolver.pod import PodDns

COREFILE = "kube.test {\nkubernetes {\nsource SOURCE\n}\n}\n"
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  dnsConfig: {nameservers: [192.0.2.1], searches: [x.test], options: [{name: edns0}, {name: ndots, value: "2"}]}
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
---
apiVersion: v1
kind: Pod
metadata: {name: typo, namespace: shop}
spec: {dnsPolicy: Clusterfirst}
---
apiVersion: v1
kind: Pod
metadata: {name: none, namespace: shop}
spec: {dnsPolicy: None}
---
apiVersion: v1
kind: Pod
metadata: {name: name, namespace: shop}
spec: {dnsConfig: {nameservers: [dns]}}
"""
KUBE_DNS = """
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 10.43.0.10, ports: [{port: 53}]}
"""


def configuration(
    folder: Path, source: str = "manifests pods.yaml", more: str = ""
) -> Configuration:
    (folder / "pods.yaml").write_text(PODS + more)
    (folder / "Corefile").write_text(COREFILE.replace("SOURCE", source))
    return build(
        CorefileSource(str(folder / "Corefile"), "").load(), 53, warn=lambda sentence: None
    )


def test_a_pod(tmp_path: Path) -> None:
    found = find_pod(configuration(tmp_path), "shop/web")
    options = {"edns0": "", "ndots": "2"}
    dns = PodDns("shop", "ClusterFirstWithHostNet", True, ["192.0.2.1"], ["x.test"], options)
    assert found == (dns, "10.244.0.7", "kube.test", ())


POLICY = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, egress: [{to: [{namespaceSelector: {}}], ports: [{protocol: UDP, port: 53}]}]}
"""


def test_what_a_network_policy_denies(tmp_path: Path) -> None:
    found = find_pod(configuration(tmp_path, more=POLICY), "shop/web")
    assert found.denied == (
        ("tcp", "NetworkPolicy shop/web allows port 53 over UDP only to the cluster's DNS"),
    )


def test_a_pod_that_its_workload_would_have(tmp_path: Path) -> None:
    assert find_pod(configuration(tmp_path), "shop/db-0").dns == PodDns(
        "shop", "Default", False, [], [], {}
    )


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("web", '-from needs a namespace and a pod, as in shop/web-0, found "web"'),
        ("shop/", '-from needs a namespace and a pod, as in shop/web-0, found "shop/"'),
        ("shop/wbe", 'the source has no pod shop/wbe; did you mean "shop/web"?'),
        ("shop/typo", 'dnsPolicy of the pod shop/typo is "Clusterfirst", which is none; did you mean "ClusterFirst"?'),
        ("shop/none", "the pod shop/none has dnsPolicy None, but no nameserver in its dnsConfig"),
        ("shop/name", 'dnsConfig of the pod shop/name has the nameserver "dns", which is no IP address'),
    ],
)  # fmt: skip
def test_errors(path: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(FlagError) as raised:
        find_pod(configuration(tmp_path), path)
    assert str(raised.value) == error


def test_other_sources_have_no_pods(tmp_path: Path) -> None:
    with pytest.raises(FlagError, match=r"^-from reads pods from manifests only; "):
        find_pod(configuration(tmp_path, "synthetic services=3"), "shop/web")


@pytest.mark.parametrize(("more", "address"), [("", "10.96.0.10"), (KUBE_DNS, "10.43.0.10")])
def test_cluster_dns(more: str, address: str, tmp_path: Path) -> None:
    found = configuration(tmp_path, more=more)
    with Chain(found, "127.0.0.1"):
        assert cluster_dns(found) == address
