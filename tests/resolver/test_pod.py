"""The resolv.conf of a pod."""

from __future__ import annotations

import pytest

from hsdns.resolver.resolv_conf import PodDns, pod_resolv_conf

NODE = "nameserver 192.0.2.53\nsearch corp.test\noptions rotate\n"
CLUSTER = (
    "search shop.svc.cluster.local svc.cluster.local cluster.local corp.test\n"
    "nameserver 10.96.0.10\noptions ndots:5\n"
)
OF_NODE = "search corp.test\nnameserver 192.0.2.53\n"


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (PodDns("shop"), CLUSTER),
        (PodDns("shop", "ClusterFirst", True), OF_NODE),
        (PodDns("shop", "ClusterFirstWithHostNet", True), CLUSTER),
        (PodDns("shop", "Default"), OF_NODE),
        (
            PodDns("shop", "None", nameservers=["1.1.1.1"], searches=["x.test"], options={"edns0": ""}),
            "search x.test\nnameserver 1.1.1.1\noptions edns0\n",
        ),
        (
            PodDns("shop", nameservers=["10.96.0.10", "1.1.1.1"], searches=["corp.test", "x.test"],
                   options={"ndots": "2", "timeout": "1"}),
            CLUSTER.replace("corp.test", "corp.test x.test").replace("0.10\n", "0.10\nnameserver 1.1.1.1\n")
            .replace("ndots:5", "ndots:2 timeout:1"),
        ),
    ],
)  # fmt: skip
def test_policies(pod: PodDns, text: str) -> None:
    assert pod_resolv_conf(pod, "10.96.0.10", "cluster.local", NODE) == text


def test_limits() -> None:
    pod = PodDns("a", "None", nameservers=[f"192.0.2.{n}" for n in range(5)], searches=[f"{n}.test" for n in range(40)])  # fmt: skip
    lines = pod_resolv_conf(pod, "", "", "").splitlines()
    assert len(lines[0].split()) == 33
    assert len(lines) == 4
    long = PodDns("a", "None", nameservers=["192.0.2.1"], searches=[f"{n}{'x' * 98}" for n in range(30)])  # fmt: skip
    assert len(pod_resolv_conf(long, "", "", "").splitlines()[0]) <= len("search ") + 2048
