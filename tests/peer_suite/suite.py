"""CoreDNS's integration tests, built from a checkout so that they start a process instead of their own server.

Path: test_suite.py -> build() -> a copy of the checkout with process.go in place of caddy -> `go test -c` -> run().
Rule 1: the checkout is only read; nothing of it is kept, and nothing of it is in this tree.
Rule 2: each test has a process group, which is ended with it; only where pytest itself is killed may a server remain.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

VARIABLE: Final = "HSDNS_PEER_SOURCE"
_PROCESS: Final = Path(__file__).parent / "process.go"
_IMPORT: Final = re.compile(r'^(\s*)"github.com/coredns/caddy"$', re.MULTILINE)
_TEST: Final = re.compile(r"^func (Test\w+)\(\w+ \*testing\.T\)", re.MULTILINE)
BUILD_LIMIT: Final = 1200  # seconds; a first build compiles all that CoreDNS depends on
LIMIT: Final = 120  # seconds for one test


class Suite(NamedTuple):
    """A built suite: the program, and the folder in which it has to run."""

    program: Path
    folder: Path


class Outcome(NamedTuple):
    """How a test ended: `passed`, `skipped` or `failed`, and what it printed."""

    status: str
    output: str


def missing() -> str | None:
    """Why the suite cannot be built here, or None."""
    checkout = os.environ.get(VARIABLE)
    if not checkout:
        return f"{VARIABLE} names no checkout of CoreDNS, so its own tests are not run"
    if not (Path(checkout) / "test" / "server.go").is_file():
        return f"{VARIABLE}={checkout} has no test/server.go, so it is no checkout of CoreDNS"
    if shutil.which("go") is None:
        return f"{VARIABLE} is set, but there is no go on PATH to build CoreDNS's tests with"
    return None


def checkout() -> Path:
    """The checkout, where missing() finds nothing missing."""
    return Path(os.environ[VARIABLE]).resolve()


def names(source: Path) -> Iterator[str]:
    """The tests of a checkout, but those that need a service which `go test` leaves out too."""
    for path in sorted((source / "test").glob("*_test.go")):
        text = path.read_text()
        if "\n//go:build" not in f"\n{text}":
            yield from _TEST.findall(text)


def build(source: Path, folder: Path) -> Suite:
    """Build the tests of a checkout in an empty folder; raise CalledProcessError with the compiler's output."""
    copy = folder / "coredns"
    shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    tests = copy / "test"
    for path in (*tests.glob("*.go"), copy / "plugin" / "test" / "scrape.go"):
        path.write_text(use_process(path.read_text()))
    (tests / "peerprocess").mkdir()
    shutil.copy(_PROCESS, tests / "peerprocess")
    program = folder / "suite"
    # Without the paths of the copy in it, what was compiled once is found again.
    command = ["go", "test", "-c", "-trimpath", "-buildvcs=false", "-o", str(program), "./test"]
    subprocess.run(
        command,
        cwd=copy,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_LIMIT,
    )
    return Suite(program, tests)


def use_process(text: str) -> str:
    """Have a file import process.go under caddy's name, and read metrics as text.

    CoreDNS sends them to its tests in another form; the parser for text, which nothing uses there, lacks its setting.
    """
    text = _IMPORT.sub(r'\1caddy "github.com/coredns/coredns/test/peerprocess"', text)
    return text.replace("var parser expfmt.TextParser", "parser := expfmt.NewTextParser(2)")


def run(suite: Suite, name: str, server: Path) -> Outcome:
    """Run one test against a server's program."""
    command = [str(suite.program), f"-test.run=^{name}$", "-test.v", f"-test.timeout={LIMIT}s"]
    process = subprocess.Popen(
        command,
        cwd=suite.folder,
        env=os.environ | {"PEER_SUITE_SERVER": str(server.absolute())},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=2 * LIMIT)
    finally:
        _end_group(process)
    return Outcome(status(process.returncode, name, output), output)


def status(returncode: int, name: str, output: str) -> str:
    """Read the outcome of one test; that none was found is a failure."""
    ran = re.search(rf"^--- (PASS|SKIP|FAIL): {name} ", output, re.MULTILINE)
    if returncode != 0 or ran is None:
        return "failed"
    return {"PASS": "passed", "SKIP": "skipped"}.get(ran[1], "failed")


def _end_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
