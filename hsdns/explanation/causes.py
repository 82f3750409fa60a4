"""The first line of the explanation of an existing name: its records, or why it has none of the type.

Path: explain.py -> here.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.cluster.question import ParsedName
from hsdns.cluster.value import Node
from hsdns.explanation.report import EndpointReport, ServiceReport
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import Reply


def cause_of(
    block: Kubernetes,
    qtype: int,
    reply: Reply,
    found: tuple[Node, ParsedName] | bytes | None,
    service: ServiceReport | None,
    owners: str,
) -> str:
    """Why an existing name of the cluster has its records, without the rcode; `owners` have the queried address."""
    if isinstance(found, bytes):
        if not reply.answer:
            return f"the address in the name has no {type_to_text(qtype)} record"
        if block.options["pods"] == "verified":
            return "a pod of the namespace has the address (`pods verified`)"
        return "the address is in the name itself, whether a pod has it or not (`pods insecure`)"
    if service is None or found is None:
        if reply.answer:
            where = owners or "the zone itself"
            return f"{_counted(len(reply.answer), f'{type_to_text(qtype)} record')} of {where}"
        return f"the name exists, but has no {type_to_text(qtype)} record"
    place = f"{service.object} {service.namespace}/{service.name}"
    if service.kind == "ExternalName":
        own = f"{service.name}.{service.namespace}.svc."
        if not reply.answer and service.external_name.lower().startswith(own):
            return f"{place} is of type ExternalName, and its externalName is its own name"
        if not reply.answer:
            return f"{place} is of type ExternalName, and {service.external_name} has no such record in the cluster"
        return f"CNAME to {service.external_name}, the externalName of {place}"
    endpoints = [each for part in service.slices for each in part.endpoints]
    _, parsed = found
    if service.kind != "headless" and not parsed.endpoint:
        if reply.answer and service.kind == "ClusterSetIP":
            return f"the IP address of {place}"
        if reply.answer:
            return (
                f"the cluster IP of {place}, which is not headless: its pods are not in the answer"
            )
        return f"{place} has no {type_to_text(qtype)} record: its cluster IPs are {_listed(service.cluster_ips)}"
    if not reply.answer:
        return f"{place} has no {type_to_text(qtype)} record{_why_no_record(endpoints, qtype)}"
    if parsed.endpoint:
        label = parsed.endpoint.decode("utf-8", "replace")
        return f"endpoint {label} of {place}{_notable(endpoints)}"
    return f"{_share(endpoints)} of headless {place}{_notable(endpoints)}"


def _share(endpoints: Sequence[EndpointReport]) -> str:
    answered = sum(each.fate == "answered" for each in endpoints)
    return f"{answered} of {_counted(len(endpoints), 'endpoint')}"


def _notable(endpoints: Sequence[EndpointReport]) -> str:
    """The endpoints that are left out, and the suspicious endpoints in the answer, with the first reason."""
    found = ""
    odd = [each for each in endpoints if each.fate == "answered" and each.why]
    if odd:
        found += f"; {len(odd)} {odd[0].why}"
    out = [each for each in endpoints if each.fate == "left out"]
    about = [each for each in out if not each.why.startswith(("its name", "no hostname"))]
    if about:
        reasons = list(dict.fromkeys(each.why for each in about))
        more = " and others" if len(reasons) > 1 else ""
        found += f"; {len(about)} left out ({reasons[0]}{more})"
    return found


def _why_no_record(endpoints: Sequence[EndpointReport], qtype: int) -> str:
    if qtype in (RRType.A, RRType.AAAA) and endpoints:
        family = "IPv4" if qtype == RRType.A else "IPv6"
        return f": none of its ready endpoints has an {family} address"
    if qtype == RRType.SRV and endpoints:
        return ": its EndpointSlices have no port number"
    return ""


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
