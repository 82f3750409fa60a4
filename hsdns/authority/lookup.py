"""Lookup of a question in a zone (RFC 1034 section 4.3.2, RFC 4592, RFC 6672, RFC 4035 section 3.1).

Path: lookup.py calls find(), resolves a target outside of the zone, and passes it to Found.with_target().
Source: CoreDNS 1.14.7 plugin/file lookup.go, for the records in each section.
Rule 1: the lookup starts at the apex, so that a delegation or a DNAME hides the names below it.
Rule 2: positive answers have the zone's NS records in the authority section, negative ones the SOA; referrals lack AA.
Rule 3: an alias is followed within the zone as long as its target has records; otherwise the target is resolved by the
        whole server, which also finds a wildcard of this zone.

Replies from a zone, including the targets of aliases outside of it:
Rule 1: what an alias leads to in the cluster is as `fresh` in the reply as by itself, so that no cache keeps it after
        an event.
Source: CoreDNS 1.14.7 plugin/file file.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable
from enum import Enum
from typing import Final, NamedTuple

from hsdns.authority.zone import Node, Zone
from hsdns.chain import Request
from hsdns.wire.iana import ADDRESSES, Rcode, RRType
from hsdns.wire.message import RR, Reply, unwritten
from hsdns.wire.name import MAX_NAME_LEN, Name
from hsdns.wire.rdata import read_name

MAX_ALIASES: Final = 9  # length of a chain within the zone
# Offset of the name in RDATA of the types with additional section processing.
_TARGET_AT: Final = {RRType.SRV: 6, RRType.MX: 2, RRType.SVCB: 2, RRType.HTTPS: 2}


class Result(Enum):
    """Kinds of results."""

    SUCCESS = "success"
    NODATA = "nodata"
    EMPTY_NON_TERMINAL = "empty non-terminal"
    NXDOMAIN = "nxdomain"
    DELEGATION = "delegation"
    SERVFAIL = "servfail"
    TOO_LONG = "too long"  # the name after DNAME substitution


class Found(NamedTuple):
    """An answer; if `target` is set, the target of its alias is still to be resolved."""

    result: Result
    answer: tuple[RR, ...] = ()
    authority: tuple[RR, ...] = ()
    additional: tuple[RR, ...] = ()
    target: Name | None = None
    wildcard: Name | None = None  # the source of synthesis

    def with_target(self, zone: Zone, reply: Reply, do: bool) -> Found:
        """Return the complete answer, given the reply for the target."""
        answer = (*self.answer, *reply.answer)
        if reply.rcode == Rcode.NXDOMAIN:
            result = Result.NXDOMAIN
        elif reply.rcode == Rcode.SERVFAIL:
            result = Result.SERVFAIL
        elif reply.rcode == Rcode.NOERROR and not reply.answer and not reply.dropped:
            result = Result.NODATA
        else:
            result = Result.SUCCESS
        negative = result in (Result.NXDOMAIN, Result.NODATA)
        authority = zone.soa_set(do) if negative else zone.ns_set(do)
        return self._replace(
            result=result,
            answer=answer,
            authority=authority,
            additional=_additional(zone, answer, do),
            target=None,
        )


def find(zone: Zone, qname: Name, qtype: int, do: bool) -> Found:
    """Look up a name at or below the apex; with `do` add signatures and NSEC records."""
    qname = qname.lowered()
    suffixes = qname.ancestors()
    suffixes = suffixes[len(suffixes) - len(zone.origin.ancestors()) :: -1]
    encloser = suffixes[0]
    for suffix in suffixes:
        if not zone.exists(suffix):
            return _missing(zone, qname, qtype, Name(encloser), do)
        encloser = suffix
        node = zone.nodes.get(suffix)
        if node is None:
            continue
        if suffix != qname.lower and RRType.DNAME in node.records:
            return _redirected(zone, qname, qtype, node, do)
        referral = _referral(zone, node, qname, qtype, do)
        if referral is not None:
            return referral
    node = zone.nodes.get(qname.lower)
    if node is None:
        return Found(
            Result.EMPTY_NON_TERMINAL, authority=zone.soa_set(do) + _denial(zone, qname, do)
        )
    return _exact(zone, node, qname, qtype, do)


def _exact(zone: Zone, node: Node, qname: Name, qtype: int, do: bool) -> Found:
    """Answer for a name with records."""
    if qname == zone.origin:
        if qtype == RRType.SOA:
            return Found(Result.SUCCESS, zone.soa_set(do), zone.ns_set(do))
        if qtype == RRType.NS and RRType.NS in node.records:
            servers = zone.ns_set(do)
            return Found(Result.SUCCESS, servers, (), _glue(zone, servers, do))
    if RRType.CNAME in node.records and qtype != RRType.CNAME:
        return _followed(zone, node.rrset(RRType.CNAME, do), qtype, do)
    records = node.rrset(qtype, do)
    if not records:
        nsec = node.rrset(RRType.NSEC, do) if do else ()
        return Found(Result.NODATA, authority=zone.soa_set(do) + nsec)
    return Found(Result.SUCCESS, records, zone.ns_set(do), _additional(zone, records, do))


def _missing(zone: Zone, qname: Name, qtype: int, encloser: Name, do: bool) -> Found:
    """Answer for a name that does not exist: from a wildcard at the closest encloser, or negative."""
    star = b"\1*" + encloser.lower
    if not zone.exists(star):
        authority = zone.soa_set(do) + _denial(zone, qname, do)
        if do:
            authority += tuple(
                record for record in _denial(zone, Name(star), do) if record not in authority
            )
        return Found(Result.NXDOMAIN, authority=authority)
    node = zone.nodes.get(star)
    if node is None:
        return Found(Result.NODATA, authority=zone.soa_set(do))
    if RRType.CNAME in node.records and qtype != RRType.CNAME:
        alias = _at(node.rrset(RRType.CNAME, do), qname)
        found = _followed(zone, alias, qtype, do)
        proof = _denial(zone, qname, do) if found.target is None else ()
        return found._replace(authority=found.authority + proof, wildcard=node.owner)
    records = _at(node.rrset(qtype, do), qname)
    if not records:
        nsec = node.rrset(RRType.NSEC, do) if do else ()
        return Found(Result.NODATA, authority=zone.soa_set(do) + nsec, wildcard=node.owner)
    return Found(
        Result.SUCCESS,
        records,
        zone.ns_set(do) + _denial(zone, qname, do),
        _additional(zone, records, do),
        wildcard=node.owner,
    )


def _redirected(zone: Zone, qname: Name, qtype: int, node: Node, do: bool) -> Found:
    """Answer for a name below a DNAME: the DNAME and the CNAME synthesized from it (RFC 6672 section 3.1)."""
    dname = node.records[RRType.DNAME][0]
    answer = (dname, *(node.signatures.get(RRType.DNAME, ()) if do else ()))
    wire = qname.wire[: len(qname.wire) - len(node.owner.wire)] + dname.rdata
    if len(wire) > MAX_NAME_LEN:
        return Found(Result.TOO_LONG, answer)
    alias = RR(qname, RRType.CNAME, dname.ttl, wire)
    if Name(wire) == qname:
        return Found(Result.SERVFAIL)
    if qtype == RRType.CNAME:
        return Found(Result.SUCCESS, (*answer, alias), zone.ns_set(do))
    found = _followed(zone, (alias,), qtype, do)
    return found._replace(answer=answer + found.answer)


def _followed(zone: Zone, alias: tuple[RR, ...], qtype: int, do: bool) -> Found:
    """Follow a CNAME within the zone."""
    answer, seen = alias, {alias[0].owner}
    while True:
        target = Name(alias[0].rdata)
        if not target.is_at_or_below(zone.origin):
            return Found(Result.SUCCESS, answer, target=target)
        referral = _referral_above(zone, target, qtype, do)
        if referral is not None:
            return referral._replace(answer=answer)
        node = zone.nodes.get(target.lower)
        at_apex = target == zone.origin and qtype in (RRType.NS, RRType.SOA)
        if node is None or at_apex:
            return Found(Result.SUCCESS, answer, target=target)
        if RRType.CNAME not in node.records:
            break
        if target in seen or len(seen) > MAX_ALIASES:
            return Found(Result.SUCCESS, answer, zone.ns_set(do))
        seen.add(target)
        alias = node.rrset(RRType.CNAME, do)
        answer += alias
    if qtype == RRType.NS and len(seen) == 1:
        # CoreDNS resolves a target's NS separately, and finds none or a further alias.
        return Found(Result.NODATA, answer, zone.soa_set(do))
    answer += node.rrset(qtype, do)
    return Found(Result.SUCCESS, answer, zone.ns_set(do), _additional(zone, answer, do))


def _referral_above(zone: Zone, name: Name, qtype: int, do: bool) -> Found | None:
    suffixes = name.ancestors()
    for suffix in suffixes[len(suffixes) - len(zone.origin.ancestors()) :: -1]:
        node = zone.nodes.get(suffix)
        referral = None if node is None else _referral(zone, node, name, qtype, do)
        if referral is not None:
            return referral
    return None


def _referral(zone: Zone, node: Node, qname: Name, qtype: int, do: bool) -> Found | None:
    """Return the referral of a delegated name, if any; the parent answers DS itself (RFC 4035 section 3.1.4.1)."""
    servers = node.records.get(RRType.NS)
    if servers is None or node.owner == zone.origin:
        return None
    if qtype == RRType.DS and node.owner == qname:
        return None
    authority = tuple(servers)
    if do:
        authority += node.rrset(RRType.DS, do) or node.rrset(RRType.NSEC, do)
    return Found(Result.DELEGATION, authority=authority, additional=_glue(zone, servers, do))


def _glue(zone: Zone, servers: Iterable[RR], do: bool) -> tuple[RR, ...]:
    """Return the addresses of name servers below the name that they serve."""
    found: list[RR] = []
    for record in servers:
        if record.rrtype == RRType.NS:
            name = Name(record.rdata)
            if name.is_at_or_below(record.owner):
                found += _addresses(zone, name, do)
    return tuple(dict.fromkeys(found))


def _additional(zone: Zone, answer: Iterable[RR], do: bool) -> tuple[RR, ...]:
    """Return the zone's addresses for the names in an answer."""
    found: list[RR] = []
    for record in answer:
        at = _TARGET_AT.get(record.rrtype)
        if at is not None:
            name, _ = read_name(record.rdata, at)
            if name.is_at_or_below(zone.origin):
                found += _addresses(zone, name, do)
    return tuple(dict.fromkeys(found))


