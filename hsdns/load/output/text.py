"""The report of a run as text, for a terminal or a log.

Path: report.py -> here -> cli/load.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hsdns.load.counters import (
    FAILED,
    NONE,
    UNFINISHED,
    ConnectionsReport,
    LookupPartReport,
    LookupsReport,
)
from hsdns.load.histogram import us_to_text
from hsdns.load.output.words import (
    SHORT,
    Shown,
    age,
    answers,
    comparison,
    differences,
    knee_step,
    limited,
    machine_words,
    percentiles,
    plan_words,
    share,
    shown,
    since_begin,
    together_words,
    unmatched,
)
from hsdns.load.report import KneeReport, Report
from hsdns.load.results import PropagationReport, ServerReport, VerdictReport
from hsdns.wire import counted

_LABEL: Final = 10
MOST_NAMES: Final = 5
_MET: Final = {True: "FAILED", False: "held", None: "UNKNOWN"}
# A label, which is "" if the row continues the one before, and a text.
Row = tuple[str, str]


def lines(report: Report) -> list[str]:
    """The report, line by line."""
    plan, servers = report.plan, shown(report)
    row = ("plan", f"{plan_words(plan)}{together_words(report)}")
    if len(servers) == 1:
        server, found = report.servers[0], []
        if report.knee is not None:
            of = "the longest step at that rate:" if report.knee.holds else "the last step:"
            found = [*_text(_knee(report.knee)), "", of]
        title = f"{server.target} over {plan.transport}, {plan.what}"
        return [title, *found, *_text([row, *_server(server)])]
    title = f"{len(servers)} servers over {plan.transport}, {plan.what}"
    return [title, *_text([row]), "", *_compared(servers), *_each(servers)]


def compared_lines(servers: Sequence[Shown]) -> list[str]:
    """Servers of several runs, line by line."""
    return [*differences(servers), *_compared(servers), *_each(servers)]


def _text(rows: Iterable[Row]) -> Iterator[str]:
    return (f"{label:<{_LABEL}} {text}" for label, text in rows)


def _compared(servers: Sequence[Shown]) -> list[str]:
    """Lines of a table with a column for each server."""
    rows = [("", [each.name for each in servers]), *comparison(servers)]
    first = max(len(label) for label, _ in rows)
    widths = [max(map(len, cells)) for cells in zip(*(cells for _, cells in rows), strict=True)]
    return [
        "  ".join([label.ljust(first), *map(str.rjust, cells, widths)]).rstrip()
        for label, cells in rows
    ]


def _each(servers: Sequence[Shown]) -> Iterator[str]:
    for each in servers:
        yield ""
        yield each.name if each.name == each.server.target else f"{each.name}: {each.server.target}"
        yield from _text(_server(each.server))


def _knee(knee: KneeReport) -> Iterator[Row]:
    """The result, and all steps by rate."""
    yield "KNEE", knee.sentence
    yield "", f"limits {', '.join(knee.limits)}"
    for step in sorted(knee.steps, key=lambda each: each.rate):
        yield "", f"{step.rate:>8.10g}/s for {step.seconds:g} s  {knee_step(step)}"


def _server(server: ServerReport) -> Iterator[Row]:
    counts = server.counts
    if server.ended:
        told = f"{server.ended} after {server.seconds:.1f} s; what was measured until then:"
        yield "INCOMPLETE", told
    lost = share(counts.lost, counts.sent)
    told = f"{counts.due} due, {counts.sent} sent, {counts.answered} answered, {lost} lost"
    if counts.unknown:
        told += f" ({counts.unknown} of unknown cause)"
    if counts.late:
        told += f", {share(counts.late, counts.sent)} sent late"
    yield "queries", told
    yield "answers", answers(counts)
    if told := unmatched(server):
        yield "NO ANSWER", told
    yield "latency", percentiles(server.latency)
    yield "service", percentiles(server.service)
    yield "generator", f"late by {percentiles(server.lateness)}"
    if counts.not_sent:
        yield "", f"{counts.not_sent} queries that this machine could not send"
    if server.withheld:
        yield "WITHHELD", server.withheld
    for note in server.notes:
        yield "NOTE", note
    for number, told in enumerate(machine_words(server)):
        yield "" if number else "machine", told
    if len(server.kinds) > 1:
        width = max(len(f"{kind.group} {kind.type}") for kind in server.kinds)
        for number, kind in enumerate(server.kinds):
            name = f"{kind.group} {kind.type}".ljust(width)
            told = f"{name}  {kind.counts.answered} answered, {kind.counts.lost} lost"
            yield "" if number else "kinds", f"{told}, {percentiles(kind.latency, SHORT)}"
    for part, rows in _PARTS.items():
        if (found := getattr(server, part)) is not None:
            yield from rows(found)
    for limit in server.limits:
        yield "limit", f"{limit.limit}: {_MET[limit.met]}, {limited(limit)}"


def _lookups(found: LookupsReport) -> Iterator[Row]:
    yield "lookups", _lookup_part(found.whole, "")
    yield "", percentiles(found.whole.latency)
    yield "", f"begun late by {percentiles(found.lateness)}"
    for parts in (found.by_resolver, found.by_form):
        width = max(len(each.name) for each in parts)
        for each in parts:
            figures = f", {percentiles(each.latency, SHORT)}"
            yield "", f"{each.name.ljust(width)}  {_lookup_part(each, figures)}"


def _lookup_part(part: LookupPartReport, figures: str) -> str:
    """The ends of lookups and their queries, in words."""
    count = sum(part.ends.values())
    ends = [str(count)]
    for end, word in ((NONE, "without addresses"), (FAILED, "failed"), (UNFINISHED, "unfinished")):
        if part.ends[end]:
            ends.append(f"{share(part.ends[end], count)} {word}")
    queries = [
        counted(part.queries, "query"),
        f"{share(part.wasted, part.queries)} for other names",
    ]
    counts = {"sent again": part.again, "over TCP": part.over_tcp, "answered on the way": part.kept}
    queries += _counted(counts, "{count} {word}")
    queries.append(f"median {part.median_queries}, at most {part.most_queries} each")
    return f"{', '.join(ends)}{figures}; {', '.join(queries)}"


def _counted(counts: Mapping[str, int], form: str = "{word} {count}") -> list[str]:
    """The counts that are not 0, in words."""
    return [form.format(word=word, count=count) for word, count in counts.items() if count]


def _verdicts(found: VerdictReport) -> Iterator[Row]:
    whole = sum(found.counts.values())
    words = ", ".join(f"{word} {count}" for word, count in found.counts.items())
    yield "verdicts", f"{words}; of {whole} answers, under {found.changes} changes"
    if found.undecided:
        reasons = ", ".join(_counted(found.undecided))
        yield "", f"undecided: {reasons}; slack {found.slack_ms:g} ms"
    if found.unjudged:
        yield "", f"unjudged: {', '.join(_counted(found.unjudged))}"
    if found.undecided.get("behind"):
        yield "", f"behind by {percentiles(found.behind, SHORT)}"
    fields = {each.field: each for each in reversed(found.wrong)}  # the first one of each
    for number, (field, first) in enumerate(sorted(fields.items())):
        count = sum(each.count for each in found.wrong if each.field == field)
        at = f"first of {first.name} {first.type} at {first.first_s:.1f} s"
        yield "" if number else "WRONG", f"{field}: {count}, {at}"
    if found.counts.get("stale"):
        yield "STALE", f"by {percentiles(found.stale_age)}"
        for each in found.episodes[:MOST_NAMES]:
            since, length = since_begin(each.since_s), age((each.until_s - each.since_s) * 1000)
            told = f"first change lacked at {since}, last stale answer {length} later"
            yield "", f"{told}; {each.count}, by {age(each.worst_age_ms)} at most"
        if len(found.episodes) > MOST_NAMES:
            yield "", f"and {len(found.episodes) - MOST_NAMES} more times"
        for name in found.stale_names[:MOST_NAMES]:
            worst = us_to_text(name.worst_age_ms * 1000)
            told = f"{name.count}, by {worst} at most, first at {name.first_s:.1f} s"
            yield "", f"{name.name} {name.type}: {told}"


def _propagation(found: PropagationReport) -> Iterator[Row]:
    judged = found.followed - found.left_out
    told = f"{judged} followed until they showed; {found.left_out} for too short a time"
    yield "changes", told
    if judged:
        first, last = percentiles(found.first_new), percentiles(found.last_old)
        yield "added", f"first new answer after {first}; {found.never_new} never"
        yield "removed", f"last old answer after {last}; {found.never_gone} never gone"
        yield "", f"asked every {percentiles(found.resolution, SHORT)}"
        yield "", f"seen by the generator after {percentiles(found.seen, SHORT)}"


def _connections(found: ConnectionsReport) -> Iterator[Row]:
    words = [f"{found.opened} opened, {found.most_open} at once at most"]
    words += _counted({"truncated answers": found.fell}, "for {count} {word}")
    words += _counted({"queries sent again": found.asked_again, "late replies": found.late})
    yield "connected", ", ".join(words)
    setup = [f"{each.name} {us_to_text(each.us)}" for each in found.setup if each.us is not None]
    if setup:
        yield "", f"set up in {'  '.join(setup)}"
    for text, counts in (
        ("ended", found.ended),
        ("NOT opened", found.not_opened),
        ("queries without an answer", found.without_answer),
    ):
        if counts:
            yield "", f"{text}: {', '.join(_counted(counts))}"


_PARTS: Final[Mapping[str, Callable[[Any], Iterator[Row]]]] = {
    "lookups": _lookups,
    "verdicts": _verdicts,
    "propagation": _propagation,
    "connections": _connections,
}
