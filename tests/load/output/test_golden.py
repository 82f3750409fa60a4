"""Whole reports in each of their forms, as files in golden/, and buckets.

`python -m tests.load.output.test_golden` writes them anew; read what has changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import generate_latest

from hsdns.load.counters import CLOSED, SPENT, ConnectionsReport
from hsdns.load.histogram import Histogram, Percentile, slot_of
from hsdns.load.output.ci import junit, markdown
from hsdns.load.output.exposition import BOUNDS, Picture, buckets, sum_of
from hsdns.load.output.page import comparison_page, page
from hsdns.load.output.text import compared_lines, lines
from hsdns.load.output.words import shown_together, since_begin
from hsdns.load.report import KneeReport, KneeStep, Report, encode
from hsdns.load.results import LimitReport, PropagationReport
from hsdns.load.schedule import Stage
from tests.load.test_report import LOOKED_UP, lookups, report, results, stated
from tests.load.verify.test_follow import shown

GOLDEN = Path(__file__).parent / "golden"
MS = 1_000_000
HOSTILE = "</script><b>&| `x` [a](b)\n# c\x1b[2J\u202e"


def with_plan(found: Report, **changes: Any) -> Report:
    return replace(found, plan=replace(found.plan, **changes))


def with_server(found: Report, **changes: Any) -> Report:
    return replace(found, servers=[replace(found.servers[0], **changes)])


def step(rate: float, outcome: str, us: int | None) -> KneeStep:
    latency = [Percentile("p50", 100), Percentile("p99", us, "" if us else "lost")]
    return KneeStep(rate, 2, outcome, 10_000, 0 if us else 200, latency, [Percentile("p99", 12)])


STALE = report(results(lost=2, stale=True), "stale>0,p50>1s")
LATE = report(results(late=5), "p50>1s", ended="interrupted")
CONNECTIONS = ConnectionsReport(
    4, 4, {"<refused>": 1}, {SPENT: 3, CLOSED: 1}, {"HTTP status 503": 1}, 1, 1, 2, slots=Histogram([(slot_of(2000), 3), (slot_of(900_000), 1)])
).finish()  # fmt: skip
STEPS = [step(1000, "held", 300), step(4000, "broken", None), step(3000, "generator", 9000)]
KNEE = KneeReport(True, 2000, 2010, "the knee is at 2000 queries a second", ["p99>5ms"], STEPS)
ABOVE = KneeReport(False, 2000, None, "the knee is above the ceiling", ["p99>5ms"], [])
KNEE_LIMITS = [
    LimitReport("knee<5000", None),
    LimitReport("knee>9", False, rate=6000.5),
    LimitReport("p50>1s", None),
]
# A server of which everything was measured.
RICH = with_server(
    STALE,
    lookups=stated(lookups(*LOOKED_UP)),
    propagation=PropagationReport.of([shown(), shown(20.0, None, at=101.0)], 2),
    connections=CONNECTIONS,
)
NOT_SENT = results()
NOT_SENT.second(0).counts.not_send(20)
REPORTS = {
    "good": report(results()),
    "stale": STALE,
    "late": LATE,
    "everything": replace(RICH, knee=KNEE),
    "no-knee": replace(with_server(LATE, limits=KNEE_LIMITS, ended=""), knee=ABOVE),
    "two-servers": report(results(), "stale>0", frozen=results(lost=2, stale=True)),
    "no-changes-followed": report(results(), propagation=PropagationReport.of([], 0)),
    "not-sent": report(NOT_SENT, "loss>0"),
    "not-judged": report(results(), slack=None),
    "hostile": with_plan(with_server(RICH, target=HOSTILE), what=HOSTILE),
    "plan": replace(
        with_plan(
            report(results()), stages=[Stage(1, 5, 10), Stage(2, 7, 7)], arrival="burst", burst=5, part="0/2", churn=20.0,
            churn_kinds={"scale": 2, "ready": 1}, probes=100.0, edns=1232,
        ),
        generators=3,
    ),
}  # fmt: skip
RUNS = [("a", REPORTS["two-servers"]), ("b", with_plan(LATE, seed=8, churn=20.0))]


def data(text: str) -> Any:
    """The data in a page."""
    (found,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(found)


def page_text(text: str) -> str:
    """The data in a page, a line for each part of it and of its servers."""
    found = []
    for name, value in data(text).items():
        for part in value if name == "servers" else [value]:
            rows = part.items() if name == "servers" else [(name, part)]
            found += [f"{row}: {json.dumps(each, ensure_ascii=False)}" for row, each in rows]
    return "\n".join(found) + "\n"


FORMS: dict[str, Callable[[Report], str]] = {
    "txt": lambda found: "\n".join(lines(found)) + "\n",
    "md": markdown,
    "xml": junit,
    "page": lambda found: page_text(page(found)),
}
IN_A_PAGE = ("good", "late", "everything", "no-knee", "plan")


def documents() -> dict[str, str]:
    """The contents of all files."""
    found = {
        f"{name}.{form}": write(each)
        for name, each in REPORTS.items()
        for form, write in FORMS.items()
        if form in ("md", "xml") or name in IN_A_PAGE or (form == "txt" and name != "hostile")
    }
    together = shown_together(RUNS)
    found["compared.txt"] = "\n".join(compared_lines(together)) + "\n"
    found["compared.page"] = page_text(comparison_page(together))
    servers = {"a": results(lost=2), "b": results(stale=True)}
    limits = {"b": {"p99>5ms": True, "loss>1%": False, "p50>1s": None}}
    for name, picture in (
        ("stale", Picture(servers, 1.5, limits)),
        ("late", Picture({"a": results(late=5)}, 2.0)),
    ):
        found[f"{name}.prom"] = generate_latest(picture).decode()
    found["stale.json"] = json.dumps(json.loads(encode(STALE)), indent=1) + "\n"
    return found


DOCUMENTS = documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_golden(name: str) -> None:
    assert (GOLDEN / name).read_text() == DOCUMENTS[name]


def test_every_file_is_of_a_report() -> None:
    assert {each.name for each in GOLDEN.iterdir()} == set(DOCUMENTS)


def test_a_time_before_the_begin() -> None:
    assert [since_begin(each) for each in (-1.5, 0.25)] == ["1.500 s before the begin", "0.250 s"]


if __name__ == "__main__":
    for file, content in DOCUMENTS.items():
        (GOLDEN / file).write_text(content)


# --- buckets ---


@given(st.lists(st.integers(0, 20_000_000)))
def test_buckets(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    found = buckets(histogram)
    counts = [count for _, count in found]
    assert counts == sorted(counts)
    assert [text for text, _ in found] == [*(f"{bound / 1e6:g}" for bound in BOUNDS), "+Inf"]
    assert counts[-1] == len(values)
    for bound, count in zip(BOUNDS, counts, strict=False):
        # A slot across a bound counts above it.
        assert sum(value <= bound * 0.999 for value in values) <= count
        assert count <= sum(value <= bound for value in values)
    assert sum(values) / 1e6 <= sum_of(histogram) <= sum(values) * 1.001 / 1e6 + 1e-6
