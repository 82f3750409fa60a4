"""The client side of node_process.py: a node of a cluster, with a server under test on it, in namespaces of its own.

Path: a test's fixture -> Node -> a process of node_process.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.namespaces.node_process import SERVER_ADDRESS

__all__ = ["SERVER_ADDRESS", "Node", "NodeError", "open_node"]

ROOT = Path(__file__).resolve().parents[3]
NEEDED = ("unshare", "nsenter", "mount", "ip", "openssl")


class NodeError(RuntimeError):
    """An error that the process, or a server in it, reports."""


class Node:
    """A process in its own namespaces; a context manager."""

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="hsdns-node-")
        spread = ("unshare", "--user", "--map-root-user", "--net", "--mount")
        self._process = subprocess.Popen(
            [*spread, sys.executable, "-m", "tests.support.namespaces.node_process", self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
        )
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()  # closes its input, which ends it
        os.rmdir(self._folder)  # never its content: in the process's namespace it leads to /etc

    def do(self, what: str, **words: Any) -> dict[str, Any]:
        """Send a command and return its result; raise NodeError."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **words}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def start(self, command: list[str], files: dict[str, str]) -> None:
        """Replace the running server by a new one, with these files under /etc."""
        self.do("start", command=command, files=files)

    def ask(self, address: tuple[str, int], wire: bytes, protocol: str = "udp") -> bytes:
        """Query the server."""
        host, port = address
        found = self.do("ask", host=host, port=port, wire=wire.hex(), protocol=protocol)
        return bytes.fromhex(found["reply"])

    def get(self, url: str) -> tuple[int, str]:
        """Return status and body of an HTTP page of the server."""
        found = self.do("get", url=url)
        return found["status"], found["body"]

    def run(self, *command: str) -> tuple[int, str]:
        """Run a program in a pod; return its status and output."""
        found = self.do("run", command=list(command))
        return found["status"], found["printed"]

    def stop(self) -> tuple[int, str]:
        """End the server; return its status and output."""
        found = self.do("stop")
        return found["status"], found["printed"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise NodeError(self._process.stderr.read().strip() or "the process has ended")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise NodeError(found["error"])
        return found


def open_node() -> Node:
    """Open a node, which the fixture closes; skip the test if namespaces are refused, or fail it if they are required."""
    reason = ""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        reason = f"no namespaces without {', '.join(missing)}"
    else:
        try:
            return Node().__enter__()
        except NodeError as error:
            reason = f"namespaces are refused here: {error}"
    if os.environ.get("HSDNS_NAMESPACES") == "required":
        pytest.fail(reason)
    pytest.skip(reason)
