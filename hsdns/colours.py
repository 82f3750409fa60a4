"""The colours of what commands print, and whether a stream shows them.

Path: the lines of a command -> here -> its standard output.
Rule: every command asks here, so that each obeys NO_COLOR, FORCE_COLOR and TERM; rich obeys them by itself.
Source: ECMA-48, section 8.3.117 (SELECT GRAPHIC RENDITION); https://no-color.org; https://force-color.org.
"""

from __future__ import annotations

import os
from typing import Final, TextIO

RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
CYAN: Final = "36"
BOLD: Final = "1"
DIM: Final = "2"


def are_shown(stream: TextIO) -> bool:
    """Whether what is written to a stream has colours."""
    is_forced = bool(os.environ.get("FORCE_COLOR"))
    return not os.environ.get("NO_COLOR") and (is_forced or is_screen(stream))


def is_screen(stream: TextIO) -> bool:
    """Whether a stream is a terminal on which a command can draw over what it has written."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str, *, is_on: bool = True) -> str:
    """A text in a colour; as it is without `is_on`, or if it is empty."""
    return f"\x1b[{colour}m{text}\x1b[0m" if is_on and text else text
