"""The pages of figures: the beginning of docs/performance.md, and the sections that benchmarks write."""

import re
from pathlib import Path

import pytest

from loadtest import summary
from loadtest.bench import markdown, plain
from loadtest.process import BenchmarkError
from loadtest.summary import PAGE, PLOT, figures, refreshed, svg

BEGIN, END = "<!-- summary: begin -->", "<!-- summary: end -->"
SERVERS = (("C echo", 2.0), ("hsdns, compiled", 2.5), ("hsdns, pure Python", 6.0), ("CoreDNS", 400.25))  # fmt: skip


def made_page(*servers: tuple[str, float], watch: str = "0.5") -> str:
    rows = "".join(f"| {name} | {value} | 1.00 |\n" for name, value in servers)
    watched = "".join(
        f"| {part} | {what} | {watch} | 7 | 1.00 |\n"
        for part, what in (
            ("write to answer, 10,000 Services", "median, ms"),
            ("write to answer, 10,000 Services", "p99, ms"),
            ("10,000 Services", "start to ready, s"),
            ("10,000 Services", "resident 10 s after ready, MB"),
        )
    )
    return (
        f"# A\n\n{BEGIN}\nold\n{END}\n\n### hot\n\n| server | drain µs | least |\n| --- | ---: | ---: |\n"
        f"| C echo | 99.00 | 1.00 |\n\n### cluster\n\n| server | drain µs | least |\n| --- | ---: | ---: |\n{rows}"
        f"\n### next\n\n| part | figure | hsdns | CoreDNS | ratio |\n| --- | --- | ---: | ---: | ---: |\n{watched}"
    )


MADE = made_page(*SERVERS)


def test_the_page_begins_with_what_its_tables_say() -> None:
    page = PAGE.read_text()
    assert refreshed(page) == page, "run: make pictures"
    assert PAGE.with_name(PLOT).read_text() == svg(figures(page)), "run: make pictures"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (made_page(*SERVERS[:-1]), "its beginning needs the drain figure of CoreDNS in cluster;"),
        (made_page(*SERVERS, watch=""), 'needs "median, ms" of write to answer, 10,000 Services for both servers;'),
        (MADE.replace("### cluster", "### other"), "needs the drain figure of C echo in cluster;"),
        (MADE.replace(END, ""), f"the page must have the lines {BEGIN} and {END} once each"),
    ],
    ids=["no CoreDNS", "not watched", "other mix", "no mark"],
)  # fmt: skip
def test_a_page_without_its_figures_is_left_alone(page: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    with pytest.raises(BenchmarkError, match=re.escape(sentence)):
        summary.write(path, page)
    assert list(tmp_path.iterdir()) == []


def test_tables() -> None:
    rows = [["server", "µs", "remark"], ["a", "1.00", ""], ["hsdns", "12.00", "lost"]]
    assert plain(rows) == "server     µs  remark\na        1.00\nhsdns   12.00  lost\n"
    assert markdown(rows).splitlines()[1:3] == ["| --- | ---: | --- |", "| a | 1.00 |  |"]
    assert len({len(line) for line in markdown(rows, padded=True).splitlines()}) == 1
