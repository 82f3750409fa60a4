"""A cluster for one scenario: a folder with manifests, or an API, and `hsdns serve` for it on a free port of loopback.

Path: fault_run.py -> here -> a separate process; it ends with the `with` block, and leaves no files.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import yaml

from hsdns.cli.running_server import RunningServer, ServerError, find
from hsdns.fault_scenarios.play import COREFILE, SERVERS
from hsdns.fault_scenarios.scenario import Scenario, Step

if TYPE_CHECKING:
    from hsdns.cli.fault_api import OwnApi

PAGE: Final = "/v1/faults"
START: Final = 20.0  # seconds until it answers
POLL: Final = 0.05
SOURCE: Final = "source manifests /"  # in a Corefile, replaced by the location of the objects
_BLOCK: Final = re.compile(r"^(\S.*)\{$", re.MULTILINE)


class OwnCluster:
    """A context manager; inside it, the cluster is served at `port` of the addresses SERVERS."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._servers = max((each.servers for each in scenario.seen), default=1)
        rules = [rule for step in scenario.steps for rule in step.add]
        self._is_watched = any(rule.split()[0] == "watch" for rule in rules)
        self._api: OwnApi | None = None

    def __enter__(self) -> Self:
        """Start it; raise ServerError."""
        self._folder = tempfile.TemporaryDirectory(prefix="hsdns-fault-")
        folder = Path(self._folder.name)
        self._objects = folder / "objects"
        self._objects.mkdir()
        if self._is_watched:
            from hsdns.cli.fault_api import OwnApi

            self._api = OwnApi()
        self.change(Step(apply=self._scenario.manifests))
        self.port = free_port(SERVERS[: self._servers])
        corefile, self._door = folder / "Corefile", folder / "control.sock"
        corefile.write_text(self._corefile())
        words = ["serve", "-quiet", "-conf", corefile, "-p", self.port, "-control", self._door]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hsdns", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the command, which ends it
        )
        try:
            self.server = self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.communicate()
        if self._api is not None:
            self._api.stop()
        self._folder.cleanup()

    def change(self, step: Step) -> None:
        """Apply a step to its objects."""
        if self._api is not None:
            self._api.change(step)
            return
        for document in yaml.safe_load_all(step.apply):
            if document:
                meta = document["metadata"]
                path = self._path(document["kind"], meta.get("namespace", ""), meta["name"])
                written = path.with_suffix(".tmp")
                written.write_text(yaml.safe_dump(document))
                written.rename(path)
        for text in step.delete:
            kind, _, place = text.partition(" ")
            self._path(kind, *place.split("/")).unlink()

    def _path(self, *words: str) -> Path:
        return self._objects / f"{'-'.join(words)}.yaml"

    def _corefile(self) -> str:
        text = self._scenario.corefile or COREFILE
        source = f'source manifests "{self._objects}"'
        if self._api is not None:
            source = f"endpoint {self._api.url}"
        text = text.replace(SOURCE, source)
        return _BLOCK.sub(rf"\1{{\n    bind {' '.join(SERVERS[: self._servers])}", text)

    def _wait(self) -> RunningServer:
        deadline = time.monotonic() + START
        while True:
            try:
                server = find(str(self._door))
                list(server.lines(PAGE))  # refused while it is starting
                return server
            except ServerError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise ServerError(f"its own cluster did not start: {self._said() or error}") from None  # fmt: skip
            time.sleep(POLL)

    def _said(self) -> str:
        if self._process.poll() is None or self._process.stderr is None:
            return ""
        return self._process.stderr.read().strip().rpartition("\n")[2]


def free_port(addresses: tuple[str, ...]) -> int:
    """A port that is free for UDP and TCP at all addresses; raise ServerError."""
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as first:
            first.bind((addresses[0], 0))
            port: int = first.getsockname()[1]
        if all(_is_free(address, port) for address in addresses):
            return port
    raise ServerError(f"no port is free at {' and '.join(addresses)}")


def _is_free(address: str, port: int) -> bool:
    kinds: tuple[Any, ...] = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    for kind in kinds:
        with socket.socket(socket.AF_INET, kind) as sock:
            try:
                sock.bind((address, port))
            except OSError:
                return False
    return True
