"""The report of an audit, as values: written as JSON, and the input of text, page and gauges.

Path: run.py -> here (make_report) -> page.py, text, gauges, or JSON as docs/audit.schema.json describes it.
Rule 1: a finding is an answer that is not right, is right but slow, or has a TTL over the limit.  UNDECIDED and
        UNJUDGED answers are counted, but are not findings: the cluster changed at that moment, or does not determine
        the answer.
Rule 2: `lacks` and `has` of a finding are relative to the right answer at the end of the pass.
Rule 3: each server has the number of its findings that another server of the cluster answers right.

The report of an audit as text, for a terminal or a log.

The metrics of a continuous audit, for Prometheus:
Rule: the values are those of the last pass; a server or a verdict that no longer occurs has no value.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Final, NamedTuple

import msgspec

from hsdns.audit.run import ERROR, LOST, Answers, Result
from hsdns.load.histogram import Histogram, us_to_text
from hsdns.load.questions import Question
from hsdns.load.verify.judge import (
    ANSWER,
    NOT_BAD,
    RCODE,
    RIGHT,
    STALE,
    VERDICTS,
    WRONG,
    Answer,
    answer_of,
)
from hsdns.metrics import Registry
from hsdns.wire.iana import RRType, rcode_to_text, type_to_text
from hsdns.wire.text import rdata_to_text

FORMAT: Final = "hsdns audit 1"
SLOW: Final = "slow"
TTL: Final = "ttl"
WORDS: Final = (*VERDICTS, ERROR, LOST, SLOW, TTL)
MOST_FINDINGS: Final = 1000  # listed for each server; all are counted
FIGURES: Final = {"p50": 50.0, "p99": 99.0, "max": 100.0}


class Finding(msgspec.Struct, frozen=True):
    """A name with a wrong answer on one server.

    `word` is one of WORDS; `age_ms` is how far a stale answer is behind; `lacks` are missing records, `has` extra ones;
    `reason` is an rcode or a TTL with its limit.
    """

    name: str
    type: str
    group: str
    word: str
    age_ms: float = 0.0
    latency_ms: float | None = None
    reason: str = ""
    lacks: list[str] = []
    has: list[str] = []


class ServerReport(msgspec.Struct, frozen=True):
    """One server: the number of answers with each word, percentiles of the latency in microseconds, and findings.

    A lost query counts as slower than any answered one, so a percentile may be None.  `alone` counts the names that
    this server answers worse than another one; `worst_age_ms` is for stale answers.
    """

    server: str
    counts: dict[str, int]
    latency_us: dict[str, int | None]
    worst_age_ms: float
    alone: int
    findings: list[Finding]
    more: int

    @property
    def bad(self) -> int:
        """The number of findings."""
        return len(self.findings) + self.more


class AuditReport(msgspec.Struct, frozen=True):
    """All servers of one cluster; none if it could not be audited, for which `ended` has the reason.

    `started` is a time in RFC 3339, `ended` is why the pass is incomplete, "" if it is complete.  `names` and `absent`
    count the questions about names that exist and that must not exist, `skipped` those that were not sent.
    """

    format: str
    started: str
    ended: str
    seconds: float
    cluster: str
    names: int
    absent: int
    skipped: int
    servers: list[ServerReport]

    @property
    def bad(self) -> int:
        """The number of findings."""
        return sum(each.bad for each in self.servers)


class Pass(NamedTuple):
    """A pass, with fields as in AuditReport.

    `expected` gives the right answer to a question now, None if unknown.  An answer that takes more than `slow` seconds
    is slow; `ttl` is the highest allowed TTL, None for any.
    """

    started: str
    ended: str
    seconds: float
    cluster: str
    expected: Callable[[int], Answer | None]
    slow: float
    ttl: int | None


def make_report(
    questions: Sequence[Question], servers: Sequence[tuple[str, Answers]], done: Pass
) -> AuditReport:
    """The report of one cluster; `servers` are answers with the names of the servers."""
    absent = sum(each.group == "absent" for each in questions)
    skipped = 0
    if done.ended:
        skipped = len(questions) - min(answers.asked for _, answers in servers)
    found = []
    for name, answers in servers:
        others = [other.results for other_name, other in servers if other_name != name]
        found.append(_server(name, answers, others, questions, done))
    return AuditReport(
        FORMAT,
        done.started,
        done.ended,
        round(done.seconds, 3),
        done.cluster,
        len(questions) - absent,
        absent,
        skipped,
        found,
    )


def _server(
    name: str,
    answers: Answers,
    others: Sequence[Sequence[Result]],
    questions: Sequence[Question],
    done: Pass,
) -> ServerReport:
    latency, worst, alone, bad = Histogram(), 0.0, 0, []
    for number, result in enumerate(answers.results):
        if result.latency is not None:
            latency.record(round(result.latency * 1e6))
        if result.word == STALE:
            worst = max(worst, result.age)
        if result.word not in NOT_BAD:
            alone += any(other[number].word == RIGHT for other in others)
        word = _word(result, done)
        if word not in NOT_BAD and not (done.ended and word == LOST):
            bad.append((number, word))
    counts = Counter(each.word for each in answers.results)
    counts.update(word for _, word in bad if word in (SLOW, TTL))
    listed = [
        _finding(questions[number], answers, number, word, done)
        for number, word in bad[:MOST_FINDINGS]
    ]
    figures = latency.percentiles(FIGURES.values(), 0 if done.ended else counts[LOST])
    return ServerReport(
        name,
        {word: counts[word] for word in WORDS if counts[word]},
        dict(zip(FIGURES, figures, strict=True)),
        round(worst * 1000, 3),
        alone,
        listed,
        len(bad) - len(listed),
    )


def _word(result: Result, done: Pass) -> str:
    if result.word != RIGHT:
        return result.word
    if done.ttl is not None and result.ttl is not None and result.ttl > done.ttl:
        return TTL
    if result.latency is not None and result.latency > done.slow:
        return SLOW
    return RIGHT


def _finding(question: Question, answers: Answers, number: int, word: str, done: Pass) -> Finding:
    result = answers.results[number]
    lacks: list[str] = []
    has: list[str] = []
    reason = ""
    if word == ERROR:
        reason = rcode_to_text(result.rcode)
    elif word == TTL:
        reason = f"the TTL is {result.ttl} s, and {done.ttl} s at most are right"
    elif word == WRONG and result.reason not in (ANSWER, RCODE):
        reason = f"the field {result.reason} is wrong"
    elif word not in (LOST, SLOW) and (right := done.expected(number)) is not None:
        found = answer_of(result.rcode, answers.records(number))
        lacks, has = differences(found, right)
        if right.rcode != result.rcode:
            reason = f"{rcode_to_text(result.rcode)} instead of {rcode_to_text(right.rcode)}"
    return Finding(
        question.name.to_text(),
        type_to_text(question.qtype),
        question.group,
        word,
        round(result.age * 1000, 3),
        None if result.latency is None else round(result.latency * 1000, 3),
        reason,
        lacks,
        has,
    )  # fmt: skip


def differences(said: Answer, right: Answer) -> tuple[list[str], list[str]]:
    """The records that an answer lacks, and those that it has beside the right ones, as text."""
    return _texts(right.records - said.records), _texts(said.records - right.records)


def _texts(records: frozenset[tuple[int, bytes]]) -> list[str]:
    """Records as text, without the weight of SRV, which is not compared."""
    found = []
    for rrtype, rdata in records:
        if rrtype == RRType.SRV:
            priority, _, rest = rdata_to_text(rrtype, rdata[:2] + b"\0\0" + rdata[2:]).split(" ", 2)
            found.append(f"SRV {priority} * {rest}")
        else:
            found.append(f"{type_to_text(rrtype)} {rdata_to_text(rrtype, rdata)}")
    return sorted(found)


MOST_LINES: Final = 10  # findings shown for a server
MOST_RECORDS: Final = 3


def lines(reports: Sequence[AuditReport]) -> list[str]:
    """The report, line by line; a table of all servers at the end if there are several clusters."""
    found = [line for report in reports for line in ("", *_cluster(report))][1:]
    return [*found, "", *_fleet(reports)] if len(reports) > 1 else found


def screen(reports: Sequence[AuditReport], width: int, height: int) -> list[str]:
    """What a terminal shows of a pass: all servers, then what is wrong, as far as there is room."""
    found = [_cut(line, width) for line in _fleet(reports, width)]
    for each in reports:
        for line in ("", *_cluster(each)) if each.bad or each.ended else ():
            below = " " * (len(line) - len(line.lstrip()) + 4)
            found += wrap(line, width, subsequent_indent=below, break_on_hyphens=False) or [""]
    if len(found) > height:
        found[height - 1 :] = [f"and {len(found) - height + 1} more lines"]
    return found


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def what_is_wrong(found: Finding) -> str:
    """A finding as text."""
    parts = [found.word]
    if found.word == STALE:
        parts[0] = f"stale by {seconds(found.age_ms)}"
    if found.word == "slow" and found.latency_ms is not None:
        parts[0] = f"slow: {seconds(found.latency_ms)}"
    if found.reason:
        parts.append(found.reason)
    for label, records in (("lacks", found.lacks), ("has", found.has)):
        if records:
            more = len(records) - MOST_RECORDS
            shown = ", ".join(records[:MOST_RECORDS]) + (f" and {more} more" if more > 0 else "")
            parts.append(f"{label} {shown}")
    return "; ".join(parts)


def seconds(ms: float) -> str:
    """A time as text."""
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def _cluster(report: AuditReport) -> Iterator[str]:
    if not report.servers:
        yield f"{report.cluster}: not audited: {report.ended}"
        return
    asked = f"{report.names} names that exist, {report.absent} that must not"
    yield f"{report.cluster}: {asked}, in {report.seconds:.1f} s"
    if report.ended:
        yield f"INCOMPLETE  {report.ended}; {report.skipped} of them were not queried on every server"
    width = max(len(each.server) for each in report.servers)
    for server in report.servers:
        figures = ", ".join(f"{name} {latency(us)}" for name, us in server.latency_us.items())
        verdicts = ", ".join(f"{count} {word}" for word, count in server.counts.items())
        yield f"{server.server.ljust(width)}  {verdicts or 'no queries'}; {figures}"
        if server.worst_age_ms:
            yield f"{' ' * width}  behind by {seconds(server.worst_age_ms)} at most"
        if server.alone:
            yield f"{' ' * width}  {server.alone} of them are right on another server"
    for server in report.servers:
        if not server.bad:
            continue
        yield ""
        yield server.server
        for each in server.findings[:MOST_LINES]:
            yield f"  {each.name} {each.type}: {what_is_wrong(each)}"
        more = server.bad - min(MOST_LINES, len(server.findings))
        if more:
            yield f"  and {more} more; -o json lists them"


def latency(us: int | None) -> str:
    """A percentile as text."""
    return "lost" if us is None else us_to_text(us)


def age(server: ServerReport) -> str:
    """How far the stalest answer of a server was behind, as text."""
    return seconds(server.worst_age_ms) if server.worst_age_ms else "-"


def _fleet(reports: Sequence[AuditReport], width: int = sys.maxsize) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("cluster", "server", "names", "not right", "worst age", "p99")]
    for report in reports:
        if not report.servers:
            rows.append((report.cluster, "not audited", *"----"))
        for each in report.servers:
            figures = str(report.names + report.absent), str(each.bad), age(each)
            rows.append((report.cluster, each.server, *figures, latency(each.latency_us["p99"])))
    if width < 60:  # the name of a server and what is not right fit
        rows = [(cluster, server, bad) for cluster, server, _, bad, *_ in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], max(width - sum(widths[1:]) - 2 * len(widths[1:]), 8))
    for cluster, *row in rows:
        cells = _cut(cluster, widths[0]), *row
        yield "  ".join(map(str.ljust, cells, widths)).rstrip()


_SERVER: Final = ("cluster", "server")


class Gauges:
    """The metrics, by cluster and server."""

    def __init__(self) -> None:
        self.registry = Registry()
        gauge = self.registry.gauge
        self._answers = gauge("hsdns_audit_answers", (*_SERVER, "verdict"))
        self._age = gauge("hsdns_audit_worst_age_seconds", _SERVER)
        self._latency = gauge("hsdns_audit_latency_seconds", (*_SERVER, "quantile"))
        self._names = gauge("hsdns_audit_names", ("cluster",))
        self._time = gauge("hsdns_audit_last_pass_timestamp_seconds")
        self._failures = self.registry.counter("hsdns_audit_failures_total")

    def update(self, reports: Sequence[AuditReport], now: float) -> None:
        """Set the values from the reports of a pass that ended at `now`, in seconds since 1970."""
        for gauge in (self._answers, self._age, self._latency, self._names):
            gauge.values.clear()
        self._time.set(now)
        for report in reports:
            self._names.set(report.names + report.absent, (report.cluster,))
            if not report.servers:
                self.failed()
                continue
            for server in report.servers:
                labels = (report.cluster, server.server)
                for word, count in server.counts.items():
                    self._answers.set(count, (*labels, word))
                self._age.set(server.worst_age_ms / 1000, labels)
                for name, us in server.latency_us.items():
                    if us is not None:
                        self._latency.set(us / 1e6, (*labels, f"{FIGURES[name] / 100:g}"))

    def failed(self) -> None:
        """Count a pass over a cluster that could not be made."""
        self._failures.inc()
