"""An explanation as a tree of lines for a terminal.

Path: explanation/cli.py, for an explanation -> here -> standard output.
Rule 1: the first line is the cause; on a terminal, lines are wrapped to its width with their own indentation, except
        what to do, which may be a command to copy.
Rule 2: of many endpoints the first ones are shown, for each slice first those that are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hsdns.colours import GREEN, RED, YELLOW, painted
from hsdns.explanation.report import (
    AskerReport,
    ChangeReport,
    EndpointReport,
    Explanation,
    RecordReport,
    ServerReport,
    ServersReport,
    ServiceReport,
)
from hsdns.resolver.report import as_list, rows, wrapped
from hsdns.wire import printable

MOST_ENDPOINTS: Final = 6  # of one slice that are shown
MOST_RECORDS: Final = 8
_COLOURS: Final = {
    "resolves": GREEN,
    "leads nowhere": RED,
    "does not resolve": RED,
    "could not tell": YELLOW,
    "answered": GREEN,
    "left out": RED,
}

Tree = list["str | Tree"]


def lines(
    found: Explanation, width: int = 0, *, colour: bool = False, with_history: bool = False
) -> Iterator[str]:
    """The lines of an explanation, of at most `width` columns, 0 for any."""
    for line in _wrapped(found.cause, width):
        yield _coloured(line, found.outcome) if colour else line
    if found.todo:
        yield f"to do: {found.todo}"
    for sentence in found.blind if found.is_answered else ():
        yield from _wrapped(f"but {sentence}", width)
    if (asked := found.asked) is not None:
        for sentence in asked.differences:
            yield from _wrapped(f"but server {asked.address}: {sentence}", width)
    reports = found.servers.asked if found.servers is not None else ()
    for report in [each for each in reports if each.differences][:1]:
        sentence = f"but objects and server differ: {report.address}: {report.differences[0]}"
        yield from _wrapped(sentence, width)
    if (
        reports
        and found.asker is not None
        and found.asker.cause
        and not any(each.differences for each in reports)
    ):
        yield from _wrapped("objects and servers agree; it is the client that differs", width)
    yield ""
    name = found.name
    if found.asker is not None:
        yield from _lookups(found.asker, name, width)
        name = found.asker.decisive
    is_asked = found.asker is None or found.asker.decisive.removesuffix(".") in {
        query.name for lookup in found.asker.lookups for query in lookup.queries
    }
    yield f"{printable(name)} {found.type}{'' if is_asked else ', not queried'}"
    tree = _tree(found) + (_history(found.history) if with_history else [])
    for line in _drawn(tree, "", width):
        yield _with_fate(line) if colour else line


def _lookups(asker: AskerReport, name: str, width: int) -> Iterator[str]:
    """A failed lookup, else a successful one, query by query; and a table of all lookups, if there are several."""
    if asker.pod:
        yield f"Pod {asker.pod}, dnsPolicy {asker.dns_policy}"
        for sentence in asker.remarks:
            yield from _wrapped(sentence, width)
    if len(asker.lookups) > 1:
        yield from map(printable, rows(asker.lookups))
        yield ""
    shown = next((each for each in asker.lookups if each.error), asker.lookups[0])
    yield from map(printable, as_list(name, shown, width))
    yield ""


def _wrapped(sentence: str, width: int) -> list[str]:
    return list(map(printable, wrapped(printable(sentence), width)))


def _coloured(line: str, word: str) -> str:
    return painted(line, _COLOURS[word])


def _with_fate(line: str) -> str:
    for word in ("answered", "left out"):
        head, mark, tail = line.partition(f"  {word}")
        if mark:
            return f"{head}{_coloured(mark, word)}{tail}"
    return line


def _tree(found: Explanation) -> Tree:
    tree: Tree = [f"server block {found.server_block or '-'}: {found.block_reason}"]
    for step in found.plugins:
        tree.append(f"{step.plugin}: {step.did}")
    if found.table:
        tree.append(f"answer table: {found.table}")
    if found.reading:
        parts = [f"{key.replace('_', ' ')} {value}" for key, value in found.reading.items()]
        tree.append(f"read as {', '.join(parts)}")
    if found.service is not None:
        tree += _service(found.service)
    if found.records:
        tree.append("records")
        tree.append(_records(found.records))
    if found.keep_seconds:
        what = "this answer" if found.rcode == "NOERROR" and found.records else "this denial"
        tree.append(f"other caches may keep {what} for {found.keep_seconds} s")
    if found.needed:
        is_asker = found.asker is not None and found.asker.cause
        tree.append("for the program to find it" if is_asker else "for the name to exist")
        tree.append([each.needed for each in found.needed])
    if found.asked is not None:
        tree += _asked(found.asked)
    if found.servers is not None:
        tree += _servers(found.servers)
    if found.nearest:
        tree.append("names that exist")
        tree.append([f"{each.name} ({each.why})" for each in found.nearest])
    return tree


def _service(found: ServiceReport) -> Tree:
    parts = [f"{found.object} {found.namespace}/{found.name}: {found.kind}"]
    if found.cluster_ips:
        parts.append(" ".join(found.cluster_ips))
    if found.external_name:
        parts.append(f"externalName {found.external_name}")
    if found.ports:
        parts.append(f"ports {' '.join(found.ports)}")
    if found.publish_not_ready_addresses:
        parts.append("publishNotReadyAddresses true")
    parts.append(f"version {found.resource_version or 'unknown'}")
    below: Tree = []
    for part in found.slices:
        ports = f"ports {' '.join(part.ports) or 'none'}"
        if part.ports == found.ports:
            ports = f"the ports of the {found.object}"
        below.append(
            f"EndpointSlice {part.name}: {part.address_type}, {ports}, "
            f"version {part.resource_version or 'unknown'}"
        )
        below.append(_endpoints(part.endpoints))
    if not found.slices and found.kind != "ExternalName":
        below.append("no EndpointSlice")
    return [", ".join(parts), below]


def _servers(found: ServersReport) -> Tree:
    """The answers of the cluster's servers, or why they are not known."""
    if found.unasked:
        return [f"DNS servers of the cluster: not known: {found.unasked}"]
    below: Tree = []
    for each in found.asked:
        said = "; ".join(each.differences) or f"{each.rcode}, as the objects say"
        below.append(f"{each.address}: {said}")
    return ["DNS servers of the cluster", below]


