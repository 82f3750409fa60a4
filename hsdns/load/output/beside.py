"""Plots with a line for each server.

Path: page.py, for a page with several servers -> here -> plots.py, svg.py.
Rule: lines differ in colour and in dashes, so that they differ in print and for colour-blind readers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.load.output import svg
from hsdns.load.output.plots import (
    HEIGHT,
    Columns,
    axes_of_slowest,
    power,
    slowest_line,
    slowest_points,
    time_axis,
    time_scale,
    whole_latency,
)
from hsdns.load.report import ServerReport

LINES: Final = 6  # with different styles


def style(number: int) -> str:
    """The CSS classes of the line of a server, by its number."""
    return f"server s{number % LINES}"


def slowest(servers: Sequence[ServerReport]) -> str:
    """A plot of the latency exceeded by the slowest share of the queries; "" if nothing was answered."""
    points = [slowest_points(whole_latency(each), each.counts.lost) for each in servers]
    if not any(points):
        return ""
    bottom = HEIGHT - svg.BOTTOM
    most = max(each.counts.sent for each in servers)
    low_share, _ = svg.decades(1 / max(most, 10), 1)
    x = svg.Scale(low_share, 1.0, svg.WIDTH - svg.RIGHT, svg.LEFT, log=True)
    every = [us for each in points for _, us in each]
    low, high = svg.decades(max(min(every), 1), max(every) + 1)
    y = svg.Scale(low, high, bottom, svg.TOP, log=True)
    lines = [
        svg.polyline(
            slowest_line(found, each.counts.lost / max(each.counts.sent, 1), x, y), style(number)
        )
        for number, (found, each) in enumerate(zip(points, servers, strict=True))
    ]
    return svg.drawing(
        HEIGHT,
        "Latency of each server against the slowest share",
        "At 1 % is the latency that the slowest hundredth exceeded; a line for each server.",
        (
            *axes_of_slowest(x, y, bottom),
            *lines,
        ),
    )


def ages(beside: Sequence[Columns]) -> str:
    """A plot of the age of each server's stalest answer over time; "" if none was stale."""
    found = [each.worst_age_ms for columns in beside for each in columns if each.worst_age_ms]
    if not found:
        return ""
    bottom = HEIGHT - svg.BOTTOM
    x = time_scale([columns for columns in beside if columns])
    low, high = svg.decades(min(found), max(found) + 1)
    y = svg.Scale(low, high, bottom, svg.TOP, log=True)
    lines = [
        svg.polyline(
            [
                (x(each.first + each.seconds / 2), y(each.worst_age_ms))
                if each.worst_age_ms
                else None
                for each in columns
            ],
            style(number),
        )
        for number, columns in enumerate(beside)
        if columns
    ]
    return svg.drawing(
        HEIGHT,
        "Age of the stalest answer of each server, over time",
        "A line for each server that had stale answers.",
        (
            svg.axis_y(
                y, [(each, power(each * 1000)) for each in svg.log_ticks(low, high)], "stalest"
            ),
            time_axis(x, bottom),
            *lines,
        ),
    )
