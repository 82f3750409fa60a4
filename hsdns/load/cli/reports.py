"""`hsdns load compare` and `hsdns load merge`: the reports of several runs, or of the generators of one.

Path: load.py -> here -> output/words.py, output/page.py, or merge.py and the report as after a run.
Rule 1: a report is one written by `hsdns load -json`.  All its servers are compared.
Rule 2: reports that are merged may also be in ConfigMaps, as printed by `kubectl get -o json`.
Rule 3: the exit status of a merge is that of a run: the limits apply to the merged report.  That of a comparison is 0.
        Bad input has status 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from hsdns.cli.command import Command, FlagError, flag, leading_words, say
from hsdns.load.cli.settings import ReportCommand
from hsdns.load.errors import naming_files

if TYPE_CHECKING:
    from hsdns.load.report import Report

STANDARD_INPUT: Final = "-"


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
            servers = shown_together(_compared(self.words))
            if len(servers) < 2:
                raise FlagError(
                    "there is nothing to compare: name the reports of two runs or more, that -json FILE wrote"
                )
            say(*compared_lines(servers))
            if self.html:
                Path(self.html).write_text(comparison_page(servers), encoding="utf-8")
        return 0


def _compared(files: list[str]) -> list[tuple[str, Report]]:
    """Reports with the names of their files, without folders if these names differ."""
    from hsdns.load.report import read_report

    stems = [Path(each).stem for each in files]
    names = stems if len(set(stems)) == len(stems) else files
    if len(set(names)) < len(names):
        raise FlagError("a report is given twice; name each file once")
    pairs = zip(names, files, strict=True)
    return [(name, read_report(Path(file).read_bytes(), file)) for name, file in pairs]


class Merge(ReportCommand):
    """Merges reports."""

    name = "load merge"
    forms = "FILE... [FLAG...]"

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], list[str]]:
        """The files, and the rest."""
        flags = (at for at, word in enumerate(words) if word[:1] == "-" and word != STANDARD_INPUT)
        at = next(flags, len(words))
        return words[:at], words[at:]

    def run(self) -> int:
        """Print the merged report, and write its files; return the exit status of a run."""
        from hsdns.load.cli.export import put_out, write_for_ci
        from hsdns.load.merge import merge

        with naming_files():
            if not self.words:
                raise FlagError(
                    "there is nothing to merge: name the reports that -json FILE wrote, or - for standard input"
                )
            if len(set(self.words)) < len(self.words):
                raise FlagError("a report is given twice; name each file once")
            report = merge([each for file in self.words for each in _merged(file)])
            status = put_out(report, self)
            write_for_ci(report, self)
        return status


def _merged(file: str) -> list[tuple[str, Report]]:
    """The reports in a file with their names: one, or one for each ConfigMap."""
    from hsdns.load.cluster.job import reports_of
    from hsdns.load.report import read_report

    if file == STANDARD_INPUT:
        name, octets = "standard input", sys.stdin.buffer.read()
    else:
        name, octets = file, Path(file).read_bytes()
    found = reports_of(octets, name) or [(name, octets)]
    return [(each, read_report(report, each)) for each, report in found]
