"""The in-test API server in a separate process, for more changes per second than a kube-apiserver can make.

Path: plan.py -> here -> loadtest/apiserver/control.py, whose docstring describes the requests to `/_control/`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.apiserver.objects import SERVICES_PER_NAMESPACE
from loadtest.bench import Progress
from loadtest.ports import free_port
from loadtest.process import Opened, Process
from loadtest.programs import ROOT
from loadtest.watch.access import Access

START_DEADLINE = 60.0
_BATCH = 50 * SERVICES_PER_NAMESPACE  # Services in one request to load more
_PAUSE = 0.05
_NO_CHANGE = 1 << 40  # more changes than there ever are


class Change(NamedTuple):
    """One change: the clock time when its event could be sent, and which address replaced which."""

    time: float
    namespace: str
    service: str
    old: str
    new: str


class FakeApiProcess(Opened):
    """The API server; a context manager.  With `protobuf`, it gives that to those who accept it."""

    def __init__(self, endpoints: int, *, protobuf: bool = False) -> None:
        self.title = f"in-test API server ({'JSON and protobuf' if protobuf else 'JSON alone'})"
        self.access = Access(free_port())
        self._endpoints = endpoints
        self._protobuf = protobuf
        self.services = 0  # so many are there
        self._seen = 0  # changes of the stream that have been read already
        super().__init__()

    def open(self) -> None:
        """Start it."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-api-")))
        words = (
            *(sys.executable, "-m", "loadtest.apiserver"),
            *("--port", str(self.access.port), "--endpoints", str(self._endpoints)),
            *(("--protobuf",) if self._protobuf else ()),
        )
        self._process = self._stack.enter_context(Process("in-test-api", words, folder, cwd=ROOT))
        self._process.wait_until(
            lambda: self._ask("GET", f"changes?from={_NO_CHANGE}"), START_DEADLINE, "is not up"
        )

    def cpu(self) -> float:
        """CPU time in seconds since the start."""
        return self._process.cpu()

    def create_up_to(self, services: int, progress: Progress) -> None:
        """Ensure that there are at least this many Services, each with its slice."""
        while self.services < services:
            more = min(_BATCH, services - self.services)
            self._ask("POST", "load", {"services": more, "endpoints": self._endpoints})
            self.services += more
            progress.count("Services loaded", self.services, services)

    def create(self, endpoints: int) -> int:
        """Add one more Service with so many endpoints; return its index."""
        self._ask("POST", "load", {"services": 1, "endpoints": endpoints})
        self.services += 1
        return self.services - 1

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    def start_changes(
        self, rate: float, seconds: float = 0, among: int = 0
    ) -> dict[str, list[str]]:
        """Start a stream of changes, each to the next Service; 0 seconds means without end.

        `among`: only the first so many Services are changed, and their addresses before are returned.
        """
        self._seen = 0
        asked = {"rate": rate, "seconds": seconds, "among": among}
        before: dict[str, list[str]] = self._ask("POST", "changes", asked)["before"]
        return before

    def stop_changes(self) -> int:
        """Stop the stream; return the number of changes."""
        return int(self._ask("POST", "stop", {})["count"])

    def is_changing(self) -> bool:
        """Whether the stream is running."""
        return bool(self._ask("GET", f"changes?from={_NO_CHANGE}")["running"])

    def changes(self, first: int = 0) -> list[Change]:
        """The changes of the last stream, from that number on."""
        return [Change(*found) for found in self._ask("GET", f"changes?from={first}")["changes"]]

    def first_change(self) -> Change:
        """The first change of the stream; waits for it."""
        while not (found := self.changes()):
            time.sleep(_PAUSE)
        return found[0]

    def last_change(self) -> Change:
        """The latest change of the stream; waits for the first one."""
        # Only the end of a long list need come.
        self._seen = max(self._seen, self._ask("GET", f"changes?from={_NO_CHANGE}")["count"] - 1)
        while True:
            found = self._ask("GET", f"changes?from={self._seen}")["changes"]
            if found:
                self._seen += len(found) - 1
                return Change(*found[-1])
            time.sleep(_PAUSE)

    def _ask(self, method: str, word: str, body: object = None) -> dict[str, Any]:
        found: dict[str, Any] = self.access.ask(method, f"/_control/{word}", body)
        return found
