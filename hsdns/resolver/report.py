"""A lookup as data, for `hsdns resolve -o json` and `hsdns explain --from ... -o json`.

Path: the trace of a lookup -> here -> resolver/report.py, explanation/report.py.
Rule: fields are only added; a time is in seconds since the start of the lookup.

Lookups as lines for a terminal: a list of queries, or a table of resolvers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

import msgspec

from hsdns.resolver.forwarders.forwarder import Forwarder
from hsdns.resolver.model import UNSEEN, Answer, Keeps, Model, Packet, Trace
from hsdns.wire.iana import rcode_to_text, type_to_text


class AnswerReport(msgspec.Struct, frozen=True):
    """The first answer to a query; without an `rcode` its TCP connection was closed."""

    at: float
    rcode: str | None
    truncated: bool
    addresses: list[str]


class QueryReport(msgspec.Struct, frozen=True):
    """One query; `socket` and `id` are numbered, and `unseen` says why its answer is not known, if there may be one."""

    at: float
    transport: str
    nameserver: str
    socket: str
    id: int
    type: str
    name: str
    edns: int
    answer: AnswerReport | None
    unseen: str = ""


class LookupReport(msgspec.Struct, frozen=True):
    """A whole lookup; `error` is the program's error if it gets no addresses, in the words of its library.

    `addresses` are the records of another type.  `keeps` is for how many seconds the program may use a record that is
    removed, null if for ever, and `keeps_why` says why.  `through` names a forwarder that the program queries, and
    `passed` has the queries that it passes on.
    """

    resolver: str
    search: list[str]
    ndots: int
    remarks: list[str]
    queries: list[QueryReport]
    seconds: float
    addresses: list[str]
    error: str | None
    why: str
    keeps: float | None = 0.0
    keeps_why: str = ""
    through: str = ""
    passed: list[QueryReport] = []

    @property
    def seen(self) -> list[QueryReport]:
        """The queries that nameservers get."""
        return self.passed if self.through else self.queries

    @property
    def has_reply(self) -> bool:
        """Whether a nameserver has answered."""
        return any(each.answer is not None and each.answer.rcode is not None for each in self.seen)


def report_of(model: Model, trace: Trace, unseen: Mapping[int, str] | None = None) -> LookupReport:
    """The report of a lookup that has ended; `unseen` by id() of the packets."""
    answers = {id(packet): (at, answer) for at, packet, answer in reversed(trace.answers)}
    unseen, result, servers = unseen or {}, trace.result, model.conf.nameservers
    passed = [_query(each, servers[each.server], answers, unseen) for each in trace.packets]
    queries, through, remarks = passed, "", list[str]()
    keeps, why = _keeps(answers, model.keeps), model.keeps.why
    if isinstance(model, Forwarder):
        through, forwarder, model = model.name, model, model.program
        told = {id(packet): (at, answer) for at, packet, answer in reversed(forwarder.told)}
        whose = {(each.name, each.rrtype): unseen.get(id(each), "") for each in trace.packets}
        unseen = {id(each): whose.get((each.name, each.rrtype), "") for each in forwarder.heard}
        queries = [_query(each, through, told, unseen) for each in forwarder.heard]
        own = model.keeps
        if keeps:
            why = f"{through} {why.removeprefix('it ')}" + f", and {own.why}" * bool(own.most)
        else:
            why = own.why
        keeps = max(_keeps(told, own), keeps + own.least * bool(keeps))
        if forwarder.captures and not forwarder.registry:
            remarks = [f"hsdns does not know the Services of {through}: it passes all names on"]
    else:
        passed = []
    conf = model.conf
    return LookupReport(
        model.name,
        list(conf.search),
        conf.ndots,
        [*conf.remarks, *remarks],
        queries,
        round(trace.end, 3),
        list(result.addresses),
        result.error or None,
        result.why,
        None if keeps == inf else 0.0 if result.error else keeps,
        why,
        through,
        passed,
    )


def _keeps(answers: Mapping[int, tuple[float, Answer]], keeps: Keeps) -> float:
    """For how long addresses are used that were answered, in seconds."""
    ttls = [answer.ttl for _, answer in answers.values() if answer.addresses]
    return keeps.seconds(min(ttls)) if ttls else 0.0


def _query(
    packet: Packet,
    server: str,
    answers: Mapping[int, tuple[float, Answer]],
    unseen: Mapping[int, str],
) -> QueryReport:
    return QueryReport(
        round(packet.at, 3),
        packet.transport,
        server,
        packet.port,
        packet.qid,
        type_to_text(packet.rrtype),
        packet.name,
        packet.edns,
        _answer(*answers[id(packet)]) if id(packet) in answers else None,
        unseen.get(id(packet), ""),
    )


def _answer(at: float, answer: Answer) -> AnswerReport:
    rcode = None if answer.is_closed else rcode_to_text(answer.rcode)
    return AnswerReport(round(at, 3), rcode, answer.tc, list(answer.addresses))


MOST_ADDRESSES: Final = 2  # addresses that are shown in a line
LONG: Final = 0.2  # seconds without a packet that are shown as a wait


def as_list(name: str, lookup: LookupReport, width: int = 0) -> Iterator[str]:
    """A line for each query with its answer, for each wait, and the result last; sentences are wrapped to `width`."""
    through = f" through {lookup.through}" if lookup.through else ""
    yield from wrapped(f"{lookup.resolver}{through}: {_settings(lookup)}", width, "  ")
    yield from _remarks(lookup, width)
    last = 0.0
    names = [each.name for each in lookup.queries]
    shown = [*lookup.queries, *lookup.passed]
    if lookup.passed:  # what is sent at once, name by name
        shown.sort(key=lambda each: (each.at, names.index(each.name) if each.name in names else 0))
    widest = max((len(each.name) for each in shown), default=0)
    longest = max((len(each.nameserver) for each in shown), default=0)
    has_several = bool(through) or len({each.nameserver for each in shown}) > 1
    for each in shown:
        if each.at - last >= LONG:
            yield f"           waits {_seconds(each.at - last)}"
        last = each.at
        server = f" {each.nameserver:{longest}}" if has_several else ""
        yield (
            f"{each.at:8.3f}  {each.transport}{server} {each.type:4} {each.name:{widest}}  {_fate(each)}"
        )
    if lookup.seconds - last >= LONG:
        yield f"           waits {_seconds(lookup.seconds - last)}"
    yield from wrapped(
        f"{lookup.seconds:8.3f}  {name}: {result_text(lookup)}: {lookup.why}", width, "  "
    )
    if lookup.keeps != 0:
        long = "as long as it runs" if lookup.keeps is None else f"for {lookup.keeps:g} s"
        used = f"{lookup.resolver} may use what is removed {long}: {lookup.keeps_why}"
        yield from wrapped(used, width, "  ")


def as_table(name: str, lookups: Sequence[LookupReport], width: int = 0) -> Iterator[str]:
    """A line for each resolver, then why each came to its result; sentences are wrapped to `width`."""
    through = f" through {lookups[0].through}" if lookups[0].through else ""
    yield from wrapped(f"{name}{through}: {_settings(lookups[0])}", width, "  ")
    yield from rows(lookups)
    yield ""
    reasons: dict[str, list[str]] = {}
    for lookup in lookups:
        yield from _remarks(lookup, width)
        reasons.setdefault(lookup.why, []).append(lookup.resolver)
    for why, names in reasons.items():
        yield from wrapped(f"{', '.join(names)}: {why}", width, "  ")
    yield from wrapped(verdict(lookups), width, "  ")


def rows(lookups: Sequence[LookupReport]) -> Iterator[str]:
    """The table alone."""
    width = max(10, *(len(each.resolver) for each in lookups))
    has_passed = any(each.through for each in lookups)
    yield f"{'resolver':{width}}  queries  {'passed on  ' if has_passed else ''}seconds  result"
    for each in lookups:
        passed = f" {len(each.passed):10}" if has_passed else ""
        yield f"{each.resolver:{width}} {len(each.queries):8}{passed} {each.seconds:8.3f}  {result_text(each)}"


def verdict(lookups: Sequence[LookupReport]) -> str:
    """The resolvers with which the name resolves."""
    good = [each.resolver for each in lookups if not each.error]
    unseen = [each.resolver for each in lookups if each.error == UNSEEN]
    bad = [each.resolver for each in lookups if each.error and each.error != UNSEEN]
    if len(good) == len(lookups):
        return f"resolves with all: {', '.join(good)}"
    parts = [f"resolves with {', '.join(good)}"] if good else []
    if bad:
        parts.append(f"{'but not with' if good else 'resolves with none of'} {', '.join(bad)}")
    if unseen:
        parts.append(f"not known with {', '.join(unseen)}")
    return ", ".join(parts)


def result_text(lookup: LookupReport) -> str:
    """The addresses, or the error."""
    return f'error "{lookup.error}"' if lookup.error else _addresses(lookup.addresses)


def _settings(lookup: LookupReport) -> str:
    return f"search {' '.join(lookup.search) or 'none'}, ndots {lookup.ndots}"


def _fate(query: QueryReport) -> str:
    answer = query.answer
    if query.unseen:
        return query.unseen
    if answer is None:
        return "no reply"
    late = answer.at - query.at
    after = f" after {_seconds(late)}" if late >= 0.001 else ""
    return f"{_what(answer)}{after}"


def _what(answer: AnswerReport) -> str:
    if answer.rcode is None:
        return "connection closed"
    if answer.truncated:
        return "truncated"
    if answer.rcode != "NOERROR":
        return answer.rcode
    return _addresses(answer.addresses) or "no data"


def _addresses(addresses: Sequence[str]) -> str:
    shown = " ".join(addresses[:MOST_ADDRESSES])
    left = len(addresses) - MOST_ADDRESSES
    return f"{shown} and {left} more" if left > 0 else shown


def _remarks(lookup: LookupReport, width: int) -> Iterator[str]:
    for remark in lookup.remarks:
        yield from wrapped(remark, width, "  ")


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A sentence in lines of at most so many columns, 0 for any; names are not broken, so that they can be copied."""
    return [text] if not width else textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )  # fmt: skip


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"
