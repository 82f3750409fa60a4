"""The parts of a page about a server, one for each subject.

Path: page.py -> here -> plots.py, markup.py.
Rule: a subject without data is "".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hsdns.load.output import plots, spread
from hsdns.load.output.columns import BAD, KNOWN, OTHER, Column
from hsdns.load.output.connection_plot import TITLE, connections
from hsdns.load.output.markup import figure, legend, paragraph, table
from hsdns.load.output.text import HEAD, lookup_rows
from hsdns.load.output.words import age, answers, duration, share, since_begin
from hsdns.load.report import PropagationReport, Report, ServerReport, VerdictReport
from hsdns.load.results import ConnectionsReport
from hsdns.load.verify.judge import VERDICTS

MOST_STALE: Final = 20  # names listed
MOST_ROWS: Final = 1000  # in the tables of seconds, for all servers together


class Part(NamedTuple):
    """A server on a page: its seconds in columns, those of all servers, and the number of servers.

    `propagations` and `connections` are those of all servers.
    """

    name: str
    report: Report
    server: ServerReport
    columns: list[Column]
    beside: list[list[Column]]
    servers: int
    propagations: Sequence[PropagationReport] = ()
    connections: Sequence[ConnectionsReport] = ()

    def titled(self, title: str) -> str:
        """The title of a plot for screen readers."""
        return title if self.servers == 1 else f"{title}: {self.name}"


def _figures(part: Part) -> str:
    server = part.server
    names = [each.name for each in server.latency]
    rows: list[Sequence[object]] = [
        ("latency", *map(duration, server.latency)),
        ("generator late by", *map(duration, server.lateness)),
    ]
    if server.verdicts is not None and server.verdicts.counts["stale"]:
        rows.append(("stale by", *map(duration, server.verdicts.stale_age)))
    counts = server.counts
    told = (
        f"{counts.due} queries were due, {counts.sent} sent, {counts.answered} answered, "
        f"{share(counts.lost, counts.sent)} lost: {answers(counts)}."
    )
    return paragraph(told) + table("", ("", *names), rows)


def _answers(part: Part) -> str:
    if not part.columns:
        return ""
    seen = [
        (f"rcode {name.lower()}", name)
        for name in (*KNOWN, OTHER)
        if any(each.rcodes[name] for each in part.columns)
    ]
    drawn = plots.answers(part.columns, part.beside)
    return figure(part.titled("Answers"), drawn, legend(seen))


def _heat(part: Part) -> str:
    if not part.columns:
        return ""
    drawn = plots.heat(part.columns, part.beside)
    return figure(part.titled("Latency over time"), drawn, legend(_LINES))


_LINES: Final = (
    ("p50", "p50"),
    ("p99", "p99"),
    ("p999", "p99.9; gaps: left out or lost"),
    ("late", "p99 of the generator's lateness"),
)


def _slowest(part: Part) -> str:
    if not part.columns:
        return ""
    found = [("p50", "latency"), ("late", "the generator's lateness")]
    if any(each.why == "generator" for each in part.server.latency):
        found.append(("refused", "left out: the generator was the limit"))
    if part.server.counts.lost:
        found.append(("rcode lost faint", "lost"))
    title = part.titled("Latency against the slowest share")
    return figure(title, plots.slowest(part.server), legend(found))


def _verdicts(part: Part) -> str:
    verdicts, found = part.server.verdicts, part.columns
    if verdicts is None or not found:
        return ""
    words = [
        (f"verdict {word}", word) for word in BAD if any(each.verdicts[word] for each in found)
    ]
    key = [*words, ("stale", "the stalest answer"), ("changes", "changes of the cluster")]
    drawn = plots.staleness(found, part.beside)
    return figure(part.titled("Right or wrong"), drawn, legend(key)) + _verdict_tables(verdicts)


def _verdict_tables(verdicts: VerdictReport) -> str:
    found = table(
        f"Verdicts; slack {verdicts.slack_ms:g} ms",
        tuple(verdicts.counts),
        [tuple(verdicts.counts.values())],
    )
    if verdicts.undecided:
        behind = " ".join(f"{each.name} {duration(each)}" for each in verdicts.behind)
        counted = ", ".join(f"{word} {count}" for word, count in verdicts.undecided.items())
        found += paragraph(f"Undecided: {counted}; behind by {behind}.")
    if verdicts.old_since_s is not None and verdicts.old_for_s is not None:
        found += paragraph(
            f"The first change that a stale answer lacked: {since_begin(verdicts.old_since_s)}; the last stale answer "
            f"was asked for {age(verdicts.old_for_s * 1000)} later."
        )
    if verdicts.stale_names:
        rows = [
            (
                each.name,
                each.type,
                each.count,
                age(each.worst_age_ms),
                f"{each.first_s:.1f} s",
            )
            for each in verdicts.stale_names[:MOST_STALE]
        ]
        head = ("name", "type", "stale answers", "at most by", "first at")
        found += table("The stalest names", head, rows)
    return found


def _changes(part: Part) -> str:
    found = part.server.propagation
    if found is None:
        return ""
    judged = found.followed - found.left_out
    told = (
        f"{judged} changes were followed until they showed, {found.left_out} more for less than a second. Times run "
        f"from when a change was written; {found.never_new} that added records never showed, and {found.never_gone} "
        "that removed some were still answered at the end."
    )
    if not judged:
        return paragraph(told)
    end = max([each.at_s for each in found.events] + [part.server.seconds])
    drawn = spread.dots(found, [found, *part.propagations], end)
    key = legend((("shown", "first new answer"), ("gone", "last old answer")))
    rows = [
        ("added: first new answer", *map(duration, found.first_new)),
        ("removed: last old answer", *map(duration, found.last_old)),
        ("between two questions", *map(duration, found.resolution)),
        ("seen by the generator", *map(duration, found.seen)),
    ]
    names = [each.name for each in found.first_new]
    return (
        figure(part.titled("Until changes show"), drawn, key)
        + paragraph(told)
        + table(part.titled("Until changes show"), ("after the write", *names), rows)
    )


def _lookups(part: Part) -> str:
    found = part.server.lookups
    if found is None:
        return ""
    head = (*HEAD, *(each.name for each in found.whole.latency))
    told = (
        "A lookup has the queries for all names of the search list that it takes; those for another name than the one "
        "that was meant are counted by themselves."
    )
    return (
        paragraph(told)
        + table("By resolver", head, lookup_rows([found.whole, *found.by_resolver]))
        + table("By how the name was written", head, lookup_rows(found.by_form))
    )


def _connections(part: Part) -> str:
    found = part.server.connections
    return "" if found is None else connections(found, part.connections, part.titled(TITLE))


def _seconds(part: Part) -> str:
    server, most = part.server, MOST_ROWS // part.servers
    if not server.per_second:
        return ""
    rcodes = sorted({rcode for each in server.per_second for rcode in each.counts.rcodes})
    words = [word for word in VERDICTS if any(word in each.verdicts for each in server.per_second)]
    names = [each.name for each in server.latency]
    judged = ("changes", "stalest") if server.verdicts is not None else ()
    head = ("second", *rcodes, "lost", *names, "late p99", *words, *judged)
    rows = []
    for each in server.per_second[:most]:
        late = next(figure for figure in each.lateness if figure.name == "p99")
        oldest = age(each.worst_age_ms) if each.worst_age_ms else ""
        rows.append(
            (
                each.second,
                *(each.counts.rcodes.get(rcode, 0) for rcode in rcodes),
                each.counts.lost,
                *map(duration, each.latency),
                duration(late),
                *(each.verdicts.get(word, 0) for word in words),
                *((each.changes, oldest) if judged else ()),
            )
        )
    more = len(server.per_second) - most
    note = paragraph(f"{more} more seconds are in the JSON report.") if more > 0 else ""
    shown = table(part.titled("What the plots show"), head, rows)
    return f"<details><summary>Table of {len(rows)} seconds</summary>{shown}{note}</details>"


def _kinds(part: Part) -> str:
    server = part.server
    if len(server.kinds) < 2:
        return ""
    names = [each.name for each in server.latency]
    rows = [
        (
            f"{each.group} {each.type}",
            each.counts.sent,
            each.counts.lost,
            answers(each.counts),
            *map(duration, each.latency),
        )
        for each in server.kinds
    ]
    return table("", ("kind", "sent", "lost", "answers", *names), rows)


TOPICS: Final[Sequence[tuple[str, Callable[[Part], str]]]] = (
    ("Figures", _figures),
    ("Answers", _answers),
    ("Latency over time", _heat),
    ("Latency against the slowest share", _slowest),
    ("Right or wrong", _verdicts),
    ("Until changes show", _changes),
    ("Lookups", _lookups),
    ("Connections", _connections),
    ("Second by second", _seconds),
    ("Kinds of names", _kinds),
)
