"""Plots of how long changes took to show: dots over time, and the share that had shown after each time.

Path: topics.py, page.py -> here -> svg.py.
Rule 1: a change that did not show is above all others, at "never".
Rule 2: at most MOST dots are drawn, an even selection; the JSON report has more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hsdns.load.output import svg
from hsdns.load.output.plots import HEIGHT, power, time_axis
from hsdns.load.report import EventReport, PropagationReport

MOST: Final = 400
_LOW: Final = 0.1  # milliseconds; lower values are drawn here
_NEVER: Final = 30  # pixels for changes that did not show
Value = Callable[[EventReport], float | None]


def first_new(event: EventReport) -> float | None:
    """Milliseconds until the first new answer."""
    return event.first_new_ms


def last_old(event: EventReport) -> float | None:
    """Milliseconds until the last old answer."""
    return event.last_old_ms


def _highest(beside: Sequence[PropagationReport]) -> float:
    every = [
        value
        for found in beside
        for event in found.events
        for value in (event.first_new_ms, event.last_old_ms)
        if value is not None
    ]
    return svg.decades(_LOW, max([*every, 10.0]))[1]


def dots(found: PropagationReport, beside: Sequence[PropagationReport], end: float) -> str:
    """A plot of each change at its time, with its first new and last old answer; "" if there are none."""
    if not found.events:
        return ""
    bottom = HEIGHT - svg.BOTTOM
    x = svg.Scale(0, end, svg.LEFT, svg.WIDTH - svg.RIGHT)
    y = svg.Scale(_LOW, _highest(beside), bottom, svg.TOP + _NEVER, log=True)
    step = -(-len(found.events) // MOST)
    shapes = []
    for value, style, wanted in (
        (last_old, "gone", "removes"),
        (first_new, "shown", "adds"),
    ):
        for each in found.events[::step]:
            if getattr(each, wanted):
                ms = value(each)
                at = svg.TOP + _NEVER / 2 if ms is None else y(max(ms, _LOW))
                shapes.append(
                    f'<circle class="{style}" cx="{x(each.at_s):.1f}" cy="{at:.1f}" r="2.2"/>'
                )
    return svg.drawing(
        HEIGHT,
        "How long each change took to show",
        "Each dot is a change at the time at which it was written; the higher, the later it showed.",
        (
            svg.axis_y(y, _ticks(y), "after the write"),
            _never(),
            time_axis(x, bottom),
            *shapes,
        ),
    )


def shares(
    servers: Sequence[PropagationReport | None],
    value: Value,
    adds: bool,
    style: Callable[[int], str],
) -> str:
    """A plot of the share of changes that had shown after each time, a line for each server; "" if there are none."""
    known = [each for each in servers if each is not None]
    if not any(each.events for each in known):
        return ""
    bottom = HEIGHT - svg.BOTTOM
    x = svg.Scale(_LOW, _highest(known), svg.LEFT, svg.WIDTH - svg.RIGHT, log=True)
    y = svg.Scale(0, 100, bottom, svg.TOP)
    lines = []
    for number, found in enumerate(servers):
        events = (
            []
            if found is None
            else [each for each in found.events if (each.adds if adds else each.removes)]
        )
        times = sorted(ms for ms in map(value, events) if ms is not None)
        points: list[tuple[float, float] | None] = [(x(_LOW), y(0))] if events else []
        for rank, ms in enumerate(times):
            at = x(max(ms, _LOW))
            points += [(at, y(100 * rank / len(events))), (at, y(100 * (rank + 1) / len(events)))]
        if points:
            points.append((x(x.high), y(100 * len(times) / len(events))))
            lines.append(svg.polyline(_thinned(points), style(number)))
    title = "first new answer after an addition" if adds else "last old answer after a removal"
    return svg.drawing(
        HEIGHT,
        f"Share of the changes by the time until the {title}",
        "A line for each server; one that stays below 100 % has changes that did not show.",
        (
            svg.axis_y(y, [(each, f"{each} %") for each in (0, 25, 50, 75, 100)], "changes"),
            svg.axis_x(x, _ticks(x), bottom, f"until the {title}"),
            *lines,
        ),
    )


def _thinned(points: Sequence[tuple[float, float] | None]) -> list[tuple[float, float] | None]:
    """At most MOST points of a line, including its ends."""
    step = -(-len(points) // MOST) or 1
    return [*points[:-1:step], points[-1]]


def _ticks(scale: svg.Scale) -> list[tuple[float, str]]:
    return [(each, power(each * 1000)) for each in svg.log_ticks(scale.low, scale.high)]


def _never() -> str:
    y = svg.TOP + _NEVER / 2
    return (
        f'<line class="grid" x1="{svg.LEFT}" x2="{svg.WIDTH - svg.RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text x="{svg.LEFT - 6}" y="{y + 4}" text-anchor="end">never</text>'
    )
