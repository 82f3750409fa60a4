"""The origin of each field of each record of an answer.

Path: explain.py -> here -> report.RecordReport.
Rule: a plugin's changes are found by comparing its reply with the reply of the next plugin; the numbers of entries come
      from the node that the server's lookup found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from hsdns.answer_table.policy import STORED_TYPES
from hsdns.assemble import ServedAddress
from hsdns.cluster.freshness import Dependencies
from hsdns.cluster.history import History, Noted
from hsdns.cluster.read_object import read_time
from hsdns.cluster.schema import ParsedName
from hsdns.cluster.source import Lead
from hsdns.cluster.value import Node
from hsdns.explanation.observed import Pause, Peek, Visit
from hsdns.explanation.report import (
    ChangeReport,
    EndpointReport,
    RecordReport,
    ServiceReport,
    TableState,
)
from hsdns.fastpath import Peeked
from hsdns.plugins.cache import Cache
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.manifests import text
from hsdns.wire import counted
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import ADDRESSES, RRType, type_to_text
from hsdns.wire.message import RR, Query, Reply
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
        kind, rdata = type_to_text(record.rrtype), rdata_to_text(record.rrtype, record.rdata)
        reports.append(RecordReport(record.owner.to_text(), record.ttl, kind, rdata, rules))
    return reports


def keep_seconds(reply: Reply) -> int:
    """How long a cache may keep a reply: the TTL of its records, or what its SOA record says (RFC 2308 section 5)."""
    if reply.answer:
        return max(each.ttl for each in reply.answer)
    soas = [each for each in reply.authority if each.rrtype == RRType.SOA]
    return max((min(each.ttl, int.from_bytes(each.rdata[-4:], "big")) for each in soas), default=0)


def _source(visits: Sequence[Visit]) -> Visit | None:
    """The visit that made the reply: the last one that did not pass the query on."""
    made = [visit for visit in visits if visit.passed is None and visit.reply is not None]
    return made[-1] if made else None


class _Ttls:
    """The origin of each record's TTL, found from the replies of the handlers, which are read once."""

    def __init__(self, visits: Sequence[Visit], source: Visit | None) -> None:
        self._visits, self._handler = visits, source.handler if source is not None else None
        made = source.reply.answer if source is not None and source.reply is not None else ()
        self._made = {record.rdata: record.ttl for record in reversed(made)}

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
        handler, own = self._handler, self._made.get(record.rdata, record.ttl)
        if handler is None:
            return []
        is_option = isinstance(handler, Kubernetes) and own == handler.options["ttl"]
        is_option = is_option and record.rdata in self._made
        rule = f"TTL {own} from {'`ttl` of kubernetes' if is_option else handler.name}"
        for visit, below, above in self._passed if own != record.ttl else ():
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


# Whether the answer table of a server stores a reply, and whether it has it now.
#
# Rule: entries differ by whether a query has EDNS and DO, so all these forms of the question are looked up.


_PAYLOAD: Final = 1232  # no other forms have entries
FORMS: Final = {
    "without EDNS": None,
    "with EDNS": Edns(_PAYLOAD),
    "with EDNS and DO": Edns(_PAYLOAD, do=True),
}


def table_use(
    listener: ServedAddress,
    visits: Sequence[Visit],
    query: Query,
    reply: Reply,
    dependencies: Dependencies,
) -> str:
    """Why a reply is never stored, "" if it is once it has been asked for."""
    first = visits[0]
    (block, *_) = [
        each for each in listener.served[first.request.zone] if first.handler in each.handlers
    ]
    policy = block.policy
    is_cached = any(each.told and isinstance(each.handler, Cache) for each in visits)
    if is_cached and policy.stores_cached:
        return ""
    if policy.reason:
        return policy.reason
    if policy.may_store(query, reply, dependencies):
        return ""
    if query.qtype not in STORED_TYPES:
        return f"replies for {type_to_text(query.qtype)} never are"
    if not dependencies.is_cacheable:
        return "what it depends on changes without notice"
    return "it does not depend on the cluster's state alone"


def table_state(peek: Peek, servers: Iterable[str], query: Query, now: float) -> TableState:
    """The entries for a question in the tables of servers, as metrics name them; `now` in monotonic seconds."""
    found: dict[str, Peeked] = {}
    wires = {
        form: encode_query(Query.ask(query.qname, query.qtype, edns=edns), 0)
        for form, edns in FORMS.items()
    }
    for server in servers:
        for form, wire in wires.items():
            peeked = peek(server, wire, now)
            if peeked is not None:
                found.setdefault(form, peeked)
    hits = list(found.values())
    stored = [each.stored for each in hits if each.stored is not None]
    expires = [each.expires for each in hits if each.expires is not None]
    return TableState(
        [form for form in FORMS if form in found],
        bool(hits) and all(each.is_denial for each in hits),
        round(now - min(stored), 1) if stored else None,
        round(max(expires) - now, 1) if expires else None,
    )


