"""The beginning of docs/performance.md: one plot and three sentences, made from the tables of the page.

    make pictures

Path: bench.py -> here -> docs/performance.md, docs/performance.svg.
Rule 1: every figure is from the tables, so the beginning is never newer or older than these.
Rule 2: the axis of the plot is linear and begins at 0, and no bar is cut.
Rule 3: the sentences only compare figures, so they stay true whichever server needs less.
Rule 4: as in docs/pictures/architecture.py, the picture is 480 units wide and has its own background.
"""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.process import BenchmarkError
from loadtest.programs import COREDNS, ECHO, NATIVE, PURE, ROOT, TITLES, configuration

PAGE: Final = ROOT / "docs/performance.md"
PLOT: Final = "performance.svg"
NAME: Final = "summary"  # in the marks of the page
MIX: Final = "cluster"  # the mix of the plot: every kind of query that clients of a cluster send
SERVICES: Final = "10,000 Services"  # the size of the cluster in the sentences

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
    """Read the tables of the page; raise BenchmarkError if a server of the sentences has no figure."""
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
        f"the page is left as it was: its beginning needs {what}; measure that too, or leave out --write-docs"
    )


def sentences(found: Figures) -> str:
    """Three sentences that compare figures of the tables."""
    median, late = (
        found.watched(f"write to answer, {SERVICES}", f"{each}, ms") for each in ("median", "p99")
    )
    ready = found.watched(SERVICES, "start to ready, s")
    memory = found.watched(SERVICES, "resident 10 s after ready, MB")
    cpu = found.cpu
    three = (
        f"For the queries of a [whole cluster](#{MIX}), an answer costs hsdns {cpu[TITLES[NATIVE]]} µs of CPU time"
        f" ({cpu[TITLES[PURE]]} µs without its compiled part) and CoreDNS {cpu[TITLES[COREDNS]]} µs; sending datagrams"
        f" of the same length without any DNS costs {cpu[TITLES[ECHO]]} µs.",
        f"A change in the API server is [in the answers](#latency) of hsdns after {median[0]} ms in the median"
        f" (p99 {late[0]} ms), in those of CoreDNS after {median[1]} ms (p99 {late[1]} ms).",
        f"With {SERVICES}, hsdns is [ready](#start) {ready[0]} s after its start and uses {memory[0]} MB of memory;"
        f" CoreDNS {ready[1]} s and {memory[1]} MB.",
    )
    return "\n".join(
        textwrap.fill(
            f"- {each}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        for each in three
    )


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


def refreshed(page: str) -> str:
    """The page with a new beginning; raise BenchmarkError if the marks or a figure are missing."""
    found = sentences(figures(page))
    written = f"![CPU time of an answer, by server; the table is below]({PLOT})\n\n{found}"
    return replaced(page, NAME, written)


def write(path: Path, page: str) -> None:
    """Write a page with new tables, its beginning and its plot; write nothing if a figure is missing."""
    fresh, plot = refreshed(page), svg(figures(page))
    path.write_text(fresh)
    path.with_name(PLOT).write_text(plot)


if __name__ == "__main__":
    write(PAGE, PAGE.read_text())
