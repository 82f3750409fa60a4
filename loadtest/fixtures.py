"""The cost of the pytest fixture `hsdns_cluster`: the time until it serves, and what many of them leave behind.

    python -m loadtest.fixtures [COUNT]

Path: a run of pytest with COUNT tests of the fixture, and one with COUNT tests without -> a table on standard output.
Rule 1: each test does what typical tests do: a Service, a fault, a lookup by getaddrinfo, and an open TCP connection.
Rule 2: leaks are counted from test number SETTLED on, because the first tests load modules and fill caches.
Rule 3: pytest keeps a report of each test (here without its log), so memory is compared with the run without the
        fixture.  It is counted in blocks of Python's allocator, because the memory from the kernel depends on where the
        reports are.  Objects of the package hsdns are counted separately, and their number must not grow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from loadtest.figures import Spread
from loadtest.programs import ROOT, configuration

COUNT: Final = 1_000
SETTLED: Final = 10


class Found(NamedTuple):
    """Seconds until each fixture served, and the growth from the end of test SETTLED to that of test COUNT."""

    times: list[float]
    files: int
    threads: int
    objects: int
    blocks: int

    @classmethod
    def read(cls, text: str) -> Found:
        """Read the results of a run of pytest."""
        found: dict[str, Any] = json.loads(text)
        first, last = found["left"]
        more = {name: last[name] - first[name] for name in first}
        return cls(found["times"], **more)


def run(test: str, count: int) -> Found:
    """Run `count` tests of a name; raise subprocess.CalledProcessError if one fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("test_many.py", "conftest.py"):
            text = configuration(f"{file}.txt", count=count, settled=SETTLED)
            (folder / file).write_text(text)
        plugins = ["-p", "hsdns.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:logging"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [sys.executable, "-m", "pytest", "-q", *plugins, "-k", test, "."]
        subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.PIPE)
        return Found.read((folder / "found.json").read_text())


def lines(count: int, used: Found, bare: Found) -> list[str]:
    """The rows of the table."""
    first, *further = (seconds * 1000 for seconds in used.times)
    spread = Spread.of(further)
    left = f"{used.files}, {used.threads}, {used.objects}"
    blocks = (used.blocks - bare.blocks) / (count - SETTLED)
    return [
        f"| ms until the first one of a process serves | {first:.0f} |",
        "| ms until a further one serves: median, p99, worst "
        f"| {spread.median:.1f}, {spread.p99:.1f}, {spread.worst:.1f} |",
        f"| open files, threads and objects of hsdns that {count:,} leave | {left} |",
        f"| blocks of memory that each leaves | {blocks:.2f} |",
    ]


def main() -> int:
    """Run both, and print the table; the status is 1 if something is left behind."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    used, bare = run("test_use", count), run("test_without", count)
    sys.stdout.write(
        "\n".join(["| figure | |", "| --- | ---: |", *lines(count, used, bare)]) + "\n"
    )
    return int(any(each > 0 for each in (used.files, used.threads, used.objects)))


if __name__ == "__main__":
    sys.exit(main())
