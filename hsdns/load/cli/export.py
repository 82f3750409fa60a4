"""The other output of a load test: metrics while it runs, and files for CI at its end.

Path: load.py -> here -> output/ -> files, a Pushgateway.
Rule 1: a file of metrics is written completely under another name and renamed, so that it is never read incomplete.
Rule 2: a slow or unreachable gateway does not delay the run: a thread sends the newest picture.  Errors are reported at
        the end.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hsdns.cli.command import FlagError, complain, say, say_json
from hsdns.load.errors import LoadError

if TYPE_CHECKING:
    from hsdns.load.cli.settings import ReportCommand
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
            raise LoadError(f"-push: {self._gateway} has not taken the metrics: {self._failure}")

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


def check_gateway(url: str) -> str:
    """The address of -push; raise FlagError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise FlagError(f'-push needs an address such as http://127.0.0.1:9091, found "{url}"')
    if "@" in parts.netloc:  # not quoted in the message, because it may contain a password
        raise FlagError("-push: the address of a gateway takes no user name and no password")
    return url


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
        raise LoadError(f"-github: {SUMMARY} names no file, so this is no step of GitHub Actions")


def put_out(report: Report, flags: ReportCommand) -> int:
    """Print a report and write it to the files of -json and -html; return the exit status."""
    from hsdns.load.output.page import page
    from hsdns.load.output.text import lines
    from hsdns.load.report import encode, exit_status, plain

    if flags.o == "json":
        say_json(plain(report))
    else:
        say(*lines(report))
    try:
        if flags.json:
            Path(flags.json).write_bytes(encode(report))
        if flags.html:
            Path(flags.html).write_text(page(report), encoding="utf-8")
    except OSError as error:
        complain(f"the report cannot be written: {error}")
        return 2
    return exit_status(report)
