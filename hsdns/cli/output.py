r"""The lines that the commands print: nothing in them but our own colours controls a terminal or a CI system.

Path: every module of cli/ -> here -> standard output and standard error.  No other module prints.
Rule 1: a line is given as a line: an end of line in it came with a name, and is shown as `\n` (wire/__init__.py).
Rule 2: colours are added to what has been escaped.
Rule 3: what the encoding of the stream lacks is escaped too, so no name ends a command with an exception.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TextIO

import msgspec

from hsdns.wire import printable


def say(*lines: object, shown: Callable[[str], str] = printable, flush: bool = False) -> None:
    """Print lines to standard output; `shown` escapes a line, `str` takes one that is escaped."""
    _write(sys.stdout, "".join(f"{shown(str(each))}\n" for each in lines))
    if flush:
        sys.stdout.flush()


def say_text(text: str) -> None:
    """Print a text of our own, such as a help or a document of JSON, in which an end of line is one."""
    say(*text.removesuffix("\n").split("\n"))


def say_json(value: object) -> None:
    """Print a value as JSON, also with octets of a path that are no UTF-8, which msgspec does not write."""
    say_text(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False))


def complain(*lines: object) -> None:
    """Print lines to standard error."""
    _write(sys.stderr, "".join(f"{printable(str(each))}\n" for each in lines))
    sys.stderr.flush()


class Progress:
    """Lines on standard error that are replaced by the next ones; nothing without a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._height = 1

    def show(self, *lines: str) -> None:
        """Replace the lines; without any they are removed."""
        if self._is_shown:
            up = f"\x1b[{self._height - 1}F" if self._height > 1 else "\r"
            self._height = len(lines) or 1
            _write(sys.stderr, f"{up}\x1b[J" + "\n".join(map(printable, lines)))
            sys.stderr.flush()

    def keep(self) -> None:
        """End the last line, so that it stays."""
        if self._is_shown:
            complain("")


def _write(stream: TextIO, text: str) -> None:
    if not text.isascii():
        encoding = stream.encoding or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
