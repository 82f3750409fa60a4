"""The in-test API server in a process of its own, for more changes a second than a kube-apiserver here can give.

Path: plan.py -> here -> loadtest/apiserver/control.py, whose docstring says what `/_control/` understands.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

from loadtest.apiserver.objects import SERVICES_PER_NAMESPACE
from loadtest.ports import free_port
from loadtest.process import Failed, Process
from loadtest.progress import Progress
from loadtest.watch.access import Access

ROOT = Path(__file__).resolve().parents[2]
START_DEADLINE = 60.0
_BATCH = 50 * SERVICES_PER_NAMESPACE  # Services in one request to load more
_PAUSE = 0.05
_NONE = 1 << 40  # more changes than there ever are


class Change(NamedTuple):
    """One change: when its event was there to be sent, in the clock's seconds, and what it put in the place of what."""

    time: float
    namespace: str
    service: str
    old: str
    new: str


class FakeApiProcess:
    """The API server; a context."""

    title = "in-test API server (JSON alone)"

    def __init__(self, endpoints: int) -> None:
        self.access = Access(free_port())
        self._endpoints = endpoints
        self.services = 0  # so many are there
        self._seen = 0  # changes of the stream that have been read already
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            folder = Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-api-"))
            )
            words = (
                *(sys.executable, "-m", "loadtest.apiserver"),
                *("--port", str(self.access.port), "--endpoints", str(self._endpoints)),
            )
            self._process = self._stack.enter_context(
                Process("in-test-api", words, folder, cwd=ROOT)
            )
            self._wait()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def cpu(self) -> float:
        """Seconds of CPU since the start."""
        return self._process.cpu()

    def grow(self, services: int, progress: Progress) -> None:
        """Let there be so many Services, each with its slice; there may be more already."""
        whole = services
        while self.services < services:
            more = min(_BATCH, services - self.services)
            self._ask("POST", "load", {"services": more, "endpoints": self._endpoints})
            self.services += more
            progress.count("Services loaded", self.services, whole)

    def start_changes(self, rate: float, seconds: float = 0) -> None:
        """Begin a stream of changes, each to the next Service; 0 seconds is without an end."""
        self._seen = 0
        self._ask("POST", "changes", {"rate": rate, "seconds": seconds})

    def stop_changes(self) -> int:
        """End the stream; return how many changes it made."""
        return int(self._ask("POST", "stop", {})["count"])

    def is_changing(self) -> bool:
        """Whether the stream goes on."""
        return bool(self._ask("GET", f"changes?from={_NONE}")["running"])

    def changes(self) -> list[Change]:
        """All changes of the last stream."""
        return [Change(*found) for found in self._ask("GET", "changes?from=0")["changes"]]

    def last_change(self) -> Change:
        """The newest change of the stream; the first one is waited for."""
        # Only the end of a long list need come.
        self._seen = max(self._seen, self._ask("GET", f"changes?from={_NONE}")["count"] - 1)
        while True:
            found = self._ask("GET", f"changes?from={self._seen}")["changes"]
            if found:
                self._seen += len(found) - 1
                return Change(*found[-1])
            time.sleep(_PAUSE)

    def _ask(self, method: str, word: str, body: object = None) -> dict[str, Any]:
        found: dict[str, Any] = self.access.ask(method, f"/_control/{word}", body)
        return found

    def _wait(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while True:
            self._process.check()
            try:
                self.is_changing()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise Failed(
                        f"the in-test API server is not up:\n{self._process.printed()}"
                    ) from None
            time.sleep(_PAUSE)
