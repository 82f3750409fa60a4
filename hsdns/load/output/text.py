"""The report of a run as text, for a terminal or a log.

Path: report.py -> here -> cli/load.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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
    Shown,
    age,
    answers,
    arrival,
    comparison,
    differences,
    knee_step,
    limited,
    percentiles,
    rates,
    share,
    shown,
    since_begin,
)
from hsdns.load.report import (
    KneeReport,
    Report,
    ServerReport,
)
from hsdns.load.results import (
    Counts,
    PropagationReport,
    StaleReport,
    VerdictReport,
)

_SHOWN: Final = ("p50", "p99", "max")


def lookup_lines(found: LookupsReport) -> Iterator[tuple[str, str]]:
    """Rows with a label, which is "" if a row continues the one before."""
    whole = found.whole
    yield "lookups", f"{_ends(whole)}; {_lookup_queries(whole)}"
    yield "", percentiles(whole.latency)
    yield "", f"begun late by {percentiles(found.lateness)}"
    for parts in (found.by_resolver, found.by_form):
        width = max(len(each.name) for each in parts)
        for each in parts:
            figures = percentiles(each.latency, _SHOWN)
            yield "", f"{each.name.ljust(width)}  {_ends(each)}, {figures}; {_lookup_queries(each)}"


def _count(part: LookupPartReport) -> int:
    return sum(part.ends.values())


def _ends(part: LookupPartReport) -> str:
    words = [str(_count(part))]
    words += [
        f"{share(part.ends[end], _count(part))} {word}"
        for end, word in (
            (NONE, "without addresses"),
            (FAILED, "failed"),
            (UNFINISHED, "unfinished"),
        )
        if part.ends[end]
    ]
    return ", ".join(words)


def _lookup_queries(part: LookupPartReport) -> str:
    words = [f"{part.queries} queries", f"{share(part.wasted, part.queries)} for other names"]
    words += [
        f"{count} {word}"
        for count, word in ((part.again, "sent again"), (part.over_tcp, "over TCP"))
        if count
    ]
    words.append(f"median {part.median_queries}, at most {part.most_queries} each")
    return ", ".join(words)


def reasons(counts: Mapping[str, int]) -> str:
    """Counts by reason, in words."""
    return ", ".join(f"{why} {count}" for why, count in counts.items())


_LABEL: Final = 10
MOST_NAMES: Final = 5


def lines(report: Report) -> list[str]:
    """The report, line by line."""
    plan = report.plan
    portion = f", part {plan.part} of it" if plan.part else ""
    many = f", by {report.generators} generators" if report.generators > 1 else ""
    row = _row(
        "plan",
        f"{rates(plan.stages)}, {arrival(plan.arrival, plan.burst)}, seed {plan.seed}{portion}{many}",
    )
    if len(report.servers) == 1:
        (server,) = report.servers
        knee = [] if report.knee is None else _knee(report.knee)
        return [f"{server.target} over {plan.transport}, {plan.what}", *knee, row, *_server(server)]
    found = [f"{len(report.servers)} servers over {plan.transport}, {plan.what}", row, ""]
    return [*found, *compared(shown(report)), *_each(shown(report))]


def compared_lines(servers: Sequence[Shown]) -> list[str]:
    """Servers of several runs, line by line."""
    return [*differences(servers), *compared(servers), *_each(servers)]


def compared(servers: Sequence[Shown]) -> list[str]:
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
        yield from _server(each.server)


def _knee(knee: KneeReport) -> list[str]:
    """Lines about the result, and all steps by rate."""
    found = [_row("KNEE", knee.sentence), _row("", f"limits {', '.join(knee.limits)}")]
    found += [
        _row("", f"{step.rate:>8.10g}/s for {step.seconds:g} s  {knee_step(step)}")
        for step in sorted(knee.steps, key=lambda each: each.rate)
    ]
    return [*found, "", "the longest step at that rate:" if knee.holds else "the last step:"]


def _server(server: ServerReport) -> list[str]:
    found, counts = [], server.counts
    if server.ended:
        found.append(
            _row(
                "NOT WHOLE",
                f"{server.ended} after {server.seconds:.1f} s; what was measured until then:",
            )
        )
    found += [
        _row("queries", f"{counts.due} due, {_queries(counts)}"),
        _row("answers", answers(counts)),
        _row("latency", percentiles(server.latency)),
        _row("generator", f"late by {percentiles(server.lateness)}"),
    ]
    if counts.not_sent:
        found.append(_row("", f"{counts.not_sent} queries that this machine could not send"))
    if server.refused:
        found.append(_row("REFUSED", server.refused))
    if len(server.kinds) > 1:
        width = max(len(f"{kind.group} {kind.type}") for kind in server.kinds)
        for number, kind in enumerate(server.kinds):
            label = f"{kind.group} {kind.type}".ljust(width)
            figures = percentiles(kind.latency, ("p50", "p99", "max"))
            text = f"{label}  {kind.counts.answered} answered, {kind.counts.lost} lost, {figures}"
            found.append(_row("" if number else "kinds", text))
    if server.lookups is not None:
        found += [_row(*each) for each in lookup_lines(server.lookups)]
    if server.verdicts is not None:
        found += _verdicts(server.verdicts)
    if server.propagation is not None:
        found += _propagation(server.propagation)
    if server.connections is not None:
        found += _connections(server.connections)
    for limit in server.limits:
        word = {True: "FAILED", False: "held", None: "UNKNOWN"}[limit.met]
        found.append(_row("limit", f"{limit.limit}: {word}, {limited(limit)}"))
    return found


def _verdicts(found: VerdictReport) -> list[str]:
    judged = sum(found.counts.values())
    words = ", ".join(f"{word} {count}" for word, count in found.counts.items())
    rows = [_row("verdicts", f"{words}; of {judged} answers, under {found.changes} changes")]
    if found.undecided:
        rows.append(_row("", f"undecided: {reasons(found.undecided)}; slack {found.slack_ms:g} ms"))
    if found.undecided.get("behind"):
        rows.append(_row("", f"behind by {percentiles(found.behind, ('p50', 'p99', 'max'))}"))
    if found.counts.get("stale"):
        rows.append(_row("STALE", f"by {percentiles(found.stale_age)}"))
        if found.old_since_s is not None and found.old_for_s is not None:
            since, length = since_begin(found.old_since_s), age(found.old_for_s * 1000)
            rows.append(
                _row("", f"first change lacked at {since}, last stale answer {length} later")
            )
        rows += [_row("", _stale(name)) for name in found.stale_names[:MOST_NAMES]]
    return rows


def _propagation(found: PropagationReport) -> list[str]:
    judged = found.followed - found.left_out
    rows = [
        _row(
            "changes", f"{judged} followed until they showed; {found.left_out} for too short a time"
        )
    ]
    if not judged:
        return rows
    rows += [
        _row(
            "added",
            f"first new answer after {percentiles(found.first_new)}; {found.never_new} never",
        ),
        _row(
            "removed",
            f"last old answer after {percentiles(found.last_old)}; {found.never_gone} never gone",
        ),
        _row("", f"asked every {percentiles(found.resolution, ('p50', 'p99', 'max'))}"),
        _row("", f"seen by the generator after {percentiles(found.seen, ('p50', 'p99', 'max'))}"),
    ]
    return rows


def _connections(found: ConnectionsReport) -> list[str]:
    words = [f"{found.opened} opened, {found.most_open} at once at most"]
    if found.fell:
        words.append(f"for {found.fell} truncated answers")
    words += [
        f"{text} {count}"
        for text, count in (
            ("queries asked again", found.asked_again),
            ("late replies", found.late),
        )
        if count
    ]
    rows = [_row("connected", ", ".join(words))]
    setup = [f"{each.name} {us_to_text(each.us)}" for each in found.setup if each.us is not None]
    if setup:
        rows.append(_row("", f"set up in {'  '.join(setup)}"))
    for text, counts in (
        ("ended", found.ended),
        ("NOT opened", found.not_opened),
        ("queries without an answer", found.without_answer),
    ):
        if counts:
            rows.append(_row("", f"{text}: {reasons(counts)}"))
    return rows


def _queries(counts: Counts) -> str:
    lost = share(counts.lost, counts.sent)
    return f"{counts.sent} sent, {counts.answered} answered, {lost} lost"


def _stale(name: StaleReport) -> str:
    worst = us_to_text(name.worst_age_ms * 1000)
    return (
        f"{name.name} {name.type}: {name.count}, by {worst} at most, first at {name.first_s:.1f} s"
    )


def _row(label: str, text: str) -> str:
    return f"{label:<{_LABEL}} {text}"
