"""Explains a program's whole lookup: the queries of its resolver, and the query that decides the result.

Path: explanation/cli.py, with flags for the client -> here -> client.py, explain.Explainer.
Rule: if changing one setting of the client makes the lookup succeed, the client is the cause; else the decisive query
      is explained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from msgspec import structs

from hsdns.chain import Endpoint
from hsdns.explanation.client import (
    ASSUMED,
    NOT_SEEN,
    Client,
    Lookups,
    Response,
    client_cause,
    may_be_elsewhere,
    response_to,
)
from hsdns.explanation.explain import Explainer
from hsdns.explanation.question import LookupQuestion
from hsdns.explanation.report import AskerReport, Explanation, NeededChange, Outcome
from hsdns.resolver.forwarders.istio import told_of
from hsdns.resolver.model import STILL_WAITING, UNSEEN, Packet, wire_of
from hsdns.resolver.report import LookupReport
from hsdns.wire import printable
from hsdns.wire.iana import RRType, type_from_text, type_to_text
from hsdns.wire.name import Name

CLIENT_PORT: Final = 40000
_ASKED: Final = attrgetter("transport", "rrtype", "name", "edns", "cookie", "ad")
SHORT: Final = 2  # dots of a name that a search list makes one of the cluster, less than


async def explain_for_client(
    explainer: Explainer,
    asker: Client,
    question: LookupQuestion,
    now: float,
    problems: Sequence[str] = (),
) -> Explanation:
    """Explain a lookup; `now` in monotonic seconds.  Raise ValueError for a name that cannot be looked up."""
    pod = asker.pod
    client = Endpoint((pod.address if pod else "") or "127.0.0.1", CLIENT_PORT)
    explainer.client = client

    known: dict[tuple[object, ...], Response] = {}

    async def respond(packet: Packet, server: str) -> Response:
        key = (server, *_ASKED(packet))
        if key not in known:
            wire = wire_of(packet, 1)
            reply, why = await explainer.ask(
                wire, client, packet.transport, now + packet.at, server
            )
            known[key] = response_to(packet, reply, why)
        return known[key]

    lookups = Lookups(respond, question.name, question.types)
    reports = [await lookups.look_up(each) for each in asker.settings]
    # A failure says more than what is not known.
    failed = sorted((each for each in reports if each.error), key=lambda each: each.error == UNSEEN)
    shown = failed[0] if failed else reports[0]
    whole = _known(asker, shown)
    explained = await _explained(explainer, shown, question, now, problems, whole)
    decisive = _decisive(shown, explained, question.name, whole)
    cause, needed, todo = "", list(decisive.needed), decisive.todo
    is_blind = bool(decisive.blind) and decisive.outcome == "could not tell"
    if shown.error and not is_blind:
        setting = asker.settings[reports.index(shown)]
        found = await client_cause(asker, lookups, setting, shown)
        if found is not None:
            alike = [each for each in failed if (each.error == UNSEEN) == (shown.error == UNSEEN)]
            who = _who(asker, shown, alike if len(alike) < len(reports) else ())
            failure = _server_failure(asker, shown, explained)
            reason, todo = failure or (found.cause, found.needed)
            ending = "" if " and " in who else "s"
            gets = f'get{ending} "{shown.error}"'
            if shown.error == STILL_WAITING:
                gets = f"still wait{ending}"
            cause = f"{who} {gets}: {reason}"
            if shown.error == UNSEEN:
                cause = f"{who}: {found.cause}"
            needed = [NeededChange(_place(asker), found.cause, found.needed)]
            if found.found:
                name, rrtype = Name.from_text(found.found), question.types[0]
                decisive = await explainer.explain(name, rrtype, now, problems)
    totals = [decisive]
    for rrtype in question.types if not shown.error else ():
        if type_to_text(rrtype) != decisive.type:
            name = Name.from_text(decisive.name)
            totals.append(await explainer.explain(name, rrtype, now, problems))
    told = cause or _own_cause(asker, shown, totals, question, reports)
    for each in (*explained, *totals):
        if rules := "; ".join(rule for rule in each.faults if rule not in told):
            told += f"; {each.name.removesuffix('.')} {each.type}: {rules}"
    return structs.replace(
        decisive,
        name=question.name,
        outcome=_outcome(shown, decisive, is_blind=is_blind),
        blind=decisive.blind if shown.error else _taken(shown),
        cause=printable(told),
        needed=needed,
        todo=todo,
        asker=_report(asker, question, decisive.name, cause, reports),
    )


def _report(
    asker: Client,
    question: LookupQuestion,
    decisive: str,
    cause: str,
    reports: list[LookupReport],
) -> AskerReport:
    pod = asker.pod
    return AskerReport(
        pod.path if pod else "",
        pod.dns.policy if pod else "",
        [type_to_text(each) for each in question.types],
        asker.text,
        decisive,
        printable(cause),
        reports,
        list(pod.remarks) if pod else [],
        asker.settings[0].reached,
    )


def _outcome(shown: LookupReport, decisive: Explanation, *, is_blind: bool) -> Outcome:
    if not shown.error:
        return decisive.outcome if decisive.is_answered or decisive.faults else "resolves"
    if is_blind:
        return "could not tell"
    # The name of a Service is not that of another server.
    unseen = {each.name for each in shown.queries if each.unseen}
    is_told = decisive.service is not None or not any(map(may_be_elsewhere, unseen))
    # Nameservers that are not this server may have any name, and the target of an alias any address.
    is_elsewhere = shown.error == UNSEEN and any(each.unseen == NOT_SEEN for each in shown.queries)
    return "does not resolve" if is_told and not is_elsewhere else "could not tell"


def _server_failure(
    asker: Client, shown: LookupReport, explained: Sequence[Explanation]
) -> tuple[str, str] | None:
    """Why the last query failed and what to do, if this server answers it with a failure."""
    last = shown.queries[-1].name if shown.queries else ""
    for each in explained:
        is_last = each.name.removesuffix(".") == last
        if is_last and each.rcode == "SERVFAIL" and each.outcome == "does not resolve":
            domains = {word for line in asker.node.splitlines() for word in line.split()[1:]}
            of_node = next((word for word in domains if last.endswith(f".{word}")), "")
            where = f"; the resolv.conf of the node has the search domain {of_node}"
            todo = each.todo or (f"take {of_node} out of that resolv.conf" if of_node else "")
            return f"{last} is answered {each.cause}{where if of_node else ''}", todo
    return None


def _taken(shown: LookupReport) -> list[str]:
    """The facts that a result depends on, but that were not seen."""
    found: dict[str, None] = {}
    for each in shown.seen:
        if each.unseen == ASSUMED and may_be_elsewhere(each.name):
            found[f"{each.name} is {ASSUMED}, because another server answers it"] = None
        elif each.unseen == NOT_SEEN:
            found[f"{each.nameserver} is queried too, and its answers are {NOT_SEEN}"] = None
    return list(found)


def _own_cause(
    asker: Client,
    shown: LookupReport,
    explained: Sequence[Explanation],
    question: LookupQuestion,
    reports: Sequence[LookupReport],
) -> str:
    """The first line if the client is not the cause, with the client's use of the answer."""
    cause, asked = explained[0].cause, explained[0].name.removesuffix(".")
    if not shown.error:
        total = sum(each.type in ("A", "AAAA") for one in explained for each in one.records)
        fewest = min(reports, key=lambda each: len(each.addresses))
        if len(fewest.addresses) < total:
            who = _who(asker, fewest)
            cause = f"{who} takes {len(fewest.addresses)} of {total} addresses; {cause}"
    elif shown.error == UNSEEN and explained[0].is_answered:  # an alias of a name elsewhere
        cause = f"{cause}; {shown.why}"
    elif shown.error == UNSEEN and (shown.through or shown.why.endswith(cause)):
        cause = shown.why
    whole = {name: each for name, each in _known(asker, shown).items() if each == asked}
    if whole and not shown.error:
        return f"{cause}; {shown.through} answers {next(iter(whole))} by itself, without a query"
    if asked != question.name.removesuffix("."):
        made = f"the search list made {asked} of {question.name}"
        return f"{cause} ({made})" if cause.endswith("?") else f"{cause}; {made}"
    names = list(dict.fromkeys(each.name for each in shown.queries))
    before = names.index(asked) if asked in names else 0
    if before:
        cause += f"; the search list adds {before} names before it, because ndots is {shown.ndots}"
    return cause


