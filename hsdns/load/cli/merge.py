"""`hsdns load merge`: merges the reports of several generators.

Path: load.py -> here -> merge.py -> the report, as after a run.
Rule 1: a report is one written by `hsdns load -json`, or those in ConfigMaps, as printed by `kubectl get -o json`.
Rule 2: the exit status is that of a run: the limits apply to the merged report.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hsdns.cli.command import FlagError
from hsdns.load.cli.settings import ReportCommand
from hsdns.load.errors import naming_files

if TYPE_CHECKING:
    from hsdns.load.report import Report

STANDARD_INPUT: Final = "-"


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
            report = merge([each for file in self.words for each in _read(file)])
            status = put_out(report, self)
            write_for_ci(report, self)
        return status


def _read(file: str) -> list[tuple[str, Report]]:
    """The reports in a file with their names: one, or one for each ConfigMap."""
    from hsdns.load.cluster.job import reports_of
    from hsdns.load.report import read_report

    if file == STANDARD_INPUT:
        name, octets = "standard input", sys.stdin.buffer.read()
    else:
        name, octets = file, Path(file).read_bytes()
    found = reports_of(octets, name) or [(name, octets)]
    return [(each, read_report(report, each)) for each, report in found]
