"""Draws docs/top.svg: a picture of `hsdns top`.

    make pictures

Path: docs/pictures/top.json -> hsdns/cli/top.py -> rich -> docs/top.svg -> docs/top.md.
Rule 1: top.json is a picture as /v1/top has it; a test holds it to docs/openapi.yaml.
Rule 2: the file loads nothing: it has no fonts of its own, and no scripts.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from hsdns.cli.top import view

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURE: Final = Path(__file__).with_suffix(".json")
TARGET: Final = ROOT / "docs" / "top.svg"
COLUMNS: Final = 80
PLACE: Final = "the server with process ID 4711, at /run/user/1000/hsdns/4711.sock"
TITLE: Final = "hsdns top"
# The colours of terminal.py.
THEME: Final = TerminalTheme(
    (13, 17, 23),
    (183, 191, 200),
    [
        (72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34),
        (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196),
    ],
)  # fmt: skip
FORMAT: Final = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>A picture of hsdns top</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }}
.{unique_id}-title {{ font: 16px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""  # noqa: E501 - as rich fills it in


def draw(text: str) -> str:
    """The SVG of a picture in JSON."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(view(json.loads(text), PLACE, COLUMNS))
    svg = console.export_svg(title=TITLE, theme=THEME, code_format=FORMAT, unique_id="top")
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


if __name__ == "__main__":
    TARGET.write_text(draw(PICTURE.read_text()))