async def _explained(
    explainer: Explainer,
    shown: LookupReport,
    question: LookupQuestion,
    now: float,
    problems: Sequence[str],
    known: Mapping[str, str],
) -> list[Explanation]:
    """Each queried name in turn, with the type that has an answer."""
    found: dict[str, int] = {}
    for each in shown.queries:
        rrtype = type_from_text(each.type)
        if each.answer is not None and each.answer.rcode == "NXDOMAIN":
            rrtype = question.types[0]  # it is of all types, and most Services have IPv4 addresses
        has_addresses = each.answer is not None and bool(each.answer.addresses)
        if each.name not in found or (has_addresses and found[each.name] != RRType.A):
            found[each.name] = rrtype
    if not found:
        found[question.name] = question.types[0]
    return [
        await explainer.explain(Name.from_text(name), rrtype, now, problems)
        for name, rrtype in {known.get(each, each): found[each] for each in found}.items()
    ]


def _known(asker: Client, shown: LookupReport) -> dict[str, str]:
    """The whole names of Services for names that a forwarder answers by itself."""
    registry, passed = asker.through.registry, {each.name for each in shown.passed}
    own = [each.name for each in shown.queries if each.name not in passed and registry]
    return {each: told_of(each, shown.search, registry)[0] or each for each in own}


