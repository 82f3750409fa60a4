"""The plot and the table of docs/performance.md, made from the tables of docs/contributing/benchmarks.md.

    make pictures

Path: bench.py -> here -> docs/contributing/benchmarks.md, docs/performance.md, docs/performance.svg.
Rule 1: every figure is from the tables of the benchmarks, so it is never newer or older than these.
Rule 2: the axis of the plot is linear and begins at 0, and no bar is cut.
Rule 3: as in docs/pictures/architecture.py, the picture is 480 units wide and has its own background.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.process import BenchmarkError
from loadtest.programs import COREDNS, ECHO, NATIVE, PURE, ROOT, TITLES, configuration

TABLES: Final = ROOT / "docs/contributing/benchmarks.md"
PAGE: Final = ROOT / "docs/performance.md"
PLOT: Final = "performance.svg"
NAME: Final = "summary"  # in the marks of the page
MIX: Final = "cluster"  # the mix of the plot: every kind of query that clients of a cluster send
# Rows of `make bench-watch`, and what the page calls them.
WATCHED: Final = (
    ("write to answer, 10,000 Services", "median, ms", "a change in the API server is in the answers, median, ms"),
    ("write to answer, 10,000 Services", "p99, ms", "the same, p99, ms"),
    ("1,000 changes/s for 20 s, 500 queries/s, 10,000 Services",
     "event to answer, p99, ms", "the same with 1,000 changes per second, p99, ms"),
    ("API server away for 20 s, 10,000 Services",
     "from its return until the state is current, s",
     "the API server returns after 20 s: answers are current after, s"),
    ("10,000 Services", "start to ready, s", "start to ready, 10,000 Services, s"),
    ("10,000 Services", "resident 10 s after ready, MB", "memory, 10,000 Services, MB"),
    ("50,000 Services", "resident 10 s after ready, MB", "memory, 50,000 Services, MB"),
)  # fmt: skip

_WIDTH, _LEFT, _SCALE = 480, 152, 278  # the plot, the axis's 0 and its length
_TOP, _ROW, _BAR = 74, 25, 16
_TICKS = 5  # at most, besides 0
_KINDS: Final = {
    TITLES[ECHO]: "floor",
    TITLES[NATIVE]: "hsdns",
    TITLES[PURE]: "hsdns",
    TITLES[COREDNS]: "peer",
}


class Figures(NamedTuple):
    """Figures as in the tables.  `cpu`: µs for an answer, by server; `watch`: of hsdns and CoreDNS, by row."""

    cpu: dict[str, str]
    watch: dict[tuple[str, str], tuple[str, str]]

    def watched(self, part: str, what: str) -> tuple[str, str]:
        """The figures of hsdns and CoreDNS; raise BenchmarkError if one is missing."""
        found = self.watch.get((part, what), ("", ""))
        if not all(found):
            raise _missing(f'"{what}" of {part} for both servers')
        return found


def figures(page: str) -> Figures:
    """Read the tables of the page; raise BenchmarkError if a server of the page has no figure."""
    section = page.partition(f"\n### {MIX}\n")[2].partition("\n### ")[0]
    cpu = {cells[0]: cells[1] for cells in _rows(section) if re.match(r"\d", cells[1])}
    for key in (ECHO, NATIVE, PURE, COREDNS):
        if TITLES[key] not in cpu:
            raise _missing(f"the drain figure of {TITLES[key]} in {MIX}")
    watch = {(cells[0], cells[1]): (cells[2], cells[3]) for cells in _rows(page) if len(cells) == 5}
    return Figures(cpu, watch)


def _rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]


def _missing(what: str) -> BenchmarkError:
    return BenchmarkError(
        f"the pages are left as they were: their figures need {what}; measure that too, or leave out --write-docs"
    )


def table(found: Figures) -> str:
    """What is compared, the figures of both servers, their ratio, and the command that measures them."""
    cpu, peer = found.cpu, found.cpu[TITLES[COREDNS]]
    rows = [
        ("CPU time of an answer, whole cluster, µs", cpu[TITLES[NATIVE]], peer, "make bench"),
        ("the same without the compiled part, µs", cpu[TITLES[PURE]], peer, "make bench"),
    ]
    for part, what, named in WATCHED:
        rows.append((named, *found.watched(part, what), "make bench-watch"))
    lines = ["| figure | hsdns | CoreDNS | ratio | command |", "| --- | ---: | ---: | ---: | --- |"]
    for named, own, other, command in rows:
        ratio = float(own.replace(",", "")) / float(other.replace(",", ""))
        lines.append(f"| {named} | {own} | {other} | {ratio:.2f} | `{command}` |")
    return "\n".join(lines)


def svg(found: Figures) -> str:
    """Draw the plot: a bar for each server, the cheapest first."""
    cpu = sorted(found.cpu.items(), key=lambda item: float(item[1]))
    step, last = _axis(float(cpu[-1][1]))
    bottom = _TOP + _ROW * len(cpu)
    parts = [
        '<text class="title" x="16" y="28">CPU time of an answer, in microseconds</text>',
        '<text x="16" y="48">queries of a whole cluster; shorter is better; true to scale</text>',
    ]
    for number in range(last + 1):
        x = _LEFT + _SCALE * number / last
        parts.append(
            f'<line class="axis" x1="{x:.2f}" x2="{x:.2f}" y1="{_TOP - 8}" y2="{bottom}"/>'
        )
        parts.append(
            f'<text class="tick" x="{x:.2f}" y="{bottom + 16}" text-anchor="middle">{number * step:g}</text>'
        )
    for row, (title, value) in enumerate(cpu):
        y, width = _TOP + _ROW * row, float(value) / (step * last) * _SCALE
        kind = _KINDS.get(title, "")
        strong = ' class="strong"' if kind in {"hsdns", "peer"} else ""
        named = f"{title} (no DNS)" if kind == "floor" else title
        parts += [
            f'<text{strong} x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(named)}</text>',
            f'<rect class="{f"bar {kind}".strip()}" x="{_LEFT}" y="{y}" width="{width:.2f}" height="{_BAR}">'
            f"<title>{escape(title)}</title></rect>",
            f'<text{strong} x="{_LEFT + width + 5:.2f}" y="{y + 12}">{value}</text>',
        ]
    height, style = bottom + 30, configuration("performance.css")
    size = {"width": _WIDTH, "height": height}
    size |= {f"shown_{name}": units * 5 // 4 for name, units in size.items()}
    body = "\n".join(f"  {part}" for part in parts)
    return configuration("performance.svg", **size, style=style, body=body)


def _axis(longest: float) -> tuple[float, int]:
    """The step between two ticks, and the number of steps: the smallest that reach the longest bar."""
    for exponent in range(-3, 9):
        for digit in (1, 2, 5):
            step = digit * 10.0**exponent
            if step * _TICKS >= longest:
                return step, max(1, -int(-longest // step))
    raise BenchmarkError(f"{longest} µs for an answer cannot be plotted")


def replaced(page: str, name: str, written: str) -> str:
    """Replace the section between the marks of a name; raise BenchmarkError unless each occurs once, in order."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise BenchmarkError(
            f"the page must have the lines {begin} and {end} once each, in this order"
        )
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{written}\n\n{end}{rest.partition(end)[2]}"


def refreshed(page: str, tables: str) -> str:
    """The page with new figures; raise BenchmarkError if the marks or a figure are missing."""
    plot = f"![CPU time of an answer, by server; the first rows of the table below]({PLOT})"
    return replaced(page, NAME, f"{plot}\n\n{table(figures(tables))}")


def write(folder: Path, page: str, tables: str) -> None:
    """Write new tables, the page and its plot into the docs; write nothing if a figure is missing."""
    fresh, plot = refreshed(page, tables), svg(figures(tables))
    (folder / PAGE.name).write_text(fresh)
    (folder / PLOT).write_text(plot)
    (folder / TABLES.parent.name / TABLES.name).write_text(tables)


if __name__ == "__main__":
    write(PAGE.parent, PAGE.read_text(), TABLES.read_text())