def _addresses(zone: Zone, name: Name, do: bool) -> list[RR]:
    node = zone.nodes.get(name.lower)
    if node is None:
        return []
    return [record for rrtype in ADDRESSES for record in node.rrset(rrtype, do)]


def _denial(zone: Zone, name: Name, do: bool) -> tuple[RR, ...]:
    """Return the NSEC record that proves that the name does not exist, if the zone is signed."""
    node = zone.covering_nsec(name) if do else None
    return node.rrset(RRType.NSEC, do) if node is not None else ()


def _at(records: Iterable[RR], owner: Name) -> tuple[RR, ...]:
    return tuple(record._replace(owner=owner) for record in records)


Resolve = Callable[[Request], Awaitable[Reply]]  # Runtime.resolve
_RCODES: Final = {
    Result.NXDOMAIN: Rcode.NXDOMAIN,
    Result.SERVFAIL: Rcode.SERVFAIL,
    Result.TOO_LONG: Rcode.YXDOMAIN,
}


async def answer(zone: Zone, request: Request, resolve: Resolve) -> tuple[Reply, bool]:
    """Return the reply to a question in a zone, and whether the name has no records, for `fallthrough`.

    Names outside of the zone are resolved with `resolve`, with the EDNS of the client.
    """
    query = request.query
    found = find(zone, query.qname, query.qtype, query.do)
    outside: Reply | None = None
    if found.target is not None:
        outside = await resolve(request.nested(found.target, query.qtype))
        found = found.with_target(zone, outside, query.do)
    if request.metadata is not None and found.wildcard is not None:
        wildcard = found.wildcard.to_text()
        request.metadata["zone/wildcard"] = lambda: wildcard
    unknown = not found.answer and found.result in (Result.NXDOMAIN, Result.EMPTY_NON_TERMINAL)
    if found.result == Result.SERVFAIL and not found.answer:
        return unwritten(Rcode.SERVFAIL), False
    reply = Reply(
        rcode=_RCODES.get(found.result, Rcode.NOERROR),
        answer=found.answer,
        authority=found.authority,
        additional=found.additional,
        aa=found.result != Result.DELEGATION or bool(found.answer),
    )
    return reply if outside is None else reply.leading_to(outside), unknown


def longest(qname: Name, zones: Container[Name]) -> Name | None:
    """Return the longest zone that contains a name, None if there is none."""
    for suffix in qname.ancestors():
        zone = Name(suffix)
        if zone in zones:
            return zone
    return None
