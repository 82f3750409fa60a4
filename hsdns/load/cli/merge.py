"""`hsdns load merge`: merges the reports of several generators.

Path: load.py -> here -> merge.py -> the report, as after a run.
Rule 1: a report is one written by `hsdns load -json`, or those in ConfigMaps, as printed by `kubectl get -o json`.
Rule 2: the exit status is that of a run: the limits apply to the merged report.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hsdns.cli.flags import Flag, FlagError, output_format, parse_flags, usage
from hsdns.cli.output import complain, say_text
from hsdns.load.errors import LoadError, sentence_of

if TYPE_CHECKING:
    from hsdns.load.report import Report

USAGE: Final = "Usage: hsdns load merge FILE... [FLAG...]\n"
FLAGS: Final = {
    "json": Flag(str, "write the report as JSON to a file", "FILE"),
    "html": Flag(str, "write the report as a page to a file", "FILE"),
    "junit": Flag(str, "write the limits as test cases in JUnit's form to a file", "FILE"),
    "github": Flag(bool, "append to the summary of a step of GitHub Actions, as is done where there is one"),
    "o": Flag(str, "format of standard output: text (default) or json", "FORMAT"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}  # fmt: skip
STANDARD_INPUT: Final = "-"


def run(words: list[str]) -> int:
    """Run `hsdns load merge`; return the exit status."""
    from hsdns.load.cli.export import tell, write_for_ci
    from hsdns.load.merge import merge

    at = next((at for at, word in enumerate(words) if word[:1] == "-" and word != "-"), len(words))
    files, rest = words[:at], words[at:]
    try:
        flags = parse_flags(rest, FLAGS, command="hsdns load merge")
        if flags.get("h"):
            say_text(f"{USAGE}\nFlags:\n{usage(FLAGS)}")
            return 0
        output = output_format(flags)
        if not files:
            raise FlagError(
                "there is nothing to merge: name the reports that -json FILE wrote, or - for standard input"
            )
        if len(set(files)) < len(files):
            raise FlagError("a report is given twice; name each file once")
        report = merge([each for file in files for each in _read(file)])
        status = tell(report, flags, output)
        write_for_ci(report, str(flags.get("junit", "")), summary=bool(flags.get("github")))
    except (FlagError, LoadError, OSError) as error:
        complain(sentence_of(error))
        return 2
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
