"""Why an ExternalName Service leads to nothing: its target is the complete name in a CNAME record.

Path: behind.py, failing.py, rules/checks/services.py -> here -> Cause.
Rule 1: no resolver adds a search domain to the target.
Rule 2: of a target that is a Service, the cause is that of the Service.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from hsdns.causes.cause import Cause
from hsdns.causes.view import Key
from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import Service
from hsdns.corefile.tree import did_you_mean

DOMAIN: Final = "cluster.local"  # kubeadm's default, as in most clusters

# A Service by namespace and name, None if there is none.
Find = Callable[[Key], Service | None]


def service_of(target: str, domain: str = DOMAIN) -> Key | None:
    """The namespace and the name of the Service that a target is the name of; None if it is another name."""
    labels = target.rstrip(".").lower().split(".")
    if len(labels) < 4 or labels[2] != "svc" or ".".join(labels[3:]) != domain:
        return None
    return labels[1], labels[0]


def cause_of_alias(service: Service, find: Find, domain: str = DOMAIN) -> Cause | None:
    """Why the target of a Service is no name that can be looked up; None if it may be one."""
    target, key = service.spec.external_name or "", service.key
    where = f"Service {'/'.join(filter(None, key))}"
    named = f'externalName "{target}" of {where}'
    if pack_address(target) is not None:
        sentence = f"{named} is an IP address, and a CNAME record needs a host name"
        todo = f"replace {where} by one without externalName and selector, and an EndpointSlice with the address"
        return Cause("HS131", where, sentence, todo)
    ways = [key]
    following = service_of(target, domain)
    while following is not None and following not in ways:
        ways.append(following)
        other = find(following)
        if other is None or other.spec.type != "ExternalName":
            following = None
        else:
            following = service_of(other.spec.external_name or "", domain)
    if following == key:
        between = " and ".join(f"Service {space}/{name}" for space, name in ways[1:])
        back = f"leads back to it by {between}" if between else "is its own name"
        sentence = f"{named} {back}, so it never resolves"
        return Cause(
            "HS133", where, sentence, _set(where, "the name of the host that it stands for")
        )
    whole = _completed(target, key, find, domain)
    if whole:
        sentence = (
            f"{named} is a whole name, to which no search domain is added, so it does not resolve"
        )
        return Cause("HS134", where, sentence, _set(where, whole))
    return None


def _completed(target: str, key: Key, find: Find, domain: str) -> str:
    """The whole name of a target that would need a search domain; "" if it needs none."""
    labels = target.rstrip(".").lower().split(".")
    if target.endswith("."):
        return ""
    if labels[-1] == "svc" and len(labels) >= 3:
        return f"{'.'.join(labels)}.{domain}"
    if len(labels) == 2 and find((labels[1], labels[0])) is not None:
        return f"{'.'.join(labels)}.svc.{domain}"
    if len(labels) == 1 and find((key[0], labels[0])) is not None:
        return f"{labels[0]}.{key[0] or 'NAMESPACE'}.svc.{domain}"
    return ""


def through(service: Service, cause: Cause | None) -> Cause | None:
    """The cause of a Service whose target is the name of another one, which has this cause."""
    if cause is None:
        return None
    target = service.spec.external_name
    where = f"Service {service.metadata.namespace}/{service.metadata.name}"
    return cause._replace(sentence=f"{where} is an alias of {target}: {cause.sentence}")


def cause_of_missing(
    service: Service, services: Collection[Key], domain: str = DOMAIN
) -> Cause | None:
    """Why the target of a Service is no name of the cluster; `services` are all of it."""
    target = service.spec.external_name or ""
    wanted = service_of(target, domain)
    if service.spec.type != "ExternalName" or wanted is None or wanted in services:
        return None
    space, name = wanted
    where = f"Service {service.metadata.namespace}/{service.metadata.name}"
    others = [each for each in services if each != service.key]
    near = [other for other in others if other[1] == name]
    hint = f"; Service {near[0][0]}/{name} exists" if near else ""
    if not near:
        hint = did_you_mean(name, [other for own, other in others if own == space])
        near = [(space, hint.split('"')[1])] if hint else []
    sentence = f'externalName "{target}" of {where} does not exist: there is no Service {space}/{name}{hint}'
    todo = f"add Service {space}/{name}, or write another externalName"
    if near:
        todo = _set(where, f"{near[0][1]}.{near[0][0]}.svc.{domain}")
    return Cause("", where, sentence, todo)


def _set(where: str, target: str) -> str:
    return f"set externalName of {where} to {target}"
