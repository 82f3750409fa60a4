"""Draws docs/terminal.svg: a terminal with commands and what they print.

    make pictures

Path: the commands, run here -> docs/pictures/terminal.txt -> docs/terminal.svg -> docs/index.md.
Rule 1: nothing is typed in by hand: the text is what the commands print, with port 1053 for the one that they get here.
Rule 2: a test runs the commands of the text again and finds its lines in what they print, in this order.  So the
        commands may print more than the picture shows, but nothing else.
Rule 3: as in architecture.py, the picture is 480 units wide.  It is dark on both palettes, like a terminal.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from queue import Empty, Queue
from textwrap import wrap
from threading import Thread
from typing import Final

from loadtest.ports import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = Path(__file__).with_suffix(".txt")
TARGET: Final = ROOT / "docs" / "terminal.svg"
EXAMPLE: Final = ROOT / "docs" / "examples" / "shop.yaml"
ASK: Final = "dig @127.0.0.1 -p 1053 +short"
COMMANDS: Final = (
    "hsdns serve --quiet --source manifests shop.yaml &",
    f"{ASK} web.shop.svc.cluster.local",
    "sed -i '0,/app: web/s//app: wbe/' shop.yaml",
    f"{ASK} web.shop.svc.cluster.local",
    "hsdns explain web.shop --source manifests shop.yaml",
    "sed -i 's/app: wbe/app: web/' shop.yaml",
    f"{ASK} web.shop.svc.cluster.local",
)
PROMPT: Final = "$ "
START: Final = 30.0  # seconds for the server to print its first line
QUIET: Final = 1.0  # seconds without a line of the server: it has printed what it prints now
WIDTH: Final = 480
COLUMNS: Final = 64
_LINE, _TOP, _LEFT = 17, 50, 10
_STYLE: Final = """
    .page { fill: #0d1117; stroke: #3d444d; }
    text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #b7bfc8;
           white-space: pre; }
    .command { fill: #f0f6fc; font-weight: 600; }
    .prompt { fill: #3fb950; }
"""


class Terminal:
    """Runs commands in a folder with the example; a command that ends in `&` is hsdns, which goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = str(free_port())
        self._server: subprocess.Popen[str] | None = None
        self._lines: Queue[str] = Queue()
        shutil.copy(EXAMPLE, folder)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        if self._server is not None:
            with self._server:
                self._server.send_signal(signal.SIGTERM)
                self._reader.join()  # before the pipe that it reads is closed

    def run(self, command: str) -> list[str]:
        """Run a command; return the lines that it printed, of the server the first one: it listens now."""
        words = shlex.split(command.replace("1053", self._port))
        if words[0] == "hsdns":
            words[:1] = [sys.executable, "-m", "hsdns"]
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")
        } | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "COLUMNS": str(COLUMNS)}
        if words[-1] == "&":
            self._server = subprocess.Popen(
                [*words[:-1], "-dns.port", self._port],
                cwd=self._folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ,
            )  # fmt: skip
            self._reader = Thread(target=self._read, args=(self._server,), daemon=True)
            self._reader.start()
            first = self.line(START)
            return [] if first is None else [first]
        done = subprocess.run(
            words, cwd=self._folder, text=True, capture_output=True, check=False, env=environ
        )
        return self._shown(done.stderr + done.stdout)

    def line(self, seconds: float) -> str | None:
        """The next line of the server, None if it prints none for so long."""
        try:
            return self._shown(self._lines.get(timeout=seconds))[0]
        except Empty:
            return None

    def _read(self, server: subprocess.Popen[str]) -> None:
        assert server.stdout is not None
        for line in server.stdout:
            self._lines.put(line)

    def _shown(self, text: str) -> list[str]:
        return re.sub(rf"\b{self._port}\b", "1053", text).splitlines()


def record() -> str:
    """Run the commands; return them with what they print."""
    with tempfile.TemporaryDirectory() as folder, Terminal(Path(folder)) as terminal:
        lines = []
        for command in COMMANDS:
            lines += [PROMPT + command, *terminal.run(command)]
            while (line := terminal.line(QUIET)) is not None:
                lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a text with the lines that they print."""
    for part in re.split(rf"^{re.escape(PROMPT)}", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def draw(text: str) -> str:
    """Draw the text, with the lines that are too long broken between words, as hsdns does on a terminal."""
    elements, y = [], _TOP
    for line in text.splitlines():
        is_command = line.startswith(PROMPT)
        indent = "│  " if line.startswith("├─ ") else ""
        for at, part in enumerate(wrap(line, COLUMNS, subsequent_indent=indent) or [""]):
            shown = escape(part)
            if is_command and at == 0:
                shown = f'<tspan class="prompt">{PROMPT}</tspan>{shown.removeprefix(PROMPT)}'
            kind = ' class="command"' if is_command else ""
            elements.append(f'<text{kind} x="{_LEFT}" y="{y}">{shown}</text>')
            y += _LINE
    dots = "".join(
        f'<circle cx="{20 + 18 * number}" cy="18" r="5.5" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    body = "\n".join(f"  {element}" for element in elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH * 3 // 2}"'
        f' height="{y * 3 // 2}" role="img">\n'
        "  <title>hsdns serves manifests, and explains why a name stopped resolving</title>\n"
        f"  <style>{_STYLE}  </style>\n"
        f'  <rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{y - 1}" rx="10"/>\n'
        f"  {dots}\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    recorded = record()
    TEXT.write_text(recorded)
    TARGET.write_text(draw(recorded))
