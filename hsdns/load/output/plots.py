"""The plots of a report: answers by rcode, latencies, the slowest share, and staleness.

Path: page.py -> here, with the columns of columns.py -> svg.py; beside.py draws several servers in one plot.
Rule: plots of several servers have the same axes: `beside` are the columns of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import floor, log2
from typing import Final

from hsdns.load.histogram import Histogram, highest_in, us_to_text
from hsdns.load.output import svg
from hsdns.load.output.columns import BAD, KNOWN, OTHER, SHOWN, Column, span
from hsdns.load.output.words import age as oldest
from hsdns.load.report import ServerReport

HEIGHT: Final = 240
LEVELS: Final = 8  # shades of the heat map
BANDS: Final = 4  # of the heat map, for each doubling of the latency

Shapes = list[tuple[float, float, float, float]]


Columns = Sequence[Column]


def time_scale(beside: Sequence[Columns]) -> svg.Scale:
    """The scale of seconds since the start, for the longest run."""
    end = max(found[-1].first + found[-1].seconds for found in beside)
    return svg.Scale(0, end, svg.LEFT, svg.WIDTH - svg.RIGHT)


def time_axis(x: svg.Scale, bottom: float) -> str:
    """The ticks of the time axis."""
    values = [(each, f"{each:g}") for each in svg.ticks(x.low, x.high, 10)]
    return svg.axis_x(x, values, bottom, "seconds since the start")


def _hints(found: Sequence[Column], x: svg.Scale, bottom: float, texts: Sequence[str]) -> str:
    placed = [
        (x(each.first), x(each.first + each.seconds) - x(each.first), f"{span(each)}: {text}")
        for each, text in zip(found, texts, strict=True)
    ]
    return svg.hints(placed, bottom)


def power(us: float) -> str:
    """A power of ten, in a suitable unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size * 0.999:
            return f"{us / size:g} {unit}"
    return f"{us:g} us"


def _stacked(
    found: Sequence[Column],
    values: Sequence[dict[str, float]],
    names: Sequence[str],
    x: svg.Scale,
    y: svg.Scale,
    prefix: str,
) -> str:
    shapes: dict[str, Shapes] = {name: [] for name in names}
    for column, counts in zip(found, values, strict=True):
        left, base = x(column.first), 0.0
        width = max(x(column.first + column.seconds) - left - 0.5, 0.5)
        for name in names:
            if counts[name]:
                top = y(base + counts[name])
                shapes[name].append((left, top, width, y(base) - top))
                base += counts[name]
    return "".join(svg.rectangles(shapes[name], f"{prefix}{name.lower()}") for name in names)


def answers(found: Columns, beside: Sequence[Columns]) -> str:
    """Replies per second by rcode, and lost queries, stacked."""
    bottom = HEIGHT - svg.BOTTOM
    x = time_scale(beside)
    high = max(max(sum(each.rcodes.values()) for each in chain(*beside)) * 1.05, 1.0)
    y = svg.Scale(0, high, bottom, svg.TOP)
    texts = [
        ", ".join(f"{name} {rate:.0f}/s" for name, rate in each.rcodes.items() if rate) or "nothing"
        for each in found
    ]
    return svg.drawing(
        HEIGHT,
        "Answers a second by rcode",
        "Each column is a second or more of the run; the table below has the numbers.",
        (
            svg.axis_y(y, [(each, f"{each:g}") for each in svg.ticks(0, high, 5)], "answers a second"),
            time_axis(x, bottom),
            _stacked(found, [each.rcodes for each in found], (*KNOWN, OTHER), x, y, "rcode "),
            _hints(found, x, bottom, texts),
        ),
    )  # fmt: skip


def band_of(us: int) -> int:
    """The band of the heat map that a latency is in."""
    return floor(log2(max(us, 1)) * BANDS)


