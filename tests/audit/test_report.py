"""The report of a pass as values, text, page and gauges: golden/ has what each form says.

`python -m tests.audit.test_report` writes the files anew; read what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from hsdns.audit.page import COLOURS, page
from hsdns.audit.report import FORMAT, WORDS, AuditReport, Gauges, Pass, lines, make_report, screen
from hsdns.audit.run import ERROR, LOST, Answers, Result
from hsdns.load.questions import Question
from hsdns.load.verify.judge import EXTRA, RCODE, RIGHT, STALE, UNDECIDED, WRONG, Answer
from hsdns.load.verify.verifier import Verifier
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import srv
from tests.load.output.test_golden import HOSTILE_NAME, SHOWN, page_text
from tests.load.verify.test_verifier import ONE, Said
from tests.support.browser.chromium import PROGRAM, tab

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "audit.schema.json"
GOLDEN = Path(__file__).with_name("golden")
QUESTIONS = [
    Question(Name.from_text(f"{each}.shop.svc.cluster.local."), RRType.A, group)
    for each, group in (("a", "service"), ("b", "service"), ("c", "absent"))
]


class Given(Answers):
    """Answers with results and records that are given."""

    def __init__(self, *results: Result, records: Sequence[RR] = (), asked: int = 3) -> None:
        super().__init__(QUESTIONS, Verifier(Said(), [ONE]), 0)
        self.results = list(results)
        self.asked = asked
        self._given = records

    def records(self, question: int) -> Sequence[RR]:
        return self._given


def a(*addresses: str) -> frozenset[tuple[int, bytes]]:
    return frozenset((RRType.A, ip_address(each).packed) for each in addresses)


RIGHT_ONE = Answer(0, a("10.0.0.1", "10.0.0.2"))


def report(*servers: Answers, right: Answer = RIGHT_ONE, ended: str = "", cluster: str = "test") -> AuditReport:  # fmt: skip
    started = "2026-01-02T03:04:05.000Z"
    done = Pass(started, ended, 1.5, cluster, lambda question: right, 0.1, 30)
    return make_report(QUESTIONS, [(f"10.96.0.{at}", each) for at, each in enumerate(servers, 10)], done)  # fmt: skip


FINE = Result(RIGHT, 0.0, 0.001, 0, 5)
ALL_FINE = Given(FINE, FINE._replace(ttl=30, latency=0.1), FINE)
LAGGING = Given(Result(STALE, 3.0, 0.001, 0, 5), Result(LOST), FINE._replace(latency=0.5))
SRV = srv(0, 50, 5432, Name.from_text("db-0.db.shop.svc.cluster.local."))
HAS = [RR(QUESTIONS[0].name, RRType.A, 5, ip_address(f"10.0.0.{at}").packed) for at in (2, 9)]
REPORTS: dict[str, list[AuditReport]] = {
    "right": [report(ALL_FINE)],
    # Of two stale names the other server answers one right.
    "lagging": [report(Given(FINE, Result(LOST), FINE), LAGGING)],
    "undecided": [report(Given(FINE, Result(UNDECIDED, reason="behind"), FINE))],
    "ttl": [report(Given(FINE._replace(ttl=31, latency=0.101), FINE._replace(ttl=31), FINE))],
    "errors": [report(Given(Result(ERROR, 0.0, 0.001, 2), Result(WRONG, 0.0, 0.001, 3, reason=RCODE), Result(WRONG, 0.0, 0.001, 0, 5, "owner")))],
    "extra": [report(Given(Result(EXTRA, 0.0, 0.001, 0, 5), FINE, FINE, records=HAS))],
    # The weight of an SRV record is not told.
    "srv": [report(Given(Result(WRONG, 0.0, 0.001, 3, reason=RCODE), FINE, FINE), right=Answer(0, frozenset({(RRType.SRV, SRV[:2] + SRV[4:])})))],
    "many": [report(Given(Result(WRONG, 0.0, 0.001, 3, reason=RCODE), FINE, FINE), right=Answer(0, a(*(f"10.0.0.{at}" for at in range(1, 6)))))],
    # What was not asked is no finding.
    "interrupted": [report(Given(FINE, Result(LOST), Result(LOST), asked=1), ended="interrupted")],
    "fleet": [report(ALL_FINE), report(Given(FINE, Result(LOST), FINE), cluster="east")],
    "unread": [report(ALL_FINE), AuditReport(FORMAT, "", "nothing listens there", 0.0, "west", 0, 0, 0, []), *([report(LAGGING)] * 3)],
}  # fmt: skip


def gauges_text(reports: list[AuditReport]) -> str:
    """The samples, after a pass with other findings, of which nothing may be left."""
    gauges = Gauges()
    gauges.update(REPORTS["errors"], 900.0)
    gauges.update(reports, 1000.0)
    text = gauges.registry.to_text().decode()
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def documents() -> dict[str, str]:
    """The contents of all files."""
    found = {f"{name}.txt": "\n".join(lines(each)) + "\n" for name, each in REPORTS.items()}
    found["unread.screen"] = "\n".join(screen(REPORTS["unread"], 50, 16)) + "\n"
    found |= {f"{name}.page": page_text(page(REPORTS[name])) for name in ("right", "lagging", "interrupted", "fleet", "unread")}  # fmt: skip
    values = {name: msgspec.to_builtins(REPORTS[name]) for name in ("lagging", "ttl", "errors", "extra")}  # fmt: skip
    found |= {f"{name}.json": json.dumps(each, indent=1) + "\n" for name, each in values.items()}
    return found | {
        f"{name}.prom": gauges_text(REPORTS[name]) for name in ("lagging", "fleet", "unread")
    }


DOCUMENTS = documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_golden(name: str) -> None:
    assert (GOLDEN / name).read_text() == DOCUMENTS[name]


def test_every_file_is_of_a_report() -> None:
    assert {each.name for each in GOLDEN.iterdir()} == set(DOCUMENTS)


def test_only_so_many_findings_are_listed() -> None:
    answers = Given(*[Result(LOST)] * 1003)
    done = Pass("", "", 1.0, "test", lambda question: None, 0.1, None)
    (server,) = make_report(QUESTIONS[:1] * 1003, [("x", answers)], done).servers
    assert (len(server.findings), server.more, server.bad) == (1000, 3, 1003)


def test_schema() -> None:
    """docs/audit.schema.json is what the report is written by, and read; print it anew if it is not."""
    assert json.loads(SCHEMA.read_text()) == json.loads(json.dumps(msgspec.json.schema(list[AuditReport])))  # fmt: skip
    written = msgspec.json.encode(REPORTS["fleet"])
    assert msgspec.json.decode(written, type=list[AuditReport]) == REPORTS["fleet"]


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_in_a_browser(tmp_path: Path) -> None:
    file = tmp_path / "audit.html"
    found = structs.replace(report(ALL_FINE, LAGGING), cluster=HOSTILE_NAME)
    file.write_text(page([found, *REPORTS["right"]]), encoding="utf-8")
    assert [each for each in WORDS if f"--{COLOURS.get(each, each)}:" not in file.read_text()] == []
    async with tab() as opened:
        await opened.show(390)
        await opened.open(file.as_uri())
        shown = await opened.value(SHOWN)
        assert "a.shop.svc.cluster.local. Astale by 3.0 s; lacks A 10.0.0.1, A 10.0.0.2" in shown  # fmt: skip
        assert [each for each in shown if "</script><script>alert(1)</script>" in each]
        bars = "[...document.querySelectorAll('.bar')].map(each => each.ariaLabel)"
        assert await opened.value(bars) == ["3 right", "1 stale, 1 lost, 1 slow", "3 right"]
        assert await opened.value("document.documentElement.scrollWidth") == 390
        assert opened.complaints == []


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for file, content in DOCUMENTS.items():
        (GOLDEN / file).write_text(content)
