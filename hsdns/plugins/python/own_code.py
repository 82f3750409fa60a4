"""Identifies the user's own code, for messages: not that of this server, of Python or of installed packages.

Path: plugins/python and its loader use it to find the origin of an exception.
Rule: an installed package is the user's own only if the handler is in it.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from types import TracebackType
from typing import Final

import hsdns

_SERVER: Final = os.path.dirname(os.path.abspath(hsdns.__file__)) + os.sep
_LIBRARY: Final = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class OwnCode:
    """The user's own code: the handler's top-level package, and every file that is not installed."""

    def __init__(self, module_name: str) -> None:
        self._top = module_name.partition(".")[0]

    def contains(self, file: str) -> bool:
        """Whether a file is the user's own."""
        if not os.path.isabs(file) or file.startswith(_SERVER):  # `<frozen importlib>` is no file
            return False
        for folder in _INSTALLED:
            _, found, inside = file.rpartition(folder)
            if found:
                return inside.partition(os.sep)[0].removesuffix(".py") == self._top
        return not file.startswith(_LIBRARY)

    def describe(self, error: BaseException, otherwise: str = "") -> str:
        """Return an exception as one line: class, message, and the innermost own line, `(FILE:LINE)`.

        If none of the lines is the user's own, `otherwise` takes its place.
        """
        if isinstance(error, SyntaxError) and error.filename is not None:
            return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
        text = traceback.format_exception_only(error)[0].strip().partition("\n")[0]
        place = self.place(error.__traceback__) or otherwise
        return f"{text} ({place})" if place else text

    def place(self, trace: TracebackType | None) -> str:
        """Return the innermost own line of a traceback as `FILE:LINE`, "" if there is none."""
        places = [
            f"{frame.f_code.co_filename}:{line}"
            for frame, line in traceback.walk_tb(trace)
            if self.contains(frame.f_code.co_filename)
        ]
        return places[-1] if places else ""
