"""Parts of a page: sections, tables, legends, and plots that are accessible by keyboard.

Path: page.py -> here.
Rule: input is plain text: this module escapes it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from hsdns.wire import printable

Rows = Iterable[Sequence[object]]
_DOTS: Final = ("shown", "gone")
_LINES: Final = ("p50", "p99", "p999", "late", "stale")


def escape(text: str) -> str:
    """Text for HTML and SVG, in which what is not printable is shown."""
    return html.escape(printable(text))


def section(title: str, body: str) -> str:
    """A section with a heading."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def part(title: str, body: str) -> str:
    """The part of a section about one server."""
    return f'<div class="part"><h3>{escape(title)}</h3>{body}</div>'


def paragraph(text: str, style: str = "") -> str:
    """A paragraph."""
    return f'<p class="{style}">{escape(text)}</p>' if style else f"<p>{escape(text)}</p>"


def notes(found: Iterable[tuple[str, str, str]]) -> str:
    """The notes at the top: class (bad, good, warn), word and text."""
    items = "".join(
        f'<li class="{style}"><strong>{escape(word)}</strong>{escape(text)}</li>'
        for style, word, text in found
    )
    return f'<ul class="notes">{items}</ul>' if items else ""


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """A legend of classes with texts."""
    items = []
    for style, text in entries:
        if style in _LINES or style.startswith("server "):
            shape = f'<path class="{style}" fill="none" d="M0 5h18"/>'
        elif style in _DOTS:
            shape = f'<circle class="{style}" cx="9" cy="5" r="3"/>'
        else:
            shape = f'<rect class="{style}" width="18" height="10"/>'
        items.append(
            f'<li><svg viewBox="0 0 18 10" aria-hidden="true">{shape}</svg>{escape(text)}</li>'
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def figure(title: str, drawing: str, key: str) -> str:
    """A plot with its legend; "" if there is no drawing."""
    if not drawing:
        return ""
    return (
        f'{key}<figure class="scroll" tabindex="0" role="group" aria-label="{escape(title)}">'
        f"{drawing}</figure>"
    )


def table(caption: str, head: Sequence[str], rows: Rows) -> str:
    """A table whose first column has the row headers."""
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    cells = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(each))}</td>' for each in row)}</tr>" for row in rows
    )
    whole = f"<table>{told}<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
    label = escape(caption or "Table")
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">{whole}</div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and texts."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="wide" style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f"<table><tbody>{body}</tbody></table>"
