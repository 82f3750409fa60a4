"""HS131 to HS134: targets of ExternalName Services.

Path: judging.py -> here.
Rule: the target is the complete name in a CNAME record; no resolver adds a search domain to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hsdns.cluster.address import pack_address
from hsdns.cluster.controllers.api_values import Refused, check_domain
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects

FIELD: Final = "spec.externalName"
DOMAIN: Final = "cluster.local"  # kubeadm's default, as in most clusters
_AROUND: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?([^/:?#\s]+)(?::[0-9]+)?(?:[/?#].*)?")


def is_about_target(fault: Refused) -> bool:
    """Whether a refusal is about the target of an ExternalName Service."""
    return fault.field == FIELD


@check("HS131")
def address(objects: Objects) -> Iterator[Remark]:
    """Targets that are addresses."""
    for manifest, target in _targets(objects):
        if pack_address(target) is not None:
            yield manifest.remark(
                FIELD,
                f'"{target}" is an IP address, and a CNAME record needs a host name; use a Service without selector, '
                "and an EndpointSlice with the address",
            )


@check("HS132")
def no_host(objects: Objects) -> Iterator[Remark]:
    """Targets that are not host names, which the API server refuses."""
    for manifest in objects.manifests:
        fault = manifest.refused
        if fault is None or not is_about_target(fault):
            continue
        spec = manifest.content.get("spec")
        written = spec.get("externalName") if isinstance(spec, dict) else None
        host = _host(written) if isinstance(written, str) else ""
        edit = manifest.replaced(FIELD, host) if host else None
        yield manifest.remark(FIELD, str(fault).removeprefix(f"{FIELD}: "), edit=edit)


@check("HS133")
def loop(objects: Objects) -> Iterator[Remark]:
    """Targets that lead back to the Service."""
    targets = {
        (manifest.name, manifest.namespace or "default"): _service_of(target)
        for manifest, target in _targets(objects)
    }
    for manifest, _ in _targets(objects):
        start = (manifest.name, manifest.namespace or "default")
        seen = [start]
        while (following := targets.get(seen[-1])) is not None and following not in seen:
            seen.append(following)
        if following == start:
            ways = [*seen[1:], start]
            names = " to ".join(f"{name}.{namespace}.svc.{DOMAIN}" for name, namespace in ways)
            yield manifest.remark(
                FIELD,
                f"the name leads to {names}, which is itself, and so it never resolves; "
                "write the name of what it stands for",
            )


@check("HS134")
def relative(objects: Objects) -> Iterator[Remark]:
    """Targets that would need a search domain."""
    namespaces = {each.namespace for each in objects.manifests} | {
        each.name for each in objects.written("Namespace")
    }
    for manifest, target in _targets(objects):
        labels = target.rstrip(".").lower().split(".")
        if target.endswith(".") or pack_address(target) is not None:
            continue
        reason = (
            "the target is a whole name, to which no search domain is added, so it does not resolve"
        )
        if labels[-1] == "svc" and len(labels) >= 3:
            whole = f"{'.'.join(labels)}.{DOMAIN}"
        elif len(labels) == 2 and labels[1] in namespaces and objects.service_names.get(labels[0]):
            whole = f"{'.'.join(labels)}.svc.{DOMAIN}"
        elif len(labels) == 1 and objects.named(labels[0], manifest):
            whole = f"{labels[0]}.{manifest.namespace or 'NAMESPACE'}.svc.{DOMAIN}"
        else:
            continue
        yield manifest.remark(FIELD, f'{reason}; write "{whole}", with the domain of the cluster')


def _targets(objects: Objects) -> Iterator[tuple[Manifest, str]]:
    for manifest, service in objects.services:
        if service.spec.type == "ExternalName" and service.spec.external_name:
            yield manifest, service.spec.external_name


def _service_of(target: str) -> tuple[str, str] | None:
    labels = target.rstrip(".").lower().split(".")
    if len(labels) < 4 or labels[2] != "svc" or ".".join(labels[3:]) != DOMAIN:
        return None
    return labels[0], labels[1]


def _host(written: str) -> str:
    found = _AROUND.fullmatch(written.strip())
    if found is None:
        return ""
    host = found[1].lower()
    try:
        check_domain(FIELD, host)
    except Refused:
        return ""
    return "" if pack_address(host) is not None else host