def heat(found: Columns, beside: Sequence[Columns]) -> str:
    """A heat map of latencies over time, darker for more answers; with percentiles, and the generator's lateness."""
    height, bottom = HEIGHT + 60, HEIGHT + 60 - svg.BOTTOM
    x = time_scale(beside)
    all_slots = [slot for each in chain(*beside) for slot, _ in each.latency.items()]
    least = highest_in(min(all_slots, default=10))
    low, high = svg.decades(max(least, 1), highest_in(max(all_slots, default=100)) + 1)
    y = svg.Scale(low, high, bottom, svg.TOP, log=True)
    counts: list[dict[int, float]] = []
    for column in found:
        bands: dict[int, float] = {}
        for slot, count in column.latency.items():
            band = band_of(highest_in(slot))
            bands[band] = bands.get(band, 0.0) + count
        counts.append(bands)
    most = max((count for bands in counts for count in bands.values()), default=1.0)
    shapes: list[Shapes] = [[] for _ in range(LEVELS)]
    for column, bands in zip(found, counts, strict=True):
        left = x(column.first)
        width = x(column.first + column.seconds) - left
        for band, answered in bands.items():
            top, base = y(2.0 ** ((band + 1) / BANDS)), y(2.0 ** (band / BANDS))
            level = floor(log2(1 + answered) / log2(1 + most) * LEVELS)
            shapes[min(LEVELS - 1, level)].append((left, top, width, base - top))
    lines = []
    for name, style in (*SHOWN, ("late", "late")):
        points = [
            None
            if (us := each.figures[name]) is None
            else (x(each.first + each.seconds / 2), y(max(us, low)))
            for each in found
        ]
        lines.append(svg.polyline(points, style))
    texts = [
        ", ".join(f"{name} {'left out' if us is None else us_to_text(us)}" for name, us in each.figures.items())
        for each in found
    ]  # fmt: skip
    return svg.drawing(
        height,
        "Latencies over time",
        "The darker, the more answers. Lines are percentiles, the dashed one is the generator's lateness.",
        (
            svg.axis_y(y, [(each, power(each)) for each in svg.log_ticks(low, high)], "latency"),
            time_axis(x, bottom),
            *(svg.rectangles(each, f"heat l{level}") for level, each in enumerate(shapes)),
            *lines,
            _hints(found, x, bottom, texts),
        ),
    )  # fmt: skip


def slowest_points(histogram: Histogram, lost: int) -> list[tuple[float, int]]:
    """For each latency, the share of all queries, including lost ones, that took longer; the largest share first."""
    total, passed, found = histogram.total + lost, 0, []
    for slot, count in histogram.pairs():
        found.append(((total - passed) / total, highest_in(slot)))
        passed += count
    return found


def whole_latency(report: ServerReport) -> Histogram:
    """The histogram of latencies of all seconds."""
    whole = Histogram()
    for each in report.per_second:
        whole.merge(Histogram(each.slots))
    return whole


def slowest(report: ServerReport) -> str:
    """A plot of the latency exceeded by the slowest share of the queries, both on logarithmic axes."""
    bottom = HEIGHT - svg.BOTTOM
    points = slowest_points(whole_latency(report), report.counts.lost)
    if not points:
        return ""
    total, lost = report.counts.sent, report.counts.lost
    low_share, _ = svg.decades(1 / max(total, 10), 1)
    x = svg.Scale(low_share, 1.0, svg.WIDTH - svg.RIGHT, svg.LEFT, log=True)
    low, high = svg.decades(max(points[0][1], 1), points[-1][1] + 1)
    y = svg.Scale(low, high, bottom, svg.TOP, log=True)
    late = [
        (x(max(low_share, 1 - float(each.name[1:]) / 100)), y(max(each.us, low)))
        for each in report.lateness
        if each.us is not None and each.name != "max"
    ]
    steps = slowest_line(points, lost / total, x, y)
    first = next((each for each in report.latency if each.why == "generator"), None)
    refused = ""
    if first is not None:
        begin = x(1 - float(first.name[1:]) / 100) if first.name != "max" else svg.WIDTH - svg.RIGHT
        refused = svg.rectangles([_right_of(begin, bottom)], "refused")
    if lost:
        end = x(max(lost / total, low_share))
        refused += svg.rectangles([_right_of(end, bottom)], "rcode lost faint")
    return svg.drawing(
        HEIGHT,
        "Latency against the slowest share",
        "At 1 % is the latency that the slowest hundredth exceeded; the dashed line is the generator's lateness.",
        (
            *axes_of_slowest(x, y, bottom),
            refused,
            svg.polyline(steps, "p50"),
            svg.polyline(late, "late"),
        ),
    )  # fmt: skip