def _endpoints(endpoints: Sequence[EndpointReport]) -> Tree:
    ordered = sorted(endpoints, key=lambda each: each.fate != "left out")
    tree: Tree = []
    for each in ordered[:MOST_ENDPOINTS]:
        names = f" {each.hostname}" if each.hostname else ""
        pod = f" (pod {each.pod})" if each.pod and each.pod != each.hostname else ""
        why = f": {each.why}" if each.why else ""
        tree.append(f"{' '.join(each.addresses)}{names}{pod}  {each.fate}{why}")
    rest = ordered[MOST_ENDPOINTS:]
    if rest:
        answered = sum(each.fate == "answered" for each in rest)
        tree.append(f"… and {len(rest)} more, {answered} of them answered")
    return tree


def _records(records: Sequence[RecordReport]) -> Tree:
    tree: Tree = []
    shown: list[str] = []
    for each in records[:MOST_RECORDS]:
        tree.append(f"{each.owner} {each.ttl} {each.type} {each.rdata}")
        rules = [rule for rule in each.rules if rule not in shown]
        shown += rules
        tree.append(list(rules))
    if len(records) > MOST_RECORDS:
        tree.append(f"… and {len(records) - MOST_RECORDS} more")
    return tree


def _asked(found: ServerReport) -> Tree:
    if not found.rcode:
        return [f"server {found.address}: no answer"]
    agrees = "" if found.differences else ", as the objects say"
    rest = len(found.records) - MOST_RECORDS
    more = [f"… and {rest} more"] if rest > 0 else []
    records: Tree = [*found.records[:MOST_RECORDS], *more]
    return [f"server {found.address}: answers {found.rcode}{agrees}", records]


def _history(changes: Sequence[ChangeReport]) -> Tree:
    if not changes:
        return ["no change since the server read the cluster, as far as it remembers"]
    tree: Tree = []
    for each in changes:
        took = "" if each.took is None else f", {each.took:.0f} ms after it was written"
        version = each.resource_version or "unknown"
        tree.append(f"{each.served} {each.object} {each.event}, version {version}{took}")
        tree.append(
            [*(f"+ {fact}" for fact in each.added), *(f"- {fact}" for fact in each.removed)]
        )
    return ["last changes, the newest first", tree]


def _drawn(tree: Tree, indent: str, width: int) -> Iterator[str]:
    places = [at for at, each in enumerate(tree) if isinstance(each, str)]
    for at in places:
        is_last = at == places[-1]
        mark, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        following = tree[at + 1] if at + 1 < len(tree) else ""
        inner = following if isinstance(following, list) and following else None
        head = str(tree[at])
        room = max(width - len(indent) - 5, 28) if width else 0
        more = "│  " if inner else "   "
        for number, line in enumerate(_wrapped(head, room)):
            yield f"{indent}{mark}{line}" if not number else f"{indent}{below}{more[:2]}{line}"
        if inner:
            yield from _drawn(inner, indent + below, width)
