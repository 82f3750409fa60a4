"""Draws docs/contributing/architecture.svg: the paths of a query, of a change in the cluster and of the configuration.

    make pictures

Path: this script -> docs/contributing/architecture.svg -> docs/contributing/architecture.md.
Rule 1: the picture is 480 units wide and set in 12 to 13, so that it can be read on a phone.
Rule 2: an image does not know the palette of its page, only that of the system.  So it has a background of its own, and
        is legible on both palettes whichever colours it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

TARGET: Final = Path(__file__).resolve().parents[1] / "contributing" / "architecture.svg"
WIDTH: Final = 480
QUERY, CHANGE, CONFIGURATION = "query", "change", "configuration"  # the paths; each has a colour

STYLE: Final = """
    .page { fill: #ffffff; }
    .panel { fill: #f6f8fa; stroke: #d0d7de; }
    .box { fill: #ffffff; stroke-width: 1.5; }
    .group { fill: none; stroke-width: 1.5; stroke-dasharray: 5 4; }
    .pill { fill: #eaeef2; stroke: #8c959f; }
    .arrow { fill: none; stroke-width: 1.75; }
    text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #424a53; }
    .title { font-size: 15px; font-weight: 700; }
    .name { font: 600 13px ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; fill: #1f2328; }
    .query { stroke: #0969da; } .change { stroke: #1a7f37; } .configuration { stroke: #8250df; }
    text.query, .tip.query { fill: #0969da; stroke: none; }
    text.change, .tip.change { fill: #1a7f37; stroke: none; }
    text.configuration, .tip.configuration { fill: #8250df; stroke: none; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; }
      .panel { fill: #161b22; stroke: #30363d; }
      .box { fill: #0d1117; }
      .pill { fill: #21262d; stroke: #6e7681; }
      text { fill: #b7bfc8; }
      .name { fill: #f0f6fc; }
      .query { stroke: #58a6ff; } .change { stroke: #3fb950; } .configuration { stroke: #bc8cff; }
      text.query, .tip.query { fill: #58a6ff; }
      text.change, .tip.change { fill: #3fb950; }
      text.configuration, .tip.configuration { fill: #bc8cff; }
    }
"""

Point = tuple[int, int]


class Drawing:
    """The elements of the picture, in the order in which they are painted."""

    def __init__(self) -> None:
        self._elements: list[str] = []

    def panel(self, path: str, y: int, height: int, title: str) -> None:
        """Draw the background of a path, over the whole width."""
        self._rectangle("panel", 8, y, WIDTH - 16, height, 10)
        self.text(24, y + 25, title, f"title {path}")

    def box(self, path: str, x: int, y: int, width: int, name: str, *lines: str) -> None:
        """Draw a part of the server: its file or package, and what it does."""
        self._rectangle(f"box {path}", x, y, width, 27 + 16 * len(lines), 6)
        self.text(x + 10, y + 19, name, "name")
        for number, line in enumerate(lines, 1):
            self.text(x + 10, y + 19 + 16 * number, line)

    def group(
        self, path: str, x: int, y: int, width: int, height: int, name: str, line: str
    ) -> None:
        """Draw a frame around the boxes that a part calls."""
        self._rectangle(f"group {path}", x, y, width, height, 8)
        self.text(x + 10, y + 20, name, "name")
        self.text(x + 20 + 8 * len(name), y + 20, line)

    def pill(self, x: int, y: int, width: int, label: str) -> None:
        """Draw something outside the server."""
        self._rectangle("pill", x, y, width, 26, 13)
        self.text(x + width // 2, y + 17, label, anchor="middle")

    def arrow(self, path: str, points: Sequence[Point]) -> None:
        """Draw a line through the points, horizontal or vertical in each step, with a tip at the last one."""
        line = " ".join(f"{x},{y}" for x, y in points)
        (from_x, from_y), (x, y) = points[-2:]
        right, down = (x > from_x) - (x < from_x), (y > from_y) - (y < from_y)
        tip = [
            (x, y),
            (x - 8 * right - 4 * down, y - 8 * down - 4 * right),
            (x - 8 * right + 4 * down, y - 8 * down + 4 * right),
        ]
        corners = " ".join(f"{tip_x},{tip_y}" for tip_x, tip_y in tip)
        self._elements.append(f'<polyline class="arrow {path}" points="{line}"/>')
        self._elements.append(f'<polygon class="tip {path}" points="{corners}"/>')

    def text(self, x: int, y: int, text: str, kind: str = "", anchor: str = "start") -> None:
        """Write a line of text with its baseline at y."""
        attributes = f' class="{kind}"' if kind else ""
        if anchor != "start":
            attributes += f' text-anchor="{anchor}"'
        self._elements.append(f'<text x="{x}" y="{y}"{attributes}>{escape(text)}</text>')

    def _rectangle(self, kind: str, x: int, y: int, width: int, height: int, radius: int) -> None:
        self._elements.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'
        )

    def svg(self, height: int) -> str:
        """Return the picture as SVG."""
        body = "\n".join(f"  {element}" for element in self._elements)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH * 5 // 4}"'
            f' height="{height * 5 // 4}" role="img">\n'
            "  <title>The paths of a query, of a change in the cluster and of the configuration</title>\n"
            f"  <style>{STYLE}  </style>\n"
            f'  <rect class="page" width="{WIDTH}" height="{height}" rx="12"/>\n'
            f"{body}\n</svg>\n"
        )


def draw() -> str:
    """Draw the three paths one below the other."""
    drawing = Drawing()
    _query_path(drawing, 8)
    _change_path(drawing, 598)
    _configuration_path(drawing, 1034)
    return drawing.svg(1262)


def _query_path(drawing: Drawing, top: int) -> None:
    left, width = 66, 242
    middle = left + width // 2
    drawing.panel(QUERY, top, 582, "Path of a query")
    drawing.pill(middle - 50, top + 40, 100, "client")
    drawing.box(
        QUERY,
        left,
        top + 92,
        width,
        "server/",
        "reads and writes datagrams and",
        "TCP frames: udp, tcp, workers",
    )
    drawing.box(QUERY, left, top + 178, width, "fastpath/", "answer table: a hit ends here")
    drawing.group(QUERY, left - 12, top + 248, width + 24, 318, "query.py", "a miss")
    steps = (
        ("wire/decode.py", "octets to Query, or FORMERR"),
        ("chain.py", "zone and view to server block"),
        ("plugins/", "the chain; one returns a Reply"),
        ("wire/encode.py", "Reply to octets, truncated to fit"),
    )
    for number, (name, line) in enumerate(steps):
        y = top + 280 + 77 * number
        drawing.box(QUERY, left, y, width, name, line)
        if number:
            drawing.arrow(QUERY, [(middle, y - 34), (middle, y)])
    drawing.arrow(QUERY, [(middle + 20, top + 66), (middle + 20, top + 92)])
    drawing.arrow(QUERY, [(middle - 20, top + 92), (middle - 20, top + 66)])
    drawing.text(middle + 28, top + 84, "query")
    drawing.text(middle - 28, top + 84, "reply", anchor="end")
    drawing.arrow(QUERY, [(middle, top + 151), (middle, top + 178)])
    drawing.arrow(QUERY, [(middle, top + 221), (middle, top + 248)])
    # Replies go up on the left: from the encoder, and from the table.
    drawing.arrow(QUERY, [(left, top + 532), (32, top + 532), (32, top + 121), (left, top + 121)])
    drawing.arrow(QUERY, [(left, top + 199), (32, top + 199), (32, top + 121), (left, top + 121)])
    drawing.text(39, top + 194, "hit")
    # What may be stored goes up on the right.
    drawing.box(QUERY, 334, top + 503, 126, "answer_table/", "policy, writer")
    drawing.arrow(QUERY, [(left + width, top + 525), (334, top + 525)])
    drawing.arrow(QUERY, [(397, top + 503), (397, top + 199), (left + width, top + 199)])
    drawing.text(404, top + 340, "stores")
    drawing.text(404, top + 356, "replies")


def _change_path(drawing: Drawing, top: int) -> None:
    left, width = 24, 212
    middle = left + width // 2
    drawing.panel(CHANGE, top, 428, "Path of a change")
    drawing.pill(middle - 70, top + 40, 140, "API server")
    drawing.pill(272, top + 40, 184, "files, or a generator")
    drawing.box(CHANGE, left, top + 88, width, "apiserver/", "client and reflector")
    drawing.box(CHANGE, left, top + 158, width, "sources/api_server.py", "object events")
    drawing.box(CHANGE, 256, top + 158, 200, "sources/", "manifests, synthetic")
    drawing.box(CHANGE, left, top + 228, width, "cluster/store.py", "replaces one Service's value")
    drawing.box(
        CHANGE, left, top + 298, width, "cluster/schema.py", "its RRsets, at the first query"
    )
    drawing.arrow(CHANGE, [(middle, top + 66), (middle, top + 88)])
    drawing.box(CHANGE, left, top + 368, width, "plugins/kubernetes/", "answers from the RRsets")
    for y in (131, 201, 271, 341):
        drawing.arrow(CHANGE, [(middle, top + y), (middle, top + y + 27)])
    drawing.arrow(CHANGE, [(364, top + 66), (364, top + 158)])
    drawing.arrow(CHANGE, [(300, top + 201), (300, top + 239), (left + width, top + 239)])
    drawing.box(
        CHANGE,
        296,
        top + 263,
        160,
        "counters",
        "make the replies",
        "stale that depend",
        "on the change",
    )
    drawing.arrow(
        CHANGE, [(left + width, top + 260), (266, top + 260), (266, top + 286), (296, top + 286)]
    )


def _configuration_path(drawing: Drawing, top: int) -> None:
    drawing.panel(CONFIGURATION, top, 220, "Path of the configuration")
    drawing.pill(24, top + 51, 84, "Corefile")
    drawing.box(CONFIGURATION, 132, top + 42, 140, "corefile/", "lexer, parser")
    drawing.box(CONFIGURATION, 296, top + 42, 160, "assemble.py", "sets up the plugins")
    drawing.arrow(CONFIGURATION, [(108, top + 64), (132, top + 64)])
    drawing.arrow(CONFIGURATION, [(272, top + 64), (296, top + 64)])
    drawing.arrow(CONFIGURATION, [(376, top + 85), (376, top + 112)])
    drawing.group(CONFIGURATION, 24, top + 112, 432, 92, "server/instance.py", "")
    states = (
        ("PREPARING", "start"),
        ("SERVING", "in use"),
        ("DRAINING", "last replies"),
        ("STOPPED", "closed"),
    )
    for number, (name, line) in enumerate(states):
        x = 38 + 104 * number
        drawing.box(CONFIGURATION, x, top + 146, 92, name, line)
        if number:
            drawing.arrow(CONFIGURATION, [(x - 12, top + 168), (x, top + 168)])


if __name__ == "__main__":
    TARGET.write_text(draw())
