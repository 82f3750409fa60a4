"""The resolv.conf of a pod, as the kubelet writes it.

Path: cli/resolve.py, for -from -> here -> resolver/resolv_conf.py.
Source: Kubernetes pkg/kubelet/network/dns/dns.go; the limits are those of core validation: three nameservers, 32 search
        domains, 2,048 characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.resolver.resolv_conf import write_resolv_conf

MOST_SERVERS: Final = 3
MOST_SEARCHES: Final = 32
MOST_SEARCH_LEN: Final = 2048  # characters, with the spaces between
POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")


class PodDns(NamedTuple):
    """The DNS settings of a pod's spec; `options` without a value have an empty one."""

    namespace: str
    policy: str = "ClusterFirst"
    on_host_network: bool = False
    nameservers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Mapping[str, str] = {}

    @property
    def asks_cluster(self) -> bool:
        """Whether its policy makes the cluster's DNS its nameserver."""
        is_plain = self.policy == "ClusterFirst" and not self.on_host_network
        return is_plain or self.policy == "ClusterFirstWithHostNet"


def pod_resolv_conf(pod: PodDns, cluster_dns: str, domain: str, node: str) -> str:
    """The text; `domain` is the cluster's, and `node` the text of the node's resolv.conf, which `Default` uses."""
    servers: list[str] = []
    options: dict[str, str] = {}
    if pod.policy != "None":
        servers, _ = _of_node(node)
    if pod.asks_cluster:
        servers = [cluster_dns]
        options = {"ndots": "5"}
    servers = list(dict.fromkeys([*servers, *pod.nameservers]))[:MOST_SERVERS]
    searches = search_list(pod, domain, node)[:MOST_SEARCHES]
    while len(" ".join(searches)) > MOST_SEARCH_LEN:
        searches.pop()
    return write_resolv_conf(servers, searches, {**options, **pod.options})


def search_list(pod: PodDns, domain: str, node: str) -> list[str]:
    """All search domains, including those beyond the kubelet's limits."""
    searches = _of_node(node)[1] if pod.policy != "None" else []
    if pod.asks_cluster:
        searches = [f"{pod.namespace}.svc.{domain}", f"svc.{domain}", domain, *searches]
    return list(dict.fromkeys([*searches, *pod.searches]))


def _of_node(text: str) -> tuple[list[str], list[str]]:
    """The nameservers and search domains of the node; the kubelet leaves its options out."""
    servers: list[str] = []
    searches: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["nameserver"]:
            servers += words[1:2]
        elif words[:1] == ["search"]:
            searches = [word.rstrip(".") or "." for word in words[1:]]
    return servers, searches
