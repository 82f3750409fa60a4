"""Parts of plots as SVG: scales, axes and shapes; colours are classes of the page's style.

Path: plots.py -> here.
Rule: coordinates have one digit after the point, so that thousands of shapes stay small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple

from hsdns.load.output.markup import escape

WIDTH: Final = 760
LEFT: Final = 64
RIGHT: Final = 26
TOP: Final = 10
BOTTOM: Final = 38
_STEPS: Final = (1, 2, 5, 10)


class Scale(NamedTuple):
    """Maps values from `low` to `high` to coordinates; logarithmic if `log`."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value; values outside the range are at its ends."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = log10(value / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def decades(low: float, high: float) -> tuple[float, float]:
    """The powers of ten around a range, at least one apart."""
    first, last = floor(log10(low)), ceil(log10(high))
    return 10.0**first, 10.0 ** max(last, first + 1)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values from `low` to `high`, at most `most` + 1."""
    raw = (high - low) / most
    size = 10.0 ** floor(log10(raw))
    step = next(size * each for each in _STEPS if size * each >= raw * 0.999)
    first = ceil(low / step - 1e-9)
    return [number * step for number in range(first, floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """The powers of ten from `low` to `high`."""
    return [10.0**power for power in range(round(log10(low)), round(log10(high)) + 1)]


def axis_x(scale: Scale, values: Iterable[tuple[float, str]], y: float, label: str) -> str:
    """Ticks with texts below a plot that ends at `y`."""
    parts = [
        f'<line class="grid" x1="{scale(value):.1f}" x2="{scale(value):.1f}" y1="{TOP}" y2="{y:.1f}"/>'
        f'<text x="{scale(value):.1f}" y="{y + 17:.1f}" text-anchor="middle">{escape(text)}</text>'
        for value, text in values
    ]
    middle = (scale.begin + scale.end) / 2
    parts.append(
        f'<text class="label" x="{middle:.1f}" y="{y + 32:.1f}" text-anchor="middle">{escape(label)}</text>'
    )
    return "".join(parts)


def axis_y(scale: Scale, values: Iterable[tuple[float, str]], label: str) -> str:
    """Ticks with texts at the left of a plot."""
    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{scale(value):.1f}" y2="{scale(value):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{scale(value) + 4:.1f}" text-anchor="end">{escape(text)}</text>'
        for value, text in values
    ]
    middle = (scale.begin + scale.end) / 2
    parts.append(
        f'<text class="label" transform="translate(12 {middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(label)}</text>"
    )
    return "".join(parts)


def rectangles(found: Iterable[tuple[float, float, float, float]], style: str) -> str:
    """Rectangles (x, y, width, height) of one class, as one path; "" if there are none."""
    path = "".join(f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in found)
    return f'<path class="{style}" d="{path}"/>' if path else ""


def polyline(points: Sequence[tuple[float, float] | None], style: str) -> str:
    """A line through points, with gaps at None; a point between two gaps is a dot."""
    parts, path, run = [], [], 0
    following = [*points[1:], None]
    for point, after in zip(points, following, strict=True):
        if point is None:
            run = 0
            continue
        x, y = point
        if not run and after is None:
            parts.append(f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>')
        else:
            path.append(f"{'L' if run else 'M'}{x:.1f} {y:.1f}")
            run += 1
    if path:
        parts.insert(0, f'<path class="{style}" fill="none" d="{"".join(path)}"/>')
    return "".join(parts)


def hints(columns: Iterable[tuple[float, float, str]], bottom: float) -> str:
    """Tooltips for columns (x, width, text) of a plot."""
    return "".join(
        f'<rect class="hint" x="{x:.1f}" y="{TOP}" width="{w:.1f}" height="{bottom - TOP:.1f}">'
        f"<title>{escape(text)}</title></rect>"
        for x, w, text in columns
    )


def drawing(height: float, title: str, description: str, parts: Iterable[str]) -> str:
    """A complete plot."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
        f"<desc>{escape(description)}</desc>{''.join(parts)}</svg>"
    )
