"""The plot and the table of docs/performance.md, made from the tables of docs/contributing/benchmarks.md.

    make pictures

Path: bench.py -> here -> docs/contributing/benchmarks.md, docs/performance.md, docs/performance.svg.
Rule 1: every figure is from the tables of the benchmarks, so it is never newer or older than these; summary.txt says
        which.
Rule 2: the axis of the plot is linear and begins at 0, and no bar is cut.
Rule 3: as in docs/pictures/architecture.py, the picture is 480 units wide and has its own background.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

from loadtest.figures import ratio, read_goals
from loadtest.process import BenchmarkError
from loadtest.programs import COREDNS, ECHO, NATIVE, PURE, ROOT, TITLES, configuration

TABLES: Final = ROOT / "docs/contributing/benchmarks.md"
PAGE: Final = ROOT / "docs/performance.md"
PLOT: Final = "performance.svg"
DRAINED: Final = (
    "cluster",
    "drain µs",
)  # of the plot: every kind of query that clients of a cluster send
NAME: Final = "summary"  # in the marks of the page
ROWS: Final = read_goals(Path(__file__).with_suffix(".txt"), 5)

_WIDTH, _LEFT, _SCALE = 480, 152, 278  # the plot, the axis's 0 and its length
_TOP, _ROW, _BAR = 74, 25, 16
_TICKS = 5  # at most, besides 0
_KINDS: Final = {
    TITLES[ECHO]: "floor",
    TITLES[NATIVE]: "hsdns",
    TITLES[PURE]: "hsdns",
    TITLES[COREDNS]: "peer",
}
_BOTH: Final = TITLES[NATIVE], TITLES[COREDNS]


# Of a part and its figure: a cell for each server.
Figures = Mapping[tuple[str, str], Mapping[str, str]]


def figures(page: str) -> Figures:
    """Read the tables of the page; raise BenchmarkError if a server of the plot has no figure."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for section in page.split("\n### "):
        name, head = section.partition("\n")[0], [""]
        for line in section.splitlines():
            cells = _cells(line)
            if not line.startswith("| "):
                head = [""]  # of the next table
            elif head == [""]:
                head = cells
            elif line.startswith("| ---"):
                continue
            elif head[0] == "part":
                found[cells[0], cells[1]] = dict(zip(_BOTH, cells[2:4], strict=True))
            elif head[0] == "ratio":
                found[name, cells[0]] = {TITLES[NATIVE]: cells[1]}
            elif head[0] == "server":
                for title, cell in zip(head[1:], cells[1:], strict=True):
                    # Servers are columns, or lines.
                    turned = title in TITLES.values()
                    what, server = (cells[0], title) if turned else (title, cells[0])
                    found.setdefault((name, what), {})[server] = cell
    missing = [title for title in _KINDS if not found.get(DRAINED, {}).get(title)]
    if missing:
        raise _missing(f"the drain figure of {missing[0]} in {DRAINED[0]}")
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _missing(what: str) -> BenchmarkError:
    return BenchmarkError(
        f"the pages are left as they were: their figures need {what}; measure that too, or leave out --write-docs"
    )


def table(found: Figures, before: str = "") -> str:
    """What is compared, the figures of both servers, their ratio, and the command that measures them.

    What no run has measured yet has no line.  Raise BenchmarkError if the table `before` has a figure that is missing.
    """
    lines = ["| figure | hsdns | CoreDNS | ratio | command |", "| --- | ---: | ---: | ---: | --- |"]
    known = {cells[0]: cells[1:3] for cells in map(_cells, before.splitlines()) if len(cells) == 5}
    for part, what, named, command, key in ROWS:
        by = found.get((part, what), {})
        own, other = pair = [_last(by.get(TITLES[each], "")) for each in (key or NATIVE, COREDNS)]
        if any(was and not now for was, now in zip(known.get(named, pair), pair, strict=True)):
            raise _missing(f'"{what}" of {part} for both servers')
        if own:
            share = ratio(_number(own), _number(other)) if other else None
            shown = "" if share is None else f"{share:.2f}"
            lines.append(f"| {named} | {own} | {other} | {shown} | `{command}` |")
    return "\n".join(lines)


def _last(cell: str) -> str:
    """The number of a cell: of "0.1 → 0.3 (99%)" that under pressure."""
    return cell.rpartition("→")[2].strip().partition(" ")[0]


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


def svg(found: Figures) -> str:
    """Draw the plot: a bar for each server, the cheapest first."""
    drained = [(title, cell) for title, cell in found[DRAINED].items() if cell]
    cpu = sorted(drained, key=lambda item: float(item[1]))
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
    return replaced(page, NAME, f"{plot}\n\n{table(figures(tables), page)}")


def write(folder: Path, page: str, tables: str) -> None:
    """Write new tables, the page and its plot into the docs; write nothing if a figure is missing."""
    fresh, plot = refreshed(page, tables), svg(figures(tables))
    (folder / PAGE.name).write_text(fresh)
    (folder / PLOT).write_text(plot)
    (folder / TABLES.parent.name / TABLES.name).write_text(tables)


if __name__ == "__main__":
    write(PAGE.parent, PAGE.read_text(), TABLES.read_text())
