"""A CoreDNS process that answers scenarios, and what a scenario's Corefile needs to run on real sockets.

Path: tests/test_scenarios.py -> Peer -> the binary that HSDNS_PEER names, fed by fake_api.py.
Rule 1: the process is waited for by asking: /ready where the cluster syncs, then a query over TCP and one over UDP.
Rule 2: it listens on loopback only (`bind 127.0.0.1`), unless the scenario needs every address.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import aiohttp

from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port
from tests.support.clients.exchange import PROBE, PROBE_IDS, ask_tcp, ask_udp
from tests.support.scenarios.scenario import Event, Scenario

START_DEADLINE = 20.0  # seconds; a start takes 0.2 on an idle machine
_PAUSE = 0.01
_PROBE_TIMEOUT = 0.5
_DIRECTIVE = re.compile(r"^(\s+)(\w+)(.*)$")


class PeerError(RuntimeError):
    """The process did not come up; the message ends with what it printed."""


def prepare_corefile(
    text: str, *, kubernetes: str, http: Mapping[str, str], bind: str | None, upstream_port: int
) -> str:
    """Add what a run needs and a scenario omits.

    `kubernetes` is a line for the body of each kubernetes directive, `http` the addresses of ready, health and
    prometheus where they stand without one; `ready` is added to the first block that has none.
    """
    text = text.replace("UPSTREAM_PORT", str(upstream_port))
    written: list[str] = []
    has_ready = re.search(r"^\s+ready\b", text, re.MULTILINE) is not None
    has_bind = re.search(r"^\s+bind\b", text, re.MULTILINE) is not None
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith((" ", "\t", "(")):
            written.append(line)
            if bind and not has_bind:
                written.append(f"    bind {bind}")
            if not has_ready and "ready" in http:
                written.append(f"    ready {http['ready']}")
                has_ready = True
            continue
        found = _DIRECTIVE.match(line)
        indent, word, rest = found.groups() if found else ("", "", "")
        if word == "kubernetes" and len(indent) == 4 and kubernetes:
            opened = rest.rstrip().endswith("{")
            written.append(line if opened else f"{line} {{")
            written.append(f"        {kubernetes}")
            if not opened:
                written.append("    }")
        elif word in http and rest.strip() in ("", "{"):
            written.append(f"{indent}{word} {http[word]}{rest}")
        else:
            written.append(line)
    return "\n".join(written) + "\n"


class Peer:
    """CoreDNS, for one scenario; an asynchronous context manager."""

    def __init__(self, binary: str, scenario: Scenario) -> None:
        self._binary = binary
        self._scenario = scenario
        self._api = FakeApi()
        self._folder = tempfile.TemporaryDirectory(prefix="peer-")
        self._log: IO[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.address = ("127.0.0.1", free_port())

    async def __aenter__(self) -> Peer:
        if "unsynced" in self._scenario.needs:
            self._api.hold_sync()
        await self._api.__aenter__()
        try:
            for manifest in self._scenario.objects:
                self._api.apply(manifest)
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._log is not None:
            self._log.close()
        await self._api.__aexit__()
        self._folder.cleanup()

    async def apply(self, event: Event) -> None:
        """Change the cluster."""
        for verb, manifest in event.changes:
            if verb == "delete":
                self._api.delete(manifest)
            else:
                self._api.apply(manifest)
        if event.synced:
            self._api.release_sync()

    async def _start(self) -> None:
        http = {name: f"127.0.0.1:{free_port()}" for name in ("ready", "health", "prometheus")}
        corefile = prepare_corefile(
            self._scenario.corefile,
            kubernetes=f"endpoint {self._api.url}",
            http=http,
            bind=None if "every address" in self._scenario.needs else "127.0.0.1",
            upstream_port=free_port(),
        )
        path, self._log = self._files(corefile)
        self._process = await asyncio.create_subprocess_exec(
            self._binary,
            *("-conf", str(path), "-dns.port", str(self.address[1])),
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + START_DEADLINE
        if "unsynced" not in self._scenario.needs:
            await self._wait_ready(f"http://{http['ready']}/ready", deadline)
        await self._wait_listening(deadline)

    def _files(self, corefile: str) -> tuple[Path, IO[bytes]]:
        path = Path(self._folder.name, "Corefile")
        path.write_text(corefile, encoding="utf-8")
        log = Path(self._folder.name, "log").open("wb")  # noqa: SIM115 - lives as long as the process
        return path, log

    async def _wait_ready(self, url: str, deadline: float) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                self._check(deadline)
                try:
                    async with session.get(url) as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(_PAUSE)

    async def _wait_listening(self, deadline: float) -> None:
        """Query over TCP, then over UDP, until each replies: CoreDNS opens one after the other."""
        for ask in (ask_tcp, ask_udp):
            while True:
                self._check(deadline)
                try:
                    async with asyncio.timeout(_PROBE_TIMEOUT):
                        await ask(self.address, PROBE_IDS[0] + PROBE)
                    break
                except (OSError, EOFError):  # refused, closed, or no reply in time
                    await asyncio.sleep(_PAUSE)

    def _check(self, deadline: float) -> None:
        """Raise PeerError if the process has ended or the time is up."""
        assert self._process is not None
        if self._process.returncode is None and time.monotonic() < deadline:
            return
        printed = Path(self._folder.name, "log").read_text(errors="replace")
        ended = self._process.returncode
        what = "is not up in time" if ended is None else f"ended with status {ended}"
        raise PeerError(f"{self._scenario.path}: {self._binary} {what}:\n{printed}")
