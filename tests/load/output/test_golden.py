"""Whole reports in each of their forms, as files in golden/, buckets, and the page.

`python -m tests.load.output.test_golden` writes them anew; read what has changed.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
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
from hsdns.load.output.page import MOST, columns, comparison_page, page
from hsdns.load.output.perfdata import perfdata
from hsdns.load.output.text import compared_lines, lines
from hsdns.load.output.words import shown_together, since_begin
from hsdns.load.report import KneeReport, KneeStep, Report, encode
from hsdns.load.results import LimitReport, PropagationReport, ServerReport
from hsdns.load.schedule import Stage
from tests.load.test_report import LOOKED_UP, lookups, report, results, stated
from tests.load.verify.test_follow import shown
from tests.support import tables
from tests.support.browser.chromium import PROGRAM, tab

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
    found["everything.perfdata"] = json.dumps(perfdata(REPORTS["everything"]), indent=1) + "\n"
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


# --- the page: it is complete and obeys nothing in its data; and what its script makes of it ---


WHOLE, EVERY = REPORTS["stale"], REPORTS["everything"].servers[0]


def with_servers(*servers: ServerReport) -> Report:
    return replace(WHOLE, servers=[*servers])


def lengthened(found: ServerReport, seconds: int) -> ServerReport:
    """The same seconds again and again."""
    parts = [replace(found.per_second[number % 2], second=number) for number in range(seconds)]
    return replace(found, per_second=parts, seconds=float(seconds))


def test_only_what_is_in_the_file_is_allowed() -> None:
    """The policy has the hash of each script and style, and of nothing else; the licence of uPlot is in the file."""
    text = page(WHOLE)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)">', text)
    rules = dict(each.split(" ", 1) for each in policy.split("; "))
    for element in ("script", "style"):
        contents = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digests = [b64encode(sha256(each.encode()).digest()).decode() for each in contents]
        assert len(digests) == 2
        assert rules.pop(f"{element}-src").split() == [f"'sha256-{each}'" for each in digests]
    assert rules == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert "{{" not in text.replace("{{}}", "")
    assert "The above copyright notice and this permission notice" in text


HOSTILE_NAME = "</script><script>alert(1)</script><!--\x1b[2J\u202e\u2028{{data}}"


def test_names_are_only_text() -> None:
    found = replace(
        with_servers(replace(EVERY, target=HOSTILE_NAME)),
        plan=replace(WHOLE.plan, what=HOSTILE_NAME),
    )
    text = page(found)
    assert re.findall(r"<script.*?>|<!--", text) == re.findall(
        r"<script.*?>|<!--", page(with_servers(EVERY))
    )
    assert [each for each in text if not (each.isprintable() or each == "\n")] == []
    escaped = (
        HOSTILE_NAME.replace("\x1b", r"\u001b")
        .replace("\u202e", r"\u202e")
        .replace("\u2028", r"\u2028")
    )
    assert ["questions", escaped] in data(text)["last"][0][1][1]
    assert f"<title>{html.escape(f'Load on {escaped}')}</title>" in text


def test_a_long_run_is_still_a_small_page() -> None:
    found = lengthened(WHOLE.servers[0], 3600)
    parts = [
        replace(each, slots=Histogram((slot, 1) for slot in range(each.second % 7, 20_000, 97)))
        for each in found.per_second
    ]
    server = replace(found, per_second=parts)
    text = page(with_servers(server))
    assert len(text) < 2_000_000
    assert data(text)["servers"][0]["more"] == 2600
    text = page(with_servers(*[replace(server, name=str(number)) for number in range(6)]))
    assert len(text) < 2_000_000
    assert [each["more"] for each in data(text)["servers"]] == [3434] * 6  # they share the rows


@pytest.mark.parametrize("seconds", [1, 149, 150, 151, 1000])
def test_long_runs_have_wider_columns(seconds: int) -> None:
    found = columns(lengthened(WHOLE.servers[0], seconds))
    assert len(found) <= MOST
    total = sum(
        sum(each["rcodes"].values()) * min(each["seconds"], seconds - each["first"])
        for each in found
    )
    assert total == pytest.approx(seconds * 100)


SHOWN = "[...document.querySelectorAll('h2,h3,p,li,tr,summary')].map(each => each.innerText.replaceAll('\\t', ' | ').replaceAll('\\n', ''))"
EVERYTHING = tables.lines(Path(__file__).with_name("page.txt"))
TWO = [
    *("Load on 2 servers", "Side by side", "stale by at most | 1.00 s | -", "Age of the stalest answer", "one", "two"),
    *("Added: until the first new answer", "Removed: until the last old answer"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
@pytest.mark.parametrize(
    ("found", "texts", "plots"),
    [
        (replace(with_servers(EVERY), knee=KNEE), EVERYTHING, 9),
        (with_servers(replace(EVERY, name="one"), replace(report(results()).servers[0], name="two")), TWO, 18),
        (with_servers(replace(WHOLE.servers[0], per_second=[])), ["Plan and machine"], 0),
        (replace(WHOLE, plan=replace(WHOLE.plan, what="<b>&")), ["questions | <b>&"], 6),
    ],
    ids=["everything", "two", "nothing", "markup"],
)  # fmt: skip
async def test_in_a_browser(found: Report, texts: list[str], plots: int, tmp_path: Path) -> None:
    """Its script shows everything, loads nothing, and is no wider than the window, on a telephone too."""
    file = tmp_path / "report.html"
    file.write_text(page(found), encoding="utf-8")
    async with tab() as opened:
        for width, dark in ((390, False), (900, True)):
            await opened.show(width, dark=dark)
            await opened.open(file.as_uri())
            shown = await opened.value(f"[document.querySelector('h1').innerText, ...{SHOWN}]")
            assert [each for each in texts if each not in shown] == []
            assert await opened.value("document.querySelectorAll('canvas').length") == plots
            assert await opened.value("document.documentElement.scrollWidth") == width
        assert opened.complaints == []
        assert {url.partition(":")[0] for url in opened.asked} == {"file"}


if __name__ == "__main__":
    for file, content in DOCUMENTS.items():
        (GOLDEN / file).write_text(content)
