"""`hsdns load compare`: compares the reports of several runs.

Path: load.py -> here -> output/words.py, output/page.py.
Rule 1: a report is one written by `hsdns load -json`; all its servers are compared.
Rule 2: exit status 0, or 2 for bad input.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hsdns.cli.command import Command, FlagError, flag, leading_words, say
from hsdns.load.errors import naming_files

if TYPE_CHECKING:
    from hsdns.load.report import Report


class Compare(Command):
    """Compares the servers of reports."""

    name = "load compare"
    forms = "FILE FILE... [FLAG...]"

    html: Annotated[str, flag("write the comparison as a page to a file", "FILE")] = ""

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], list[str]]:
        """The files, and the rest."""
        return leading_words(words)

    def run(self) -> int:
        """Print the comparison, and write its page."""
        from hsdns.load.output.page import comparison_page
        from hsdns.load.output.text import compared_lines
        from hsdns.load.output.words import shown_together

        with naming_files():
            servers = shown_together(_read(self.words))
            if len(servers) < 2:
                raise FlagError(
                    "there is nothing to compare: name the reports of two runs or more, that -json FILE wrote"
                )
            say(*compared_lines(servers))
            if self.html:
                Path(self.html).write_text(comparison_page(servers), encoding="utf-8")
        return 0


def _read(files: list[str]) -> list[tuple[str, Report]]:
    """Reports with the names of their files, without folders if these names differ."""
    from hsdns.load.report import read_report

    stems = [Path(each).stem for each in files]
    names = stems if len(set(stems)) == len(stems) else files
    if len(set(names)) < len(names):
        raise FlagError("a report is given twice; name each file once")
    return [
        (name, read_report(Path(file).read_bytes(), file))
        for name, file in zip(names, files, strict=True)
    ]
