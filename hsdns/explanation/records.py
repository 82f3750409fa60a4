"""The rule behind each field of each record of an answer.

Path: explain.py -> here -> report.RecordReport.
Rule: what a plugin changed is seen by comparing its reply with the one from below it; the numbers of entries are those
      of the node that the server's lookup found.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.cluster.question import ParsedName
from hsdns.cluster.value import Node
from hsdns.explanation.observed import Visit
from hsdns.explanation.report import RecordReport
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import RR, Reply
from hsdns.wire.text import rdata_to_text


def record_reports(
    reply: Reply,
    visits: Sequence[Visit],
    cluster: Visit | None,
    found: tuple[Node, ParsedName] | bytes | None,
) -> list[RecordReport]:
    """The records of a reply; `found` is what the cluster's lookup found for the name."""
    source = _source(visits)
    below = source.reply.answer if source is not None and source.reply is not None else ()
    order = [
        f"order: changed by {visit.handler.name}"
        for visit in visits
        if visit.below is not None
        and visit.reply is not None
        and visit.below.answer != visit.reply.answer
        and set(visit.below.answer) == set(visit.reply.answer)
    ] or ["order: that of the objects"]
    reports = []
    for number, record in enumerate(reply.answer):
        rules = _ttl_rules(record, below, source, visits)
        if record.rrtype == RRType.SRV and source is cluster and source is not None:
            rules += _srv_rules(record, found)
        if number == 0 and len(reply.answer) > 1:
            rules += order
        reports.append(
            RecordReport(
                record.owner.to_text(),
                record.ttl,
                type_to_text(record.rrtype),
                rdata_to_text(record.rrtype, record.rdata),
                rules,
            )
        )
    return reports


def keep_seconds(reply: Reply) -> int:
    """How long a cache may keep a reply: the TTL of its records, or what its SOA record says (RFC 2308 section 5)."""
    if reply.answer:
        return max(each.ttl for each in reply.answer)
    return max(
        (
            min(each.ttl, int.from_bytes(each.rdata[-4:], "big"))
            for each in reply.authority
            if each.rrtype == RRType.SOA
        ),
        default=0,
    )


def _source(visits: Sequence[Visit]) -> Visit | None:
    """The visit that made the reply: the last one that did not pass the query on."""
    made = [visit for visit in visits if visit.passed is None and visit.reply is not None]
    return made[-1] if made else None


def _ttl_rules(
    record: RR, below: Sequence[RR], source: Visit | None, visits: Sequence[Visit]
) -> list[str]:
    if source is None:
        return []
    own = next((each for each in below if each.rdata == record.rdata), None)
    if own is None:
        return [f"TTL {record.ttl} from {source.handler.name}"]
    handler = source.handler
    if isinstance(handler, Kubernetes) and own.ttl == handler.options["ttl"]:
        rule = f"TTL {own.ttl} from `ttl` of kubernetes"
    else:
        rule = f"TTL {own.ttl} from {handler.name}"
    if own.ttl == record.ttl:
        return [rule]
    for visit in reversed(visits):
        replies = (visit.below, visit.reply)
        ttls = [
            {each.ttl for each in reply.answer if each.rdata == record.rdata}
            for reply in replies
            if reply is not None
        ]
        if len(ttls) == 2 and ttls[0] != ttls[1]:
            return [f"{rule}, changed to {record.ttl} by {visit.handler.name}"]
    return [rule]


def _srv_rules(record: RR, found: tuple[Node, ParsedName] | bytes | None) -> list[str]:
    weight = int.from_bytes(record.rdata[2:4], "big")
    if not isinstance(found, tuple):
        return [f"weight {weight} = 100 / the pods with the address"]
    node, _ = found
    number = node.entry_count
    shown = f"100 / {number}" if number <= 100 else "1, the least"
    entries = "pair of an address and a port" if number == 1 else "pairs of an address and a port"
    return [f"priority 0, weight {weight} = {shown} ({number} {entries})"]
