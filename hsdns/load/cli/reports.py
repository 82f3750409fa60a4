"""`hsdns load compare` and `hsdns load merge`: the reports of several runs, or of the generators of one.

Path: load.py -> here -> output/words.py, output/page.py, or merge.py and the report as after a run.
Rule 1: a report is one written by `hsdns load -json`.  All its servers are compared.
Rule 2: reports that are merged may also be in ConfigMaps, as printed by `kubectl get -o json`.
Rule 3: the exit status of a merge is that of a run: the limits apply to the merged report.  That of a comparison is 0.
        Bad input has status 2.

The other output of a load test: metrics while it runs, and files for CI at its end:
Rule 1: a file of metrics is written completely under another name and renamed, so that it is never read incomplete.
Rule 2: a slow or unreachable gateway does not delay the run: a thread sends the newest picture.  Errors are reported at
        the end.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hsdns.cli.command import Command, FlagError, complain, flag, leading_words, say, say_json
from hsdns.load.cli.settings import PERFDATA, ReportCommand
from hsdns.load.errors import LoadError, naming_files

if TYPE_CHECKING:
    from hsdns.load.output.exposition import Picture
    from hsdns.load.report import Report
    from hsdns.load.results import Results

EVERY: Final = 10.0  # seconds between two pictures
TIMEOUT: Final = 5.0  # seconds for a gateway to answer
JOB: Final = "hsdns_load"
SUMMARY: Final = "GITHUB_STEP_SUMMARY"


class Metrics:
    """Writes and sends metrics; `file` and `gateway` are "" for none."""

    def __init__(self, file: str, gateway: str) -> None:
        self._file = file
        self._gateway = gateway
        self._shown = 0.0
        self._sending: threading.Thread | None = None
        self._failure = ""

    def show(self, servers: Mapping[str, Results], seconds: float) -> None:
        """Write and send the results so far every EVERY seconds."""
        if seconds - self._shown >= EVERY:
            self._shown = seconds
            with suppress(OSError):  # the run must continue; finish() reports it
                self._put(servers, seconds)

    def finish(self, servers: Mapping[str, Results], report: Report) -> None:
        """Write and send the final results; raise LoadError or OSError."""
        limits = {
            each.name: {limit.limit: limit.met for limit in each.limits} for each in report.servers
        }
        self._wait()
        self._put(servers, max(each.seconds for each in report.servers), limits)
        self._wait()
        if self._failure:
            raise LoadError(f"--push: {self._gateway} has not taken the metrics: {self._failure}")

    def _wait(self) -> None:
        if self._sending is not None:
            self._sending.join()

    def _put(
        self,
        servers: Mapping[str, Results],
        seconds: float,
        limits: Mapping[str, Mapping[str, bool | None]] | None = None,
    ) -> None:
        if not (self._file or self._gateway):
            return
        from prometheus_client import write_to_textfile

        from hsdns.load.output.exposition import Picture

        picture = Picture(servers, seconds, limits)
        if self._file:
            write_to_textfile(self._file, picture)
        if self._gateway and (self._sending is None or not self._sending.is_alive()):
            self._sending = threading.Thread(target=self._send, args=(picture,), daemon=True)
            self._sending.start()

    def _send(self, picture: Picture) -> None:
        from prometheus_client import push_to_gateway

        instance = {"instance": socket.gethostname()}
        self._failure = ""
        try:
            push_to_gateway(self._gateway, JOB, picture, grouping_key=instance, timeout=TIMEOUT)
        except (OSError, ValueError) as error:
            self._failure = str(error)


def write_for_ci(report: Report, flags: ReportCommand) -> None:
    """Write the test cases, and append the summary of the step of GitHub Actions; raise OSError or LoadError.

    The summary is written if it is requested, or if GitHub Actions runs the command.
    """
    from hsdns.load.output.ci import junit, markdown

    if flags.junit:
        Path(flags.junit).write_text(junit(report), encoding="utf-8")
    path = os.environ.get(SUMMARY, "")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown(report))
    elif flags.github:
        raise LoadError(
            f"--github: {SUMMARY} names no file, so this is not a step of GitHub Actions"
        )


def put_out(report: Report, flags: ReportCommand) -> int:
    """Print a report and write it to the files of -json and -html; return the exit status."""
    from hsdns.load.output.page import page
    from hsdns.load.output.perfdata import perfdata
    from hsdns.load.output.text import lines
    from hsdns.load.report import encode, exit_status, plain

    if flags.o == "json":
        say_json(plain(report))
    elif flags.o == PERFDATA:
        say_json(perfdata(report))
    else:
        say(*lines(report), fits=True)
    try:
        if flags.json:
            Path(flags.json).write_bytes(encode(report))
        if flags.html:
            Path(flags.html).write_text(page(report), encoding="utf-8")
    except OSError as error:
        complain(f"the report cannot be written: {error}")
        return 2
    return exit_status(report)


STANDARD_INPUT: Final = "-"


class Compare(Command):
    """Compares the servers of reports."""

    name = "load compare"
    forms = "FILE FILE... [FLAG...]"

    html: str = flag("", "write the comparison as a page to a file", "FILE")

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
                    "there is nothing to compare: name the reports of two runs or more, that --json FILE wrote"
                )
            say(*compared_lines(servers), fits=True)
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
        from hsdns.load.generators.merge import merge

        with naming_files():
            if not self.words:
                raise FlagError(
                    "there is nothing to merge: name the reports that --json FILE wrote, or - for standard input"
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
