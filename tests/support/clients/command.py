"""A command line that ends by itself, run in the process of the test: starting Python for each takes most of its time.

Path: the tests of docs run with it what a page shows; servers are processes of their own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

from hsdns import cli


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
