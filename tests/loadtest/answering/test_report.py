import pytest

from loadtest.answering import report
from loadtest.answering.cli import PAGE
from loadtest.answering.goals import judge
from loadtest.answering.mixes import BY_KEY, DNSPERF, DRAIN, MIXES
from loadtest.answering.results import Results, Sample, WarmUp
from loadtest.process import BenchmarkError

RESULTS = Results(
    [
        Sample("hot", "echo", DRAIN, 0, 4.0, 0.0),
        Sample("hot", "hsdns", DRAIN, 0, 5.0, 0.0),
        Sample("hot", "hsdns", DNSPERF, 0, 6.25, 0.02, 120_000.0, 60.4, 900.0),
        Sample("hot", "knot", DRAIN, 0, 8.0, 0.87),
    ],
    [WarmUp("hot", "knot", 1000, 10, 5, 208.4)],
)
SETTING = report.Setting(
    "make bench",
    "2 cores",
    "2025-01-02",
    [("C echo", "cc 12"), ("Knot DNS", "3.2")],
    ["CoreDNS: is not on PATH"],
)
TABLE = """\
server           drain µs  least  / echo  dnsperf µs  / echo  answers/s  p50 µs  p99 µs  octets  remarks
C echo               4.00   4.00    1.00
hsdns, compiled      5.00   5.00    1.25        6.25            120,000      60     900          dnsperf: lost 2.0%
Knot DNS             8.00   8.00    2.00                                                    208  drain: kept 13%; 0.5% answered differently; 1.0% unanswered
"""


def test_table() -> None:
    assert report.plain(report.mix_rows(RESULTS, BY_KEY["hot"])) == TABLE


def test_a_page_has_the_same_cells() -> None:
    rows = report.mix_rows(RESULTS, BY_KEY["hot"])
    lines = report.markdown(rows).splitlines()
    assert [line.strip("| ").split(" | ")[0] for line in lines] == [
        "server",
        "---",
        "C echo",
        "hsdns, compiled",
        "Knot DNS",
    ]
    assert {line.count("|") for line in lines} == {len(rows[0]) + 1}


def test_mixes_without_figures_are_left_out() -> None:
    text = report.text(RESULTS, MIXES, [])
    assert text.startswith("hot: 1,000 headless Services")
    assert "tcp" not in text


def test_the_section_says_what_a_reader_must_know() -> None:
    verdicts = judge(RESULTS, ["hot"], ["hsdns", "echo", "knot"])
    section = report.section(RESULTS, MIXES, verdicts, SETTING)
    for part in (
        "The figures are those of this run:\n\n- command: `make bench`",
        "- machine: 2 cores",
        "- Knot DNS: 3.2",
        "- missing: CoreDNS: is not on PATH",
        "| compiled, a hit: Knot DNS | 0.62 | drain |",
        "### hot\n\n1,000 headless Services, A records of 10 endpoints.\n\n| server |",
    ):
        assert part in section


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = f"# A\n\n{report.BEGIN}\nold\n{report.END}\n\n## B\n"
    once = report.replaced(page, "new")
    assert once == f"# A\n\n{report.BEGIN}\n\nnew\n\n{report.END}\n\n## B\n"
    assert report.replaced(once, "new") == once


@pytest.mark.parametrize(
    "page",
    ["", report.BEGIN, report.END + report.BEGIN, 2 * (report.BEGIN + report.END)],
    ids=["none", "open", "turned", "twice"],
)
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(BenchmarkError, match="once each"):
        report.replaced(page, "new")


def test_the_page_of_the_tree_has_its_marks() -> None:
    assert "new" in report.replaced(PAGE.read_text(), "new")
