"""The names of a test's cluster, as a program in a pod writes them.

Path: cluster.py, queries.py, answers.py, pod.py and patch.py use it.
Rule 1: a name with a trailing dot, or in the cluster's zones, is complete; any other may be completed by the search
        list of the namespace.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, NamedTuple

from hsdns.resolver.resolv_conf import PodDns, pod_resolv_conf

ZONE: Final = "cluster.local"
ZONES: Final = (ZONE, "in-addr.arpa", "ip6.arpa")
NAMESPACE: Final = "default"
CLUSTER_DNS: Final = "10.96.0.10"  # as in kubeadm's clusters
POD_NETWORK: Final = "10.245.0.0/16"  # of client pods; pods of workloads are in 10.244.0.0/16


class PodIdentity(NamedTuple):
    """A client pod; fault rules identify it by its `address`."""

    name: str
    namespace: str
    address: str


def resolv_conf(namespace: str) -> str:
    """The resolv.conf of a pod in a namespace."""
    return pod_resolv_conf(PodDns(namespace), CLUSTER_DNS, ZONE, "")


def forms(name: str, namespace: str) -> tuple[str, ...]:
    """The names that may be queried for this name, without trailing dots, in lower case."""
    bare = name.lower().removesuffix(".")
    if name.endswith(".") or any(bare == zone or bare.endswith(f".{zone}") for zone in ZONES):
        return (bare,)
    suffixes = (f".{namespace}.svc.{ZONE}", f".svc.{ZONE}", f".{ZONE}", "")
    return tuple(bare + suffix for suffix in suffixes)


def is_loopback(text: str) -> bool:
    """Whether a text is an IP address of this machine alone."""
    return is_address(text) and ip_address(text).is_loopback


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