def _decisive(
    shown: LookupReport, explained: Sequence[Explanation], name: str, known: Mapping[str, str]
) -> Explanation:
    """The query that decided the result; among failed queries, the one that needs the fewest changes."""
    if not shown.error:
        last = next(
            each for each in reversed(shown.queries) if each.answer is not None and each.answer.addresses
        )  # fmt: skip
        names = {each.name.removesuffix("."): each for each in explained}
        found = known.get(last.name, last.name)
        return names[Name.from_text(found).to_text().removesuffix(".")]

    best = min(explained, key=_lacks)
    unseen = [
        each
        for each in explained
        if each.outcome == "could not tell" and may_be_elsewhere(each.name)
    ]
    # A short name that is nearly one of the cluster was hardly meant for another server.
    meant = [
        each
        for each in explained
        if each.nearest and each.outcome == "does not resolve" and name.count(".") < SHORT
    ]
    if meant and best.service is None:
        return min(
            meant, key=lambda each: "service" not in each.reading or "endpoint" in each.reading
        )
    if shown.error == UNSEEN and unseen and best.service is None:
        return unseen[-1]
    return best


def _lacks(each: Explanation) -> tuple[bool, bool, bool, bool, int]:
    places = [change.place.partition(" ")[0] for change in each.needed]
    return (
        each.rcode != "NOERROR",
        each.service is None,
        not each.needed or "Namespace" in places,
        "endpoint" in each.reading or "port" in each.reading,
        len(each.needed),
    )


def _who(asker: Client, shown: LookupReport, failed: Sequence[LookupReport] = ()) -> str:
    """The Pod with the resolver, and with others that fail, too."""
    names = " and ".join(dict.fromkeys(each.resolver for each in (shown, *failed)))
    return f"Pod {asker.pod.path} with {names}" if asker.pod else names


def _place(asker: Client) -> str:
    return f"Pod {asker.pod.path}" if asker.pod else "resolv.conf"
