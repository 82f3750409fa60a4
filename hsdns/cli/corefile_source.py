"""The source of the Corefile, and its text as a tree.

Path: cli/coredns.py, cli/builtin.py -> here -> corefile/parser.py; launch.py and validate.py load it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from hsdns.corefile.parser import parse
from hsdns.corefile.tree import Corefile, Errors
from hsdns.plugins import NOT_YET, ORDER
from hsdns.server.corefile_files import CorefileFiles


class CorefileSource(NamedTuple):
    """The source of the Corefile: a path, or text already read; `fallback` is used if it has no server block."""

    path: str
    fallback: str
    text: str | None = None

    @classmethod
    def from_flag(cls, conf: str | None, fallback: str) -> Self:
        """Interpret `-conf`; if it is absent or empty, use ./Corefile, and the fallback if that does not exist."""
        if conf == "stdin":
            return cls("stdin", fallback, sys.stdin.read())
        if not conf:
            return cls("Corefile", fallback, None if Path("Corefile").exists() else "")
        return cls(conf, fallback)

    def load(self, files: CorefileFiles | None = None, errors: Errors | None = None) -> Corefile:
        """Parse the Corefile; record in `files` what was read; raise CorefileError, or collect all in `errors`."""
        files = CorefileFiles() if files is None else files
        files.start()
        corefile = self._parse(self.text, files, errors)
        if not corefile.blocks and not errors:
            missing = self.text == "" and self.path != "stdin"
            warning = (
                f"{self.path} {'does not exist' if missing else 'has no server block'}, "
                "so the default is served; choose another file with -conf"
            )
            corefile = replace(
                self._parse(self.fallback, files), warnings=(*corefile.warnings, warning)
            )
        return corefile

    def _parse(
        self, text: str | None, files: CorefileFiles, errors: Errors | None = None
    ) -> Corefile:
        return parse(
            self.path,
            text=text,
            environ=os.environ,
            known_directives=ORDER,
            not_yet=NOT_YET,
            open_file=files.open_file,
            list_files=files.list_files,
            errors=errors,
        )
