"""The connections of a server on a page: how long set-ups took as bars, with a table, and how connections ended.

Path: topics.py -> here -> svg.py, markup.py.
Rule 1: a bar is a quarter of a doubling wide; its height is the number of connections that were set up in that time.
Rule 2: plots of several servers have the same axes: `beside` are the reports of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hsdns.load.histogram import highest_in, us_to_text
from hsdns.load.output import svg
from hsdns.load.output.markup import figure, legend, paragraph, table
from hsdns.load.output.plots import BANDS, HEIGHT, band_of, power
from hsdns.load.output.words import share
from hsdns.load.results import ConnectionsReport

TITLE: Final = "How long set-ups took"
_STYLE: Final = "rcode noerror"
_MOST_TICKS: Final = 4


def connections(found: ConnectionsReport, beside: Sequence[ConnectionsReport], title: str) -> str:
    """The section about connections; `title` is the plot's title for screen readers."""
    drawn, key = _plot(found, beside), legend([(_STYLE, "connections that were set up")])
    return paragraph(_told(found)) + figure(title, drawn, key) + _setup(found) + _ends(found)


def _told(found: ConnectionsReport) -> str:
    words = [f"{found.opened} connections were opened, {found.most_open} at once at most"]
    if found.fell:
        words.append(f"truncated answers that needed one: {found.fell}")
    if found.asked_again:
        words.append(
            f"queries asked again, because their connection had ended: {found.asked_again}"
        )
    if found.late:
        words.append(f"replies that came too late: {found.late}")
    return (
        f"{'; '.join(words)}. Set-ups run from the wish for a connection until it can take a query."
    )


def _bars(found: ConnectionsReport) -> Counter[int]:
    """Set-ups by band."""
    bars: Counter[int] = Counter()
    for slot, count in found.slots:
        bars[band_of(highest_in(slot))] += count
    return bars


def _until(band: int) -> float:
    """The end of a band, in microseconds."""
    return float(2.0 ** ((band + 1) / BANDS))


def _plot(found: ConnectionsReport, beside: Sequence[ConnectionsReport]) -> str:
    every = [bars for each in (found, *beside) if (bars := _bars(each))]
    if not found.slots:
        return ""
    bottom = HEIGHT - svg.BOTTOM
    bands = [band for bars in every for band in bars]
    low, high = svg.decades(max(_until(min(bands) - 1), 1), _until(max(bands)))
    x = svg.Scale(low, high, svg.LEFT, svg.WIDTH - svg.RIGHT, log=True)
    most = max(max(bars.values()) for bars in every) * 1.05
    y = svg.Scale(0, most, bottom, svg.TOP)
    shapes, hints = [], []
    for band, count in sorted(_bars(found).items()):
        left, right = x(_until(band - 1)), x(_until(band))
        width = max(right - left - 0.5, 0.5)
        shapes.append((left, y(count), width, bottom - y(count)))
        hints.append((left, width, f"{_span(band)}: {count}"))
    ticks = [each for each in svg.ticks(0, most, _MOST_TICKS) if each == round(each)]
    return svg.drawing(
        HEIGHT,
        TITLE,
        "The axis of times is logarithmic; the height of a bar is how many connections took so long to set up.",
        (
            svg.axis_y(y, [(each, f"{each:.10g}") for each in ticks], "connections"),
            svg.axis_x(
                x, [(each, power(each)) for each in svg.log_ticks(low, high)], bottom, "set up in"
            ),
            svg.rectangles(shapes, _STYLE),
            svg.hints(hints, bottom),
        ),
    )


def _span(band: int) -> str:
    return f"{us_to_text(_until(band - 1))} to {us_to_text(_until(band))}"


def _setup(found: ConnectionsReport) -> str:
    if not found.slots:
        return ""
    names = [each.name for each in found.setup]
    figures = ["-" if each.us is None else us_to_text(each.us) for each in found.setup]
    passed, rows = 0, []
    for band, count in sorted(_bars(found).items()):
        passed += count
        rows.append((_span(band), count, f"{passed / found.opened:.1%}"))
    shown = table("What the plot shows", ("set up in", "connections", "so far"), rows)
    return (
        table("", ("", *names), [("set up in", *figures)])
        + f"<details><summary>Table of {len(rows)} bars</summary>{shown}</details>"
    )


def _ends(found: ConnectionsReport) -> str:
    """How connections ended, by reason."""
    groups = (
        ("ended", found.ended, found.opened),
        ("not opened", found.not_opened, found.opened + sum(found.not_opened.values())),
        ("query without an answer", found.without_answer, 0),
    )
    rows = [
        (f"{what}: {why}", share(count, whole))
        for what, counts, whole in groups
        for why, count in counts.items()
    ]
    return table("What became of connections", ("", "how many"), rows) if rows else ""
