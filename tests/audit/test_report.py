"""The report of a pass: what is a finding, what it lacks and has, and what differs between servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest

from hsdns.audit.report import AuditReport, Finding, Limits, Pass, make_report
from hsdns.audit.run import ERROR, LOST, Answers, Result
from hsdns.load.questions import Question
from hsdns.load.verify.judge import EXTRA, RIGHT, STALE, UNDECIDED, WRONG, Answer
from hsdns.load.verify.verifier import Verifier
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import srv
from tests.load.verify.test_verifier import ONE, Said

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "audit.schema.json"
NAMES = ("a", "b", "c")
QUESTIONS = [
    Question(Name.from_text(f"{each}.shop.svc.cluster.local."), RRType.A, "service")
    for each in NAMES
]
QUESTIONS[2] = QUESTIONS[2]._replace(group="absent")


class Given(Answers):
    """Answers with results and records that are given."""

    def __init__(self, results: Sequence[Result], records: Sequence[RR] = ()) -> None:
        super().__init__(QUESTIONS, Verifier(Said(), [ONE]), 0)
        self.results = list(results)
        self.asked = len(results)
        self._given = records

    def records(self, question: int) -> Sequence[RR]:
        return self._given


def a(*addresses: str) -> frozenset[tuple[int, bytes]]:
    return frozenset((RRType.A, ip_address(each).packed) for each in addresses)


def report(
    *servers: Answers, right: Answer | None = None, ended: str = "", ttl: int | None = 30
) -> AuditReport:
    expected = Answer(0, a("10.0.0.1", "10.0.0.2")) if right is None else right
    done = Pass(
        "2026-01-02T03:04:05.000Z", ended, 1.5, "test", lambda question: expected, Limits(0.1, ttl)
    )
    names = [(f"10.96.0.{at}", each) for at, each in enumerate(servers, 10)]
    return make_report(QUESTIONS, names, done)


FINE = Result(RIGHT, 0.0, 0.001, 0, 5)


@pytest.mark.parametrize(
    ("result", "word", "reason"),
    [
        (FINE._replace(latency=0.101), "slow", ""),
        (FINE._replace(ttl=31), "ttl", "the TTL is 31 s, and 30 s at most are right"),
        (FINE._replace(ttl=31, latency=0.101), "ttl", "the TTL is 31 s, and 30 s at most are right"),
        (Result(LOST), "lost", ""),
        (Result(ERROR, 0.0, 0.001, 2), "error", "SERVFAIL"),
        (Result(STALE, 2.5, 0.001, 0, 5), "stale", ""),
        (Result(WRONG, 0.0, 0.001, 3), "wrong", "NXDOMAIN instead of NOERROR"),
    ],
)  # fmt: skip
def test_findings(result: Result, word: str, reason: str) -> None:
    found = report(Given([FINE, result, FINE]))
    (server,) = found.servers
    (finding,) = server.findings
    assert (finding.name, finding.type, finding.word, finding.reason) == ("b.shop.svc.cluster.local.", "A", word, reason)  # fmt: skip
    assert finding.age_ms == result.age * 1000
    assert server.counts[word] == 1
    assert found.bad == 1


@pytest.mark.parametrize(
    "result", [FINE, FINE._replace(ttl=30, latency=0.1), Result(UNDECIDED, reason="behind")]
)
def test_no_findings(result: Result) -> None:
    found = report(Given([FINE, result, FINE]))
    assert found.bad == 0
    assert (found.names, found.absent, found.skipped) == (2, 1, 0)


def test_what_an_answer_lacks_and_has() -> None:
    owner = QUESTIONS[0].name
    has = [RR(owner, RRType.A, 5, ip_address(each).packed) for each in ("10.0.0.2", "10.0.0.9")]
    found = report(Given([Result(EXTRA, 0.0, 0.001, 0, 5), FINE, FINE], has))
    assert found.servers[0].findings == [
        Finding("a.shop.svc.cluster.local.", "A", "service", "extra", 0.0, 1.0, "", ["A 10.0.0.1"], ["A 10.0.0.9"])
    ]  # fmt: skip


def test_srv_records_are_told_without_their_weight() -> None:
    target = Name.from_text("db-0.db.shop.svc.cluster.local.")
    wire = srv(0, 50, 5432, target)
    right = Answer(0, frozenset({(RRType.SRV, wire[:2] + wire[4:])}))
    found = report(Given([Result(WRONG, 0.0, 0.001, 3), FINE, FINE]), right=right)
    assert found.servers[0].findings[0].lacks == [f"SRV 0 * 5432 {target.to_text()}"]


def test_what_another_server_answers_right() -> None:
    lagging = Given([Result(STALE, 3.0, 0.001, 0, 5), Result(STALE, 2.0, 0.001, 0, 5), FINE])
    found = report(Given([FINE, Result(LOST), FINE]), lagging)
    assert [(each.server, each.alone, each.worst_age_ms) for each in found.servers] == [
        ("10.96.0.10", 0, 0.0),
        ("10.96.0.11", 1, 3000.0),
    ]


def test_what_was_not_asked_is_no_finding_of_an_interrupted_pass() -> None:
    answers = Given([FINE, Result(LOST), Result(LOST)])
    answers.asked = 1
    found = report(answers, ended="interrupted")
    assert (found.bad, found.skipped, found.ended) == (0, 2, "interrupted")


def test_only_so_many_findings_are_listed() -> None:
    questions = QUESTIONS[:1] * 1003
    answers = Given([Result(LOST)] * 1003)
    done = Pass("", "", 1.0, "test", lambda question: None, Limits(0.1, None))
    (server,) = make_report(questions, [("x", answers)], done).servers
    assert (len(server.findings), server.more, server.bad) == (1000, 3, 1003)


def test_the_report_can_be_read_again() -> None:
    found = report(Given([FINE, Result(LOST), FINE]))
    assert msgspec.json.decode(msgspec.json.encode(found), type=AuditReport) == found


def test_schema() -> None:
    """docs/audit.schema.json is what the report is written by; print it anew if it is not."""
    schema = json.loads(json.dumps(msgspec.json.schema(list[AuditReport])))
    assert json.loads(SCHEMA.read_text()) == schema
