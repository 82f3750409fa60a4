"""HS221, HS222: the domain of the cluster, which the Corefile, the kubelets, search lists and istiod must agree on.

Path: judging.py -> here -> rules/corefile.py.
Rule 1: the domains are the zones of the kubernetes blocks, without the reverse ones.  If one of them is known only
        where the server runs, there is no finding.
Rule 2: a search domain is a cluster domain if it has the label svc.  It may be that of another cluster, with a separate
        server block in the Corefile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import CorefileError
from hsdns.rules.check import check
from hsdns.rules.corefile import zones_of
from hsdns.rules.finding import Remark
from hsdns.rules.mesh import is_istiod
from hsdns.rules.objects import Objects, PodSet
from hsdns.sources.manifest_yaml import ManifestLoader
from hsdns.wire.name import ROOT, Name

KUBELET: Final = "kubelet"  # the key of kubeadm's ConfigMap kubelet-config
_SEARCH: Final = re.compile(r"(?:[^.]+\.)?svc\.(.+?)\.?", re.IGNORECASE)
_REVERSE: Final = ("in-addr.arpa", "ip6.arpa")
_SHARED: Final = "clusterset.local"  # of the Multi-Cluster Services API
_OF_CLUSTER: Final = ("", None, "ClusterFirst", "ClusterFirstWithHostNet")


@check("HS221")
def differs(objects: Objects) -> Iterator[Remark]:
    """Domains of kubelets and pods that the cluster's DNS does not serve."""
    domains = served_domains(objects)
    if not domains:
        return
    served = " and ".join(domains)
    for manifest in objects.written("ConfigMap"):
        domain = kubelet_domain(manifest.content)
        if domain and domain not in domains:
            yield manifest.remark(
                f"data.{KUBELET}",
                f"the kubelets give pods the search domain svc.{domain}, and the Corefile serves {served}, so names "
                "such as db or db.lab do not resolve in pods; write the same domain in both",
            )
    blocks = [block for corefile in objects.corefiles for block in corefile.blocks]
    others = [zone for block in blocks for zone in zones_of(block)]
    for pods in objects.templates:
        for at, domain in _searched(pods):
            if domain in (*domains, _SHARED) or _is_below(domain, others):
                continue
            yield pods.manifest.remark(
                f"{pods.field}.dnsConfig.searches[{at}]",
                f"the search domain is of the cluster domain {domain}, and the Corefile serves {served}, so no name is "
                "found with it; write the cluster's own domain, or add a server block that forwards the other one",
                level="warning",
            )


@check("HS222")
def istiod_differs(objects: Objects) -> Iterator[Remark]:
    """The domain that istiod gives its proxies."""
    domains = served_domains(objects)
    for pods in objects.templates if domains else ():
        if pods.manifest.kind != "Deployment" or not is_istiod(pods.manifest):
            continue
        for field, domain in _domain_flags(pods):
            if domain not in domains:
                yield pods.manifest.remark(
                    field,
                    f"istiod tells its proxies that the cluster is {domain}, and the Corefile serves "
                    f"{' and '.join(domains)}, so the names that proxies know are none that DNS answers; write the "
                    "same domain in both",
                )


def _domain_flags(pods: PodSet) -> Iterator[tuple[str, str]]:
    """The values of --domain in the arguments of containers, with their fields."""
    spec: Any = pods.manifest.content
    for step in pods.field.split("."):
        spec = spec.get(step) if isinstance(spec, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for number, container in enumerate(containers if isinstance(containers, list) else ()):
        listed = container.get("args") if isinstance(container, dict) else None
        words = [str(each) for each in listed] if isinstance(listed, list) else []
        for at, word in enumerate(words):
            flag, assigned, value = word.partition("=")
            if flag == "--domain":
                at, value = (at, value) if assigned else (at + 1, "".join(words[at + 1 : at + 2]))
                if value and "$" not in value:
                    field = f"{pods.field}.containers[{number}].args[{at}]"
                    yield field, value.rstrip(".").lower()


def served_domains(objects: Objects) -> list[str]:
    """The domains that the kubernetes blocks of all Corefiles serve, in order; empty if some are unknown."""
    found: dict[str, None] = {}
    for corefile in objects.corefiles:
        for block, directive in corefile.directives("kubernetes"):
            try:
                zones = list(zones_from_args(directive.args)) or zones_of(block)
            except CorefileError:
                return []
            for zone in zones:
                text = _text(zone)
                if zone == ROOT or "_" in text:  # a placeholder such as __PILLAR__DNS__DOMAIN__
                    return []
                if not text.endswith(_REVERSE):
                    found[text] = None
    return list(found)


def kubelet_domain(config_map: Any) -> str:
    """The clusterDomain of a ConfigMap with a KubeletConfiguration; "" if it has none."""
    data = config_map.get("data") if isinstance(config_map, dict) else None
    text = data.get(KUBELET) if isinstance(data, dict) else None
    if not isinstance(text, str) or "clusterDomain" not in text:
        return ""
    try:
        value = yaml.load(text.encode(), ManifestLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    domain = value.get("clusterDomain") if isinstance(value, dict) else None
    return domain.rstrip(".").lower() if isinstance(domain, str) else ""


def _searched(pods: PodSet) -> Iterator[tuple[int, str]]:
    """The cluster domains in the search list of pods that use the cluster's DNS, with their positions."""
    spec = pods.spec
    if spec.dns_config is None or spec.dns_policy not in _OF_CLUSTER:
        return
    for at, search in enumerate(spec.dns_config.searches or ()):
        found = _SEARCH.fullmatch(search)
        if found is not None:
            yield at, found[1].lower()


def _is_below(domain: str, zones: list[Name]) -> bool:
    try:
        name = Name.from_text(f"{domain}.")
    except ValueError:
        return True
    return any(zone != ROOT and name.is_at_or_below(zone) for zone in zones)


def _text(zone: Name) -> str:
    return zone.to_text().rstrip(".").lower()
