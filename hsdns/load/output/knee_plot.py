"""The steps of a search for the knee on a page: a plot of latency against rate, and a table.

Path: page.py -> here -> svg.py, markup.py.
Rule: each step is a mark at its p99, with a shape for its outcome, so that outcomes differ in print and for
      colour-blind readers too.  A step without a figure is at the upper edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hsdns.load.output import svg
from hsdns.load.output.markup import figure, legend, paragraph, table
from hsdns.load.output.plots import HEIGHT, power
from hsdns.load.output.words import duration, share
from hsdns.load.report import KneeReport, KneeStep

SHOWN: Final = "p99"
STYLES: Final = {"held": "rcode noerror", "broken": "rcode servfail", "generator": "rcode lost"}
WORDS: Final = {
    "held": "the limits held",
    "broken": "they did not",
    "generator": "the generator was the limit",
}
_SIZE: Final = 4.0


def knee(found: KneeReport) -> str:
    """The plot and the table; "" if there are no steps."""
    if not found.steps:
        return ""
    seen = [each for each in STYLES if any(step.outcome == each for step in found.steps)]
    key = legend([(STYLES[each], WORDS[each]) for each in seen])
    told = paragraph(f"Limits: {', '.join(found.limits)}. {found.said}.")
    return told + figure("Latency of each step against its rate", _plot(found), key) + _table(found)


def _plot(found: KneeReport) -> str:
    bottom = HEIGHT - svg.BOTTOM
    rates = [step.rate for step in found.steps]
    x = svg.Scale(min(rates) * 0.9, max(rates) * 1.1, svg.LEFT, svg.WIDTH - svg.RIGHT, log=True)
    known = [us for step in found.steps if (us := _us(step)) is not None] or [1000]
    low, high = svg.decades(max(min(known), 1), max(known) + 1)
    y = svg.Scale(low, high, bottom, svg.TOP, log=True)
    ticks = sorted({min(rates), max(rates), *([found.holds] if found.holds else [])})
    line = ""
    if found.holds is not None:
        at = x(found.holds)
        line = f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{svg.TOP}" y2="{bottom}" stroke-width="2"/>'
    return svg.drawing(
        HEIGHT,
        "Latency of each step against its rate",
        "Both axes are logarithmic; the line is at the highest rate at which the limits held.",
        (
            svg.axis_y(y, [(each, power(each)) for each in svg.log_ticks(low, high)], SHOWN),
            svg.axis_x(x, _apart(ticks, x), bottom, "queries a second"),
            line,
            *(_mark(step, x, y) for step in found.steps),
        ),
    )


def _apart(ticks: Sequence[float], x: svg.Scale) -> Iterator[tuple[float, str]]:
    """The ticks with enough room for their texts."""
    last = float("-inf")
    for tick in ticks:
        if x(tick) - last > 60:
            last = x(tick)
            yield tick, f"{tick:.10g}"


def _us(step: KneeStep) -> int | None:
    return next(each.us for each in step.latency if each.name == SHOWN)


def _mark(step: KneeStep, x: svg.Scale, y: svg.Scale) -> str:
    us, size = _us(step), _SIZE
    across, down = x(step.rate), svg.TOP + size if us is None else y(max(us, 1))
    shape = {
        "held": f"M{across - size:.1f} {down:.1f}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0z",
        "broken": f"M{across:.1f} {down - size:.1f}l{size} {size}l{-size} {size}l{-size} {-size}z",
        "generator": f"M{across - size:.1f} {down - size:.1f}h{2 * size}v{2 * size}h{-2 * size}z",
    }[step.outcome]
    told = f"{step.rate:.10g}/s: {WORDS[step.outcome]}"
    return f'<path class="{STYLES[step.outcome]}" d="{shape}"><title>{told}</title></path>'


def _table(found: KneeReport) -> str:
    names = [each.name for each in found.steps[0].latency]
    rows = [
        (
            f"{step.rate:.10g}",
            f"{step.seconds:g} s",
            step.outcome,
            share(step.lost, step.sent),
            *map(duration, step.latency),
            *(duration(each) for each in step.lateness if each.name == SHOWN),
        )
        for step in found.steps
    ]
    head = ("queries a second", "for", "limits", "lost", *names, f"late {SHOWN}")
    return table("The steps of the search, in their order", head, rows)