def table_text(never: str, state: TableState) -> str:
    """Whether the table has a reply, as text; `never` says why it is not stored."""
    if not state.forms:
        return f"not stored: {never}" if never else "not stored yet"
    if state.is_denial:
        return "denies it, like all names that do not exist in the zone"
    time = "" if state.age is None else f", since {state.age:.0f} s"
    if state.left is not None:
        time += f" and for {state.left:.0f} s more"
    return f"stored for queries {', '.join(state.forms)}{time}"


# The last changes of a name, from the history of a server.
#
# Rule: for a name below a Service, only changes with its label are reported.


MOST: Final = 20  # changes that are reported
MOST_LOOKED_AT: Final = 200  # changes of a Service, for those of one of its endpoints
MOST_FACTS: Final = 20  # of one change


def past(history: History, lead: Lead, endpoint: bytes) -> list[ChangeReport]:
    """The last changes of the objects of a question, the newest first."""
    noted = [each for key in lead.services for each in history.of(key, MOST_LOOKED_AT)]
    noted.sort(key=lambda each: each.served, reverse=True)
    found: list[ChangeReport] = []
    for each in noted:
        if len(found) == MOST:
            break
        added, removed = each.facts()
        if endpoint:
            mark = f" {endpoint.decode('utf-8', 'replace')}"
            added = [fact for fact in added if fact.endswith(mark)]
            removed = [fact for fact in removed if fact.endswith(mark)]
            if not added and not removed:
                continue
        found.append(_report(each, added, removed))
    return found


def _report(noted: Noted, added: list[str], removed: list[str]) -> ChangeReport:
    namespace = noted.service[0].decode("utf-8", "replace")
    written = read_time(noted.written)
    took = None if written is None else round((noted.served - written) * 1000, 3)
    served = datetime.fromtimestamp(noted.served, UTC).isoformat(timespec="milliseconds")
    served = served.replace("+00:00", "Z")
    about = noted.event, f"{noted.kind} {namespace}/{noted.name}", noted.version
    return ChangeReport(served, *about, _cut(added), _cut(removed), noted.written, took)


def _cut(facts: list[str]) -> list[str]:
    rest = len(facts) - MOST_FACTS
    return facts if rest <= 0 else [*facts[:MOST_FACTS], f"and {rest} more"]


# The first line of the explanation of an existing name: its records, or why it has none of the type.


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
            return f"{counted(len(reply.answer), f'{type_to_text(qtype)} record')} of {where}"
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
        addresses = _listed(service.cluster_ips)
        if qtype in ADDRESSES and service.cluster_ips:
            other = "IPv4" if qtype == RRType.AAAA else "IPv6"
            return f"{place} has no {type_to_text(qtype)} record: it has {other} only, {addresses}"
        return f"{place} has no {type_to_text(qtype)} record: its cluster IPs are {addresses}"
    if not reply.answer:
        return (
            f"{place} has no {type_to_text(qtype)} record{_why_no_record(endpoints, parsed, qtype)}"
        )
    if parsed.endpoint:
        label = parsed.endpoint.decode("utf-8", "replace")
        return f"endpoint {label} of {place}{_notable(endpoints)}"
    return f"{_share(endpoints)} of headless {place}{_notable(endpoints)}"


def _share(endpoints: Sequence[EndpointReport]) -> str:
    answered = sum(each.fate == "answered" for each in endpoints)
    return f"{answered} of {counted(len(endpoints), 'endpoint')}"


def _notable(endpoints: Sequence[EndpointReport]) -> str:
    """The endpoints that are left out, and the suspicious endpoints in the answer, with the first reason."""
    found = ""
    odd = [each for each in endpoints if each.fate == "answered" and each.why]
    if odd:
        pod = f", pod {odd[0].pod}," if odd[0].pod else ""
        found += f"; {len(odd)}{pod} {odd[0].why}"
    out = [each for each in endpoints if each.fate == "left out"]
    about = [each for each in out if not each.why.startswith(("its name", "no hostname"))]
    if about:
        reasons = list(dict.fromkeys(each.why for each in about))
        more = " and others" if len(reasons) > 1 else ""
        found += f"; {len(about)} left out ({reasons[0]}{more})"
    return found


def _why_no_record(endpoints: Sequence[EndpointReport], parsed: ParsedName, qtype: int) -> str:
    outside = ("not ready", "its topology zone")
    if parsed.topology_zone and all(each.why.startswith(outside) for each in endpoints):
        return f": none of its ready endpoints is in topology zone {text(parsed.topology_zone)}"
    if qtype in ADDRESSES and endpoints:
        family = "IPv4" if qtype == RRType.A else "IPv6"
        return f": none of its ready endpoints has an {family} address"
    if qtype == RRType.SRV and endpoints:
        return ": its EndpointSlices have no port number"
    return ""


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"
