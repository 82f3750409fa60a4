"""resolv.conf as each library reads it, and as the kubelet writes it for a pod."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from hsdns.resolver import MODELS
from hsdns.resolver.resolv_conf import PodDns, ResolvConf, pod_resolv_conf
from tests.support.tables import columns

ROWS = Path(__file__).with_name("resolv_conf.txt")


def read(resolver: str, text: str) -> ResolvConf:
    return MODELS[resolver](text, Random(0)).conf


def test_all_of_it() -> None:
    text = (
        "# a comment\nnameserver 10.96.0.10\nsearch old.test\ndomain older.test\n"
        "search shop.svc.cluster.local svc.cluster.local.\noptions ndots:5 timeout:2 attempts:4 trust-ad\n"
    )
    assert read("glibc", text) == ResolvConf(
        ("10.96.0.10",),
        ("shop.svc.cluster.local", "svc.cluster.local"),
        5,
        2,
        4,
        frozenset({"trust-ad"}),
        (),
    )


@pytest.mark.parametrize(("given", "expected"), columns(ROWS, "read"))
def test_read(given: str, expected: str) -> None:
    resolver, field, text = f"{given} ".split(" ", 2)
    found = getattr(read(resolver, text.strip().replace("\\n", "\n")), field)
    assert (str(found) if isinstance(found, int) else " ".join(found) or "none") == expected


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
