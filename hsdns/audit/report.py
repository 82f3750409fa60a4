"""The report of an audit, as values: written as JSON, and the input of text, page and gauges.

Path: run.py -> here (make_report) -> text.py, page.py, gauges.py, or JSON as docs/audit.schema.json describes it.
Rule 1: a finding is an answer that is not right, is right but slow, or has a TTL over the limit.  UNDECIDED answers are
        counted, but are not findings: the cluster changed at that moment, or does not determine the answer.
Rule 2: `lacks` and `has` of a finding are relative to the right answer at the end of the pass.
Rule 3: each server has the number of its findings that another server of the cluster answers right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from hsdns.audit.answers import ERROR, LOST, Answers, Result, words
from hsdns.load.histogram import Histogram
from hsdns.load.questions import Question
from hsdns.load.verify.judge import RIGHT, STALE, UNDECIDED, VERDICTS, Answer
from hsdns.load.verify.verifier import answer_of
from hsdns.wire.iana import RRType, rcode_to_text, type_to_text
from hsdns.wire.text import rdata_to_text

FORMAT: Final = "hsdns audit 1"
SLOW: Final = "slow"
TTL: Final = "ttl"
WORDS: Final = (*VERDICTS, ERROR, LOST, SLOW, TTL)
MOST_FINDINGS: Final = 1000  # listed for each server; all are counted
FIGURES: Final = (("p50", 50.0), ("p99", 99.0), ("max", 100.0))


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
    """All servers of one cluster.

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


class Limits(NamedTuple):
    """The latency above which an answer is slow, in seconds, and the highest allowed TTL, None for any."""

    slow: float
    ttl: int | None


class Pass(NamedTuple):
    """A pass, with fields as in AuditReport.  `expected` gives the right answer to a question now, None if unknown."""

    started: str
    ended: str
    seconds: float
    cluster: str
    expected: Callable[[int], Answer | None]
    limits: Limits


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
        if result.word not in (RIGHT, UNDECIDED):
            alone += any(other[number].word == RIGHT for other in others)
        word = _word(result, done.limits)
        if word not in (RIGHT, UNDECIDED) and not (done.ended and word == LOST):
            bad.append((number, word))
    counts = words(answers.results)
    for _, word in bad:
        if word in (SLOW, TTL):
            counts[word] = counts.get(word, 0) + 1
    listed = [
        _finding(questions[number], answers, number, word, done)
        for number, word in bad[:MOST_FINDINGS]
    ]
    lost = 0 if done.ended else counts.get(LOST, 0)
    figures = latency.percentiles([share for _, share in FIGURES], lost)
    return ServerReport(
        name,
        {word: counts[word] for word in WORDS if counts.get(word)},
        {label: value for (label, _), value in zip(FIGURES, figures, strict=False)},
        round(worst * 1000, 3),
        alone,
        listed,
        len(bad) - len(listed),
    )


def _word(result: Result, limits: Limits) -> str:
    if result.word != RIGHT:
        return result.word
    if limits.ttl is not None and result.ttl is not None and result.ttl > limits.ttl:
        return TTL
    if result.latency is not None and result.latency > limits.slow:
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
        reason = f"the TTL is {result.ttl} s, and {done.limits.ttl} s at most are right"
    elif word not in (LOST, SLOW):
        right = done.expected(number)
        if right is not None:
            found = answer_of(result.rcode, answers.records(number))
            lacks, has = (
                record_texts(each)
                for each in (right.records - found.records, found.records - right.records)
            )
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


def record_texts(records: frozenset[tuple[int, bytes]]) -> list[str]:
    """Records as text, without the weight of SRV, which is not compared."""
    found = []
    for rrtype, rdata in records:
        if rrtype == RRType.SRV:
            priority, _, rest = rdata_to_text(rrtype, rdata[:2] + b"\0\0" + rdata[2:]).split(" ", 2)
            found.append(f"SRV {priority} * {rest}")
        else:
            found.append(f"{type_to_text(rrtype)} {rdata_to_text(rrtype, rdata)}")
    return sorted(found)
