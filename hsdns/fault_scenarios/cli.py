"""`hsdns fault run SCENARIO`: applies the rules of a scenario to a running server, in real time.

Path: faults/cli.py -> here -> /v1/faults of the running server, or of a separate cluster; fault_scenarios/play.py looks
names up.
Rule 1: at the end, also after Ctrl-C, all its rules are removed; if this process is killed, they expire.
Rule 2: the objects of a running server are not changed: a scenario that needs others uses a separate cluster, or is
        refused.
Rule 3: a separate cluster is `hsdns serve` on a free port of loopback, which watches a Kubernetes API of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from hsdns.ask.lookup import LONGEST, Sockets
from hsdns.cli.command import FlagError, say
from hsdns.cli.running_server import NotRunning, Refused, RunningServer, ServerError, find
from hsdns.cluster.objects import Deleted, Upserted
from hsdns.corefile.properties import duration_to_text
from hsdns.fault_scenarios.memory_server import Objects
from hsdns.fault_scenarios.play import COREFILE, SERVERS, Program, programs
from hsdns.fault_scenarios.scenario import Scenario, Seen, Step, load, name_of
from hsdns.faults.cli import PAGE
from hsdns.faults.cli import name_of as name_of_flag
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.history import RESOURCES, ApiHistory
from hsdns.resolver.model import Model

if TYPE_CHECKING:
    from hsdns.faults.cli import Fault

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
LOOK: Final = 0.5  # seconds between two checks of the hits
SPARE: Final = 60.0  # seconds that a rule would outlive its scenario, if it were not removed
NETWORK: Final = 0.05  # seconds of a lookup that do not count as delay


def play_in_real_time(name: str, options: Fault) -> int:
    """Play a scenario; return the exit status; raise ScenarioError, FlagError or ServerError."""
    scenario = load(name)
    try:
        server = None if options.own else options.server()
    except NotRunning:
        server = None
    if server is None:
        if options.about is not None:
            raise FlagError("--name is for a server that runs; remove it")
        return asyncio.run(_with_own_cluster(scenario, options))
    if scenario.own:
        raise FlagError(f"{scenario.name} needs its own cluster: {scenario.own}; add --own")
    if options.ask:
        raise FlagError("--ask needs --own; add it, or use hsdns resolve")
    if options.about is not None:
        scenario = scenario.about(name_of_flag(options.about))
    run = _Run(scenario, server, options.o == "json")
    return asyncio.run(run.play())


async def _with_own_cluster(scenario: Scenario, options: Fault) -> int:
    async with own_cluster(scenario) as cluster:
        asking = clients(scenario, cluster.port) if options.ask is not False else {}
        run = _Run(scenario, cluster.server, options.o == "json", cluster.change, asking)
        run.say(f"the scenario's own cluster is served at {SERVERS[0]} port {cluster.port}")
        return await run.play()


def clients(scenario: Scenario, port: int) -> dict[str, list[Program]]:
    """The programs of each client, which query one nameserver, as in any pod, at a loopback port."""

    def programs_of(seen: Seen) -> list[Program]:
        def connect(model: Model) -> Sockets:
            return Sockets(model, (SERVERS[0], port), Random(), keeps_socket=seen.keeps_socket)

        return programs(scenario, lambda number: Program(scenario, seen, number, connect))

    return {seen.label: programs_of(seen) for seen in scenario.seen if seen.is_direct}


class _Run:
    """A scenario in progress; `change` changes objects, if that is possible, `asking` look up names."""

    def __init__(
        self,
        scenario: Scenario,
        server: RunningServer,
        as_json: bool,
        change: Callable[[Step], None] | None = None,
        asking: Mapping[str, Sequence[Program]] = {},
    ) -> None:
        self._scenario, self._server, self._as_json = scenario, server, as_json
        self._change, self._asking = change, asking
        self._hits: dict[str, int] = {}
        self._added: list[str] = []  # the active rules

    async def play(self) -> int:
        """Play it, return the exit status."""
        scenario, loop = self._scenario, asyncio.get_running_loop()
        self.say(f"{scenario.name}: {scenario.title}, {duration_to_text(scenario.seconds)}")
        self._began, self._stopped = loop.time(), asyncio.Event()
        for each in ENDING:
            loop.add_signal_handler(each, self._stopped.set)
        try:
            await self._play()
            if self._stopped.is_set():
                self.say("it ends before its time")
        finally:
            await self._remove_all()
            for each in ENDING:
                loop.remove_signal_handler(each)
        return self._report([_result(*each) for each in self._asking.items()])

    def say(self, text: str) -> None:
        """Print a line of progress, if the output is for a reader."""
        if not self._as_json:
            say(text, flush=True, fits=True)

    async def _play(self) -> None:
        lookups: asyncio.Future[Any] | None = None
        for step in (*self._scenario.steps, None):
            if self._asking and lookups is None and (step is None or step.at):
                running = (each.run() for programs in self._asking.values() for each in programs)
                lookups = asyncio.gather(*running)
            if step is None:
                await self._wait_until(self._scenario.seconds, lookups)
                break
            await self._wait_until(step.at, None)
            if self._stopped.is_set():
                break
            await self._do(step)
        if lookups is not None:
            lookups.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await lookups

    async def _do(self, step: Step) -> None:
        if step.apply or step.delete:
            if self._change is not None:
                self._change(step)
                self._progress("objects", "change")
            else:
                self._progress("objects", "would change here: change some of your cluster")
        for name in step.remove:
            await self._remove(name)
        for rule in step.add:
            await self._add(rule)

    async def _add(self, rule: str) -> None:
        left = self._scenario.seconds - self._age() + SPARE
        is_endless = " for " not in f" {rule} "
        text = f"{rule} for {max(left, SPARE):.0f}s" if is_endless else rule
        name = name_of(rule)
        await self._lines(PAGE, "POST", json.dumps({"rule": text}).encode())
        self._added.append(name)
        self._hits[name] = 0
        self._progress(name, f"active: {rule}")

    async def _remove(self, name: str) -> None:
        await self._look()
        with contextlib.suppress(Refused):  # it has ended already
            page = f"{PAGE}?{urlencode({'name': name})}"
            for rule in await self._lines(page, "DELETE"):
                self._hits[name] = rule["hits"]
            self._progress(name, f"is removed, hits: {self._hits[name]}")
        self._added.remove(name)

    async def _remove_all(self) -> None:
        for name in [*self._added]:
            try:
                await self._remove(name)
            except ServerError as error:  # it has ended
                self.say(str(error))
                return

    async def _wait_until(self, second: float, lookups: asyncio.Future[Any] | None) -> None:
        stopped = asyncio.ensure_future(self._stopped.wait())
        while (left := second - self._age()) > 0:
            await asyncio.wait([stopped], timeout=min(left, LOOK))
            await self._look()
            if stopped.done() or (lookups is not None and lookups.done()):
                break
        stopped.cancel()

    def _age(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    async def _lines(
        self, page: str, method: str = "GET", body: bytes = b""
    ) -> list[dict[str, Any]]:
        return await asyncio.to_thread(lambda: list(self._server.lines(page, method, body)))

    async def _look(self) -> None:
        """Show new hits."""
        for rule in await self._lines(PAGE):
            name, hits = rule["name"], rule["hits"]
            if name in self._added and hits != self._hits[name]:
                self._hits[name] = hits
                self._progress(name, _hits_text(rule))

    def _progress(self, name: str, text: str) -> None:
        at = self._age()
        if self._as_json:
            line: dict[str, Any] = {"second": round(at, 1), "about": name, "what": text}
            say(json.dumps(line), flush=True)
        else:
            say(f"{at:7.1f}  {name}: {text}", flush=True, fits=True)

    def _report(self, results: list[dict[str, Any]]) -> int:
        missed = [name for name, hits in self._hits.items() if not hits]
        if self._as_json:
            found = {"scenario": self._scenario.name, "hits": self._hits}
            say(json.dumps({**found, "never_hit": missed, "clients": results}))
            return 1 if missed else 0
        for each in results:
            bad = f", failed: {each['failed']} ({each['error']})" if each["failed"] else ""
            self.say(
                f"{each['client']}: lookups: {each['lookups']}, {each['seconds']:.1f} s lost{bad}"
            )
        for name in missed:
            self.say(f'no query was hit by the rule "{name}", so it has shown nothing')
        return 1 if missed else 0


def _hits_text(rule: Mapping[str, Any]) -> str:
    """The number of hits of a rule as text; restarts have no total."""
    of = "" if rule["counts"] == "restarts" else f" of {rule['queries']} {rule['counts']}"
    return f"hits: {rule['hits']}{of}"


def _result(label: str, asking: Sequence[Program]) -> dict[str, Any]:
    """The results of all programs of a client; waiting ones are left out."""
    lookups = [each for program in asking for each in program.lookups]
    errors = [each.result.error for each in lookups if each.result.error]
    return {
        "client": label,
        "lookups": len(lookups),
        "seconds": round(
            sum(min(each.seconds, LONGEST) for each in lookups if each.seconds > NETWORK), 1
        ),
        "failed": len(errors),
        "error": errors[-1] if errors else "",
    }


START: Final = 20.0  # seconds until it answers
POLL: Final = 0.05
SOURCE: Final = "source manifests /"  # in a Corefile, replaced by the location of the objects
_BLOCK: Final = re.compile(r"^(\S.*)\{$", re.MULTILINE)


class OwnCluster:
    """The objects of the cluster in an API, and its server at `port`."""

    def __init__(self, api: ClusterApi) -> None:
        self._api, self._objects = api, Objects()
        self.port = 0
        self.server: RunningServer

    def change(self, step: Step) -> None:
        """Apply a step to its objects; raise ScenarioError."""
        history = self._api.history
        for event in self._objects.change(step):
            if isinstance(event, Upserted | Deleted) and type(event.object) in RESOURCES:
                change = history.put if isinstance(event, Upserted) else history.remove
                change(event.object)
        self._api.changed()


@contextlib.asynccontextmanager
async def own_cluster(scenario: Scenario) -> AsyncIterator[OwnCluster]:
    """A cluster that is served at loopback addresses; raise ServerError."""
    addresses = SERVERS[: max((each.servers for each in scenario.seen), default=1)]
    api = ClusterApi(ApiHistory(), SERVERS[0], 0)
    await api.start()
    cluster = OwnCluster(api)
    try:
        cluster.change(Step(apply=scenario.manifests))
        cluster.port = free_port(addresses)
        with tempfile.TemporaryDirectory(prefix="hsdns-fault-") as folder:
            conf, door = Path(folder, "Corefile"), Path(folder, "control.sock")
            _write_corefile(conf, scenario, addresses, api.url)
            words = ["serve", "-quiet", "-conf", conf, "-p", cluster.port, "-control", door]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hsdns", *map(str, words)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C goes to the command, which ends it
            )
            try:
                cluster.server = await _started(process, str(door))
                yield cluster
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.communicate()
    finally:
        await api.stop()


def _write_corefile(path: Path, scenario: Scenario, addresses: Sequence[str], api: str) -> None:
    text = (scenario.corefile or COREFILE).replace(SOURCE, f"endpoint {api}")
    path.write_text(_BLOCK.sub(rf"\1{{\n    bind {' '.join(addresses)}", text))


async def _started(process: asyncio.subprocess.Process, door: str) -> RunningServer:
    def ready() -> RunningServer:
        server = find(door)
        list(server.lines(PAGE))  # refused while it is starting
        return server

    deadline = time.monotonic() + START
    while True:
        try:
            return await asyncio.to_thread(ready)
        except ServerError as error:
            why = str(error)
        if process.returncode is not None or time.monotonic() > deadline:
            if process.returncode is not None and process.stderr is not None:
                said = (await process.stderr.read()).decode().strip().rpartition("\n")[2]
                why = said or why
            raise ServerError(f"its own cluster did not start: {why}")
        await asyncio.sleep(POLL)


def free_port(addresses: Sequence[str]) -> int:
    """A port that is free for UDP and TCP at all addresses; raise ServerError."""
    for _ in range(100):
        port = 0
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                for address in addresses:
                    sock = stack.enter_context(socket.socket(socket.AF_INET, kind))
                    sock.bind((address, port))
                    port = sock.getsockname()[1]
            return port
    raise ServerError(f"no port is free at {' and '.join(addresses)}")
