"""The figures as bars, as SVG for the page and as PNG for everything else.

Path: cli.py -> here <- results.py.
Rule 1: a bar shows the drain figure if there is one, otherwise dnsperf's.
Rule 2: a bar more than four times as long as the median of all is cut off, and marked as such, so that one slow server
        does not make all other bars tiny.
Rule 3: positions are computed once, in Picture; both formats draw the same.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from loadtest.answering.mixes import DNSPERF, DRAIN, Mix
from loadtest.answering.programs import TITLES
from loadtest.answering.results import Results

_COLOURS: Final = (
    "#8a8f98", "#c2410c", "#ea9a3e", "#3f7d58", "#2f5d8a", "#5b86b0", "#86629e", "#a6799b", "#1f2d3d",
)  # fmt: skip
_INK = "#1b1f24"
_TITLE = "Microseconds of CPU for an answered query"
_LABELS = 200  # pixels at the left
_SCALE = 560  # pixels for the longest bar
_WIDTH = _LABELS + _SCALE + 90
_BAR, _GAP, _HEAD, _TOP = 15, 4, 26, 40
_BROKEN = 4.0  # times the median bar
_SHADES = 32  # of a PNG
_ZOOM = 2  # pixels of a PNG for one of an SVG


class Text(NamedTuple):
    """A line of text with its baseline at y; `end`: it ends at x."""

    x: float
    y: int
    words: str
    size: int = 12
    bold: bool = False
    end: bool = False


class Bar(NamedTuple):
    """A bar and its tooltip."""

    y: int
    width: float
    colour: str
    words: str


class Picture(NamedTuple):
    """The parts of the plot, in pixels."""

    height: int
    texts: list[Text]
    bars: list[Bar]


def picture(results: Results, mixes: Sequence[Mix]) -> Picture:
    """Lay out all mixes from top to bottom."""
    groups = [(mix, _figures(results, mix)) for mix in mixes]
    groups = [(mix, figures) for mix, figures in groups if figures]
    lengths = sorted(value for _, figures in groups for _, value, _ in figures)
    longest = min(lengths[-1], lengths[len(lengths) // 2] * _BROKEN) if lengths else 1.0
    colours = dict(zip(TITLES, _COLOURS, strict=True))
    texts, bars, y = [Text(12, 24, _TITLE, size=15)], [], _TOP
    for mix, figures in groups:
        texts.append(Text(12, y + 14, mix.title, bold=True))
        y += _HEAD
        for key, value, method in figures:
            title, width = TITLES[key], min(1.0, value / longest) * _SCALE
            broken = ", cut" if value > longest else ""
            texts.append(Text(_LABELS - 8, y + 12, title, end=True))
            bars.append(Bar(y, width, colours[key], f"{title}, {method}: {value:.2f} µs"))
            texts.append(Text(_LABELS + width + 6, y + 12, f"{value:.2f}{broken}"))
            y += _BAR + _GAP
        y += 10
    return Picture(y, texts, bars)


def svg(results: Results, mixes: Sequence[Mix]) -> str:
    """Draw all mixes as SVG."""
    drawn = picture(results, mixes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {drawn.height}" width="{_WIDTH}" '
        f'height="{drawn.height}" font-family="sans-serif" font-size="12" fill="{_INK}">'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
    ]
    parts += [
        f'<rect x="{_LABELS}" y="{bar.y}" width="{bar.width:.1f}" height="{_BAR}" fill="{bar.colour}">'
        f"<title>{escape(bar.words)}</title></rect>"
        for bar in drawn.bars
    ]
    for text in drawn.texts:
        style = f' font-size="{text.size}"' if text.size != 12 else ""
        style += ' font-weight="bold"' if text.bold else ""
        style += ' text-anchor="end"' if text.end else ""
        parts.append(f'<text x="{text.x:.1f}" y="{text.y}"{style}>{escape(text.words)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def png(results: Results, mixes: Sequence[Mix]) -> bytes:
    """Draw all mixes as PNG, at twice the size; raise ImportError if Pillow is missing."""
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - nothing else here needs it

    drawn = picture(results, mixes)
    image = Image.new("RGB", (_WIDTH * _ZOOM, drawn.height * _ZOOM), "#ffffff")
    pen = ImageDraw.Draw(image)
    for bar in drawn.bars:
        corners = (_LABELS, bar.y, _LABELS + bar.width, bar.y + _BAR)
        pen.rectangle([corner * _ZOOM for corner in corners], fill=bar.colour)
    for text in drawn.texts:
        pen.text(
            (text.x * _ZOOM, text.y * _ZOOM),
            text.words,
            fill=_INK,
            font=ImageFont.load_default(text.size * _ZOOM),
            anchor="rs" if text.end else "ls",
            stroke_width=_ZOOM // 2 if text.bold else 0,
        )
    written = io.BytesIO()
    # A third of the octets, which the page's readers load, for edges that are hardly less smooth.
    image.quantize(_SHADES, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return written.getvalue()


def _figures(results: Results, mix: Mix) -> list[tuple[str, float, str]]:
    found = []
    for key in TITLES:
        for method in (DRAIN, DNSPERF):
            figures = results.figures(mix.key, key, method)
            if figures is not None:
                found.append((key, figures.cpu_us, method))
                break
    return found
