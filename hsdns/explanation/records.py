"""The origin of each field of each record of an answer.

Path: explain.py -> here -> report.RecordReport.
Rule: a plugin's changes are found by comparing its reply with the reply of the next plugin; the numbers of entries come
      from the node that the server's lookup found.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from hsdns.cluster.question import ParsedName
from hsdns.cluster.value import Node
from hsdns.explanation.edges import Pause
from hsdns.explanation.observed import Visit
from hsdns.explanation.report import RecordReport
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import RR, Reply
from hsdns.wire.text import rdata_to_text

PIECE: Final = 8  # records between two pauses


async def record_reports(
    reply: Reply,
    visits: Sequence[Visit],
    cluster: Visit | None,
    found: tuple[Node, ParsedName] | bytes | None,
    pause: Pause,
) -> list[RecordReport]:
    """The records of a reply; `found` is what the cluster's lookup found for the name.

    `pause` is awaited between PIECE records.
    """
    source = _source(visits)
    ttls = _Ttls(visits, source)
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
        if number % PIECE == 0:
            await pause()
        rules = ttls.rules(record)
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


class _Ttls:
    """The origin of each record's TTL, found from the replies of the handlers, which are read once."""

    def __init__(self, visits: Sequence[Visit], source: Visit | None) -> None:
        self._visits, self._source = visits, source
        self._made: dict[bytes, int] = {}
        for record in (
            source.reply.answer if source is not None and source.reply is not None else ()
        ):
            self._made.setdefault(record.rdata, record.ttl)

    @cached_property
    def _passed(self) -> list[tuple[Visit, dict[bytes, set[int]], dict[bytes, set[int]]]]:
        """The reply that each handler got, and the reply that it returned, the last handler first."""
        return [
            (visit, _by_rdata(visit.below), _by_rdata(visit.reply))
            for visit in reversed(self._visits)
            if visit.below is not None and visit.reply is not None
        ]

    def rules(self, record: RR) -> list[str]:
        """The origin of a record's TTL, if the handler that created it is known."""
        if self._source is None:
            return []
        handler, own = self._source.handler, self._made.get(record.rdata)
        if own is None:
            return [f"TTL {record.ttl} from {handler.name}"]
        is_option = isinstance(handler, Kubernetes) and own == handler.options["ttl"]
        rule = f"TTL {own} from {'`ttl` of kubernetes' if is_option else handler.name}"
        if own == record.ttl:
            return [rule]
        for visit, below, above in self._passed:
            if below.get(record.rdata) != above.get(record.rdata):
                return [f"{rule}, changed to {record.ttl} by {visit.handler.name}"]
        return [rule]


def _by_rdata(reply: Reply) -> dict[bytes, set[int]]:
    found: dict[bytes, set[int]] = {}
    for record in reply.answer:
        found.setdefault(record.rdata, set()).add(record.ttl)
    return found


def _srv_rules(record: RR, found: tuple[Node, ParsedName] | bytes | None) -> list[str]:
    weight = int.from_bytes(record.rdata[2:4], "big")
    if not isinstance(found, tuple):
        return [f"weight {weight} = 100 / the pods with the address"]
    node, _ = found
    number = node.entry_count
    shown = f"100 / {number}" if number <= 100 else "1, the least"
    entries = "pair of an address and a port" if number == 1 else "pairs of an address and a port"
    return [f"priority 0, weight {weight} = {shown} ({number} {entries})"]
