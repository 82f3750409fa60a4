"""`hsdns WORDS`: a command that ends by itself runs in the process of the test, and a server in one of its own.

Path: the tests of docs run with them what a page shows.
Rule: starting Python takes most of the time of a short command, so none is started for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

from hsdns import cli

ROOT: Final = Path(__file__).resolve().parents[3]
ENVIRON: Final = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
HSDNS: Final = (sys.executable, "-m", "hsdns")


def run_command(words: Sequence[str]) -> tuple[int, str]:
    """Run `hsdns WORDS`; its exit status, and what it printed to both of its outputs, in order."""
    with tempfile.TemporaryFile("w+") as file:  # which has a descriptor, as a command may want
        with redirect_stdout(file), redirect_stderr(file):
            try:
                status = cli.main(words)
            except SystemExit as end:  # of argparse
                status = end.code if isinstance(end.code, int) else 1
        file.seek(0)
        return status, file.read()


@contextmanager
def serving(
    *words: str,
    program: Sequence[str] = HSDNS,
    log: Path | None = None,
    environ: Mapping[str, str] = ENVIRON,
) -> Iterator[subprocess.Popen[str]]:
    """A server that has told its version, or with `hsdns serve` what to ask; `log` is the file of what it logs."""
    last = "Several records" if words[0] == "serve" else "CoreDNS-"
    with (
        open(log or os.devnull, "wb") as errors,
        subprocess.Popen(
            [*program, *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**ENVIRON, **environ},
        ) as server,
    ):
        assert server.stdout is not None
        try:
            assert any(last in line for line in server.stdout), "it did not start"
            yield server
        finally:
            server.terminate()
