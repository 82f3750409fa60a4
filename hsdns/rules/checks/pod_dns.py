"""HS171 to HS175: the effects of dnsPolicy and dnsConfig on a pod's resolv.conf.

Path: judging.py -> here -> resolver/pod.py, which writes it as the kubelet does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hsdns.resolver.musl import LINE_LEN
from hsdns.resolver.pod import MOST_SEARCHES, PodDns, search_list
from hsdns.rules.check import check
from hsdns.rules.checks.external_name import DOMAIN
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects, PodSet

MOST_NDOTS: Final = 15  # the maximum of glibc and musl
_CLUSTER_FIRST: Final = ("", None, "ClusterFirst")


@check("HS171")
def long_search(objects: Objects) -> Iterator[Remark]:
    """Search lists that musl ignores."""
    for pods, found in _search_lists(objects):
        length = len(f"search {' '.join(found)}".encode())
        if length > LINE_LEN:
            yield pods.manifest.remark(
                f"{pods.field}.dnsConfig.searches",
                f"the search line of resolv.conf has {length} octets, and musl, the libc of Alpine images, ignores a "
                f"line with more than {LINE_LEN}: it would try no search domain; list fewer or shorter ones",
            )


@check("HS175")
def many_domains(objects: Objects) -> Iterator[Remark]:
    """Search lists that the kubelet truncates."""
    for pods, found in _search_lists(objects):
        if len(found) > MOST_SEARCHES:
            yield pods.manifest.remark(
                f"{pods.field}.dnsConfig.searches",
                f"with those of the cluster there are {len(found)} search domains, and the kubelet writes the first "
                f"{MOST_SEARCHES}, so {found[MOST_SEARCHES]} and what comes after it are not tried; list fewer",
            )


def _search_lists(objects: Objects) -> Iterator[tuple[PodSet, list[str]]]:
    """The pods that define search domains, and all their search domains."""
    for pods in objects.templates:
        manifest, spec = pods.manifest, pods.spec
        searches = (spec.dns_config.searches or []) if spec.dns_config is not None else []
        if searches:
            pod = PodDns(
                manifest.namespace or "default",
                spec.dns_policy or "ClusterFirst",
                bool(spec.host_network),
                searches=searches,
            )
            yield pods, list(search_list(pod, DOMAIN, ""))


@check("HS172")
def ndots(objects: Objects) -> Iterator[Remark]:
    """Values of ndots with which short names do not resolve everywhere, or that cause more queries than usual."""
    for pods in objects.templates:
        config = pods.spec.dns_config
        for at, option in enumerate((config.options or ()) if config is not None else ()):
            if option.name != "ndots" or not re.fullmatch("[0-9]{1,9}", option.value or ""):
                continue
            number = int(option.value or 0)
            field = f"{pods.field}.dnsConfig.options[{at}].value"
            if number < 2:
                yield pods.manifest.remark(
                    field,
                    f"with ndots:{number} a name such as db.shop is asked as it is, and musl, the libc of Alpine "
                    "images, then tries no search domain; write names of other namespaces in full, or ndots:2",
                )
            elif number > 5:
                limit = (
                    f", and more than {MOST_NDOTS} counts as {MOST_NDOTS}"
                    if number > MOST_NDOTS
                    else ""
                )
                yield pods.manifest.remark(
                    field,
                    f"with ndots:{number} even names with {min(number, MOST_NDOTS) - 1} dots are first asked with each "
                    f"search domain{limit}; 5 is enough for all names of a cluster",
                )


@check("HS173")
def host_network(objects: Objects) -> Iterator[Remark]:
    """Pods on the host network that use the node's DNS and not the cluster's."""
    for pods in objects.templates:
        manifest, spec = pods.manifest, pods.spec
        if not spec.host_network or spec.dns_policy not in _CLUSTER_FIRST:
            continue
        yield manifest.remark(
            f"{pods.field}.hostNetwork",
            "on the host network dnsPolicy ClusterFirst means Default, so the pods ask the DNS of the node, and names "
            "of the cluster do not resolve; if they are needed, write dnsPolicy: ClusterFirstWithHostNet",
        )


@check("HS174")
def without_nameserver(objects: Objects) -> Iterator[Remark]:
    """Pods with dnsPolicy None and no nameserver."""
    for pods in objects.templates:
        spec = pods.spec
        if spec.dns_policy == "None" and not (spec.dns_config and spec.dns_config.nameservers):
            yield pods.manifest.remark(
                f"{pods.field}.dnsPolicy",
                "with dnsPolicy None the pod has the nameservers of dnsConfig only, and there is none, which the API "
                "server refuses; add dnsConfig.nameservers",
            )
