"""The figures as bars: an SVG that needs no library.

Path: cli.py -> here <- results.py.
Rule 1: a bar is the drain figure where there is one, else dnsperf's.
Rule 2: a bar more than four times as long as the median of all is cut off, with an arrow: one slow server must not
        flatten all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from loadtest.answering.mixes import DNSPERF, DRAIN, Mix
from loadtest.answering.programs import TITLES
from loadtest.answering.results import Results

_COLOURS: Final = (
    "#8a8f98", "#c2410c", "#ea9a3e", "#3f7d58", "#2f5d8a", "#5b86b0", "#86629e", "#a6799b", "#1f2d3d",
)  # fmt: skip
_LABELS = 200  # pixels at the left
_SCALE = 560  # pixels for the longest bar
_WIDTH = _LABELS + _SCALE + 90
_BAR, _GAP, _HEAD, _TOP = 15, 4, 26, 40
_BROKEN = 4.0  # times the median bar


def svg(results: Results, mixes: Sequence[Mix]) -> str:
    """Draw all mixes, one below the other."""
    groups = [(mix, _bars(results, mix)) for mix in mixes]
    groups = [(mix, bars) for mix, bars in groups if bars]
    lengths = sorted(value for _, bars in groups for _, value, _ in bars)
    longest = min(lengths[-1], lengths[len(lengths) // 2] * _BROKEN) if lengths else 1.0
    colours = dict(zip(TITLES, _COLOURS, strict=True))
    parts: list[str] = []
    y = _TOP
    for mix, bars in groups:
        parts.append(f'<text x="12" y="{y + 14}" font-weight="bold">{escape(mix.title)}</text>')
        y += _HEAD
        for key, value, method in bars:
            width = min(1.0, value / longest) * _SCALE
            broken = " →" if value > longest else ""
            parts.append(
                f'<text x="{_LABELS - 8}" y="{y + 12}" text-anchor="end">{escape(TITLES[key])}</text>'
                f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colours[key]}">'
                f"<title>{escape(TITLES[key])}, {method}: {value:.2f} µs</title></rect>"
                f'<text x="{_LABELS + width + 6:.1f}" y="{y + 12}">{value:.2f}{broken}</text>'
            )
            y += _BAR + _GAP
        y += 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" '
        f'height="{y}" font-family="sans-serif" font-size="12" fill="#1b1f24">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="12" y="24" font-size="15">Microseconds of CPU for an answered query</text>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _bars(results: Results, mix: Mix) -> list[tuple[str, float, str]]:
    bars = []
    for key in TITLES:
        for method in (DRAIN, DNSPERF):
            figures = results.figures(mix.key, key, method)
            if figures is not None:
                bars.append((key, figures.cpu_us, method))
                break
    return bars