def axes_of_slowest(x: svg.Scale, y: svg.Scale, bottom: float) -> tuple[str, str]:
    """The axes of a drawing of latency against the slowest share."""
    shares = [(each, f"{each * 100:g} %") for each in svg.log_ticks(x.low, x.high)]
    powers = [(each, power(each)) for each in svg.log_ticks(y.low, y.high)]
    return (
        svg.axis_y(y, powers, "latency"),
        svg.axis_x(x, shares, bottom, "the slowest share of all queries"),
    )


def slowest_line(
    points: Sequence[tuple[float, int]], lost: float, x: svg.Scale, y: svg.Scale
) -> list[tuple[float, float] | None]:
    """The steps of a line through slowest_points(); `lost` is the share at which it ends."""
    steps: list[tuple[float, float] | None] = []
    for (share, us), (after, _) in zip(points, [*points[1:], (lost, 0)], strict=True):
        steps += [(x(share), y(us)), (x(max(after, x.low)), y(us))]
    return steps


def _right_of(x: float, bottom: float) -> tuple[float, float, float, float]:
    return x, svg.TOP, svg.WIDTH - svg.RIGHT - x, bottom - svg.TOP


def staleness(found: Columns, beside: Sequence[Columns]) -> str:
    """Answers that were not right, the age of the stalest one, and the changes of the cluster, over time."""
    first, second = 150, 290
    height = second + svg.BOTTOM + 70
    x = time_scale(beside)
    every = list(chain(*beside))
    high = max(max(sum(each.verdicts.values()) for each in every) * 1.05, 1.0)
    y = svg.Scale(0, high, first, svg.TOP)
    ages = [each.worst_age_ms for each in every if each.worst_age_ms]
    low_age, high_age = svg.decades(min(ages, default=100.0), max(ages, default=1000.0) + 1)
    age = svg.Scale(low_age, high_age, second, first + 20, log=True)
    most = max(max(each.changes for each in every), 1.0)
    events = svg.Scale(0, most, second + 50, second + 15)
    dots: list[tuple[float, float] | None] = [
        (x(each.first + each.seconds / 2), age(each.worst_age_ms)) if each.worst_age_ms else None
        for each in found
    ]
    changed = [
        (left, events(each.changes), max(right - left - 0.5, 0.5), events(0) - events(each.changes))
        for each in found
        if each.changes
        for left, right in [(x(each.first), x(each.first + each.seconds))]
    ]
    texts = [
        ", ".join(
            [f"{word} {rate:.0f}/s" for word, rate in each.verdicts.items() if rate]
            + ([f"stalest {oldest(each.worst_age_ms)}"] if each.worst_age_ms else [])
            + [f"{each.changes:.0f} changes/s"]
        )
        for each in found
    ]
    return svg.drawing(
        height,
        "Answers that were not right, over time",
        "Above, answers by verdict; in the middle, the age of the stalest answer; below, changes of the cluster.",
        (
            svg.axis_y(y, [(each, f"{each:g}") for each in svg.ticks(0, high, 3)], "not right, a second"),
            svg.axis_y(age, [(each, power(each * 1000)) for each in svg.log_ticks(low_age, high_age)], "stalest"),
            svg.axis_y(events, [(0, "0"), (most, f"{most:.0f}")], "changes"),
            time_axis(x, second + 50),
            _stacked(found, [each.verdicts for each in found], BAD, x, y, "verdict "),
            svg.polyline(dots, "stale"),
            svg.rectangles(changed, "changes"),
            _hints(found, x, second + 50, texts),
        ),
    )  # fmt: skip
