"""Why a name of the cluster has no records, in a few words: the texts of Extended DNS Errors.

Path: lookup.py finds that a name does not exist -> here -> the kubernetes plugin, with `explain`.
Rule 1: a text is made from the same value as the reply, so it becomes stale with the reply.
Rule 2: a text names no object: the client knows the name, and must not learn of other objects.  So there are few
        different texts, and entries of the answer table share them.
"""

from __future__ import annotations

from typing import Final

from hsdns.cluster.question import ParsedName
from hsdns.cluster.value import EXTERNAL_NAME, HEADLESS, Node, ServiceValue
from hsdns.wire.iana import RRType, type_to_text

NO_FORM: Final = "not the form of a name of a Service, endpoint or Pod"
NO_NAMESPACE: Final = "no such namespace"
NO_SERVED_NAMESPACE: Final = "no such namespace is served"
NO_SERVICE: Final = "no such Service in the namespace"
NO_SERVED_SERVICE: Final = "no such Service of the namespace is served"
NO_POD: Final = "no Pod of the namespace has this address"
NO_ADDRESS: Final = "not the address of a Pod"
PODS_DISABLED: Final = "names of Pods are disabled"
NO_POINTER: Final = "no Service or endpoint that is served has this address"
NO_RECORDS: Final = "the name has no records of any type"
_FAMILIES: Final = {RRType.A: "IPv4", RRType.AAAA: "IPv6"}


def readiness(value: ServiceValue, *, counted: bool = True) -> str:
    """How many endpoints of a Service are ready; without the total unless those not ready are `counted`."""
    ready, count = value.readiness
    if not counted:
        return f"{ready} endpoints ready" if ready else "no ready endpoints"
    return f"{ready} of {count} endpoints ready" if count else "no endpoints"


def absence(value: ServiceValue, parsed: ParsedName, *, counted: bool) -> str:
    """Why a name at or below a Service, or at or below one that has only slices, does not exist."""
    if value.kind is None:
        unusable = "the externalName of the Service is not a domain name"
        return unusable if value.resource_version else NO_SERVICE
    if value.kind == EXTERNAL_NAME:
        return "a Service of type ExternalName has no names below its own"
    if parsed.topology_zone:
        return "only headless Services have names for a topology zone"
    if parsed.endpoint:
        return f"no ready endpoint has this name; {readiness(value, counted=counted)}"
    if value.kind == HEADLESS and not value.has_endpoints:
        return readiness(value, counted=counted)
    return "no such port"


def nodata(found: Node | bytes | None, qtype: int) -> str:
    """Why an existing name has no records of a type; `found` is the result of lookup.py."""
    family = _FAMILIES.get(qtype)
    if family is None or found is None:
        return f"the name has no {type_to_text(qtype)} records"
    if isinstance(found, bytes) or found.a or found.aaaa:
        return f"no {family} address"
    if found.targets:
        return f"the externalName leads to no {type_to_text(qtype)} records"
    return "no address"
