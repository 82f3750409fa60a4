"""`hsdns fault run SCENARIO`: applies the rules of a scenario to a running server, in real time.

Path: cli/fault.py -> here -> /v1/faults of the running server, or of a separate cluster.
Rule 1: at the end, also after Ctrl-C, all its rules are removed; if this process is killed, they expire.
Rule 2: the objects of a running server are not changed: a scenario that needs others uses a separate cluster, or is
        refused.

A cluster for one scenario: a folder with manifests, or an API, and `hsdns serve` for it on a free port of loopback.

A Kubernetes API for a scenario with rules about the watch: its separate cluster has one, in place of files:
Rule: it listens on loopback, and serves only list and watch.

The lookups of a scenario against a running server: a thread for each program, with real waits.
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
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from random import Random
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlencode

import yaml

from hsdns.cli.command import FlagError, say
from hsdns.cli.fault import PAGE
from hsdns.cli.fault import name_of as name_of_flag
from hsdns.cli.resolve_server import server_steps
from hsdns.cli.running_server import NotRunning, Refused, RunningServer, ServerError, find
from hsdns.cluster.objects import Deleted, Upserted
from hsdns.cluster.objects import Event as ObjectEvent
from hsdns.corefile.properties import duration_to_text
from hsdns.fault_scenarios.memory_server import Objects
from hsdns.fault_scenarios.play import COREFILE, SERVERS, TYPES, resolv_conf
from hsdns.fault_scenarios.scenario import Scenario, Seen, Step, load, name_of
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.history import KINDS, ApiHistory
from hsdns.resolver import MODELS
from hsdns.resolver.model import Ended

if TYPE_CHECKING:
    from hsdns.cli.fault import Fault

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
LOOK: Final = 0.5  # seconds between two checks of the hits
SPARE: Final = 60.0  # seconds that a rule would outlive its scenario, if it were not removed
Change = Callable[[Step], None] | None


def play_in_real_time(name: str, options: Fault) -> int:
    """Play a scenario; return the exit status; raise ScenarioError, FlagError or ServerError."""
    scenario, as_json = load(name), options.o == "json"
    server = _running(options)
    if server is None:
        if options.about is not None:
            raise FlagError("-name is for a server that runs; leave it out")
        return _with_own_cluster(scenario, options)
    if scenario.own:
        raise FlagError(
            f"{scenario.name} is not for a server that runs: {scenario.own}; "
            "with -own it has a cluster of its own"
        )
    if options.ask:
        raise FlagError("-ask is for a cluster of its own; add -own, or ask with hsdns resolve")
    if options.about is not None:
        scenario = scenario.about(name_of_flag(options.about))
    run = _Run(scenario, server, as_json)
    run.say(f"the server at {server.path} (process {server.pid}) gets the rules")
    return run.play(None, None)


def _running(options: Fault) -> RunningServer | None:
    if options.own:
        return None
    try:
        return options.server()
    except NotRunning:
        return None


def _with_own_cluster(scenario: Scenario, options: Fault) -> int:
    with OwnCluster(scenario) as cluster:
        run = _Run(scenario, cluster.server, options.o == "json")
        run.say(f"a cluster of its own is served at {SERVERS[0]} port {cluster.port}")
        askers = Askers(scenario, cluster.port) if options.ask is not False else None
        return run.play(cluster.change, askers)


class _Run:
    """A scenario in progress."""

    def __init__(self, scenario: Scenario, server: RunningServer, as_json: bool) -> None:
        self._scenario, self._server, self._as_json = scenario, server, as_json
        self._hits: dict[str, int] = {}
        self._added: list[str] = []  # the active rules
        self._stopped = Event()

    def play(self, change: Change, askers: Askers | None) -> int:
        """Play it, return the exit status; `change` changes objects, if that is possible, `askers` look up names."""
        scenario = self._scenario
        self.say(f"{scenario.name}: {scenario.title}, {duration_to_text(scenario.seconds)}")
        self._began = time.monotonic()
        handlers = {each: signal.signal(each, self._stop) for each in ENDING}
        try:
            self._play(change, askers)
            if self._stopped.is_set():
                self.say("it ends before its time")
        finally:
            self._remove_all()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self._report(askers)

    def say(self, text: str) -> None:
        """Print a line of progress, if the output is for a reader."""
        if not self._as_json:
            say(text, flush=True)

    def _stop(self, number: int, frame: object) -> None:
        """Handle a signal without interrupting the work, so that a second one does not prevent the cleanup."""
        self._stopped.set()

    def _play(self, change: Change, askers: Askers | None) -> None:
        for step in self._scenario.steps:
            if step.at and askers is not None:
                askers.start()
            self._wait_until(step.at)
            if self._stopped.is_set():
                return
            self._do(step, change)
        if askers is not None:
            askers.start()
        self._wait_until(self._scenario.seconds, askers)

    def _do(self, step: Step, change: Change) -> None:
        if step.apply or step.delete:
            if change is not None:
                change(step)
            own = (
                "change" if change is not None else "would change here: change some of your cluster"
            )
            self._progress("objects", own)
        for name in step.remove:
            self._remove(name)
        for rule in step.add:
            self._add(rule)

    def _add(self, rule: str) -> None:
        left = self._scenario.seconds - (time.monotonic() - self._began) + SPARE
        is_endless = " for " not in f" {rule} "
        text = f"{rule} for {max(left, SPARE):.0f}s" if is_endless else rule
        name = name_of(rule)
        list(self._server.lines(PAGE, "POST", json.dumps({"rule": text}).encode()))
        self._added.append(name)
        self._hits[name] = 0
        self._progress(name, f"stands: {rule}")

    def _remove(self, name: str) -> None:
        self._look()
        with contextlib.suppress(Refused):  # it has ended already
            page = f"{PAGE}?{urlencode({'name': name})}"
            for rule in self._server.lines(page, "DELETE"):
                self._hits[name] = rule["hits"]
            self._progress(name, f"is removed, hits: {self._hits[name]}")
        self._added.remove(name)

    def _remove_all(self) -> None:
        for name in [*self._added]:
            try:
                self._remove(name)
            except ServerError as error:  # it has ended
                self.say(str(error))
                return

    def _wait_until(self, second: float, askers: Askers | None = None) -> None:
        while (left := self._began + second - time.monotonic()) > 0:
            self._stopped.wait(min(left, LOOK))
            self._look()
            if self._stopped.is_set() or (askers is not None and askers.have_ended()):
                return

    def _look(self) -> None:
        """Show new hits."""
        for rule in self._server.lines(PAGE):
            name, hits = rule["name"], rule["hits"]
            if name in self._added and hits != self._hits[name]:
                self._hits[name] = hits
                self._progress(name, _hits_text(rule))

    def _progress(self, name: str, text: str) -> None:
        at = time.monotonic() - self._began
        if self._as_json:
            line: dict[str, Any] = {"second": round(at, 1), "about": name, "what": text}
            say(json.dumps(line), flush=True)
        else:
            say(f"{at:7.1f}  {name}: {text}", flush=True)

    def _report(self, askers: Askers | None) -> int:
        missed = [name for name, hits in self._hits.items() if not hits]
        results = askers.results() if askers is not None else []
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


HOST: Final = "127.0.0.1"
TIMEOUT: Final = 20.0  # seconds for any call


class OwnApi:
    """The API; `url` is the URL for `endpoint` in a Corefile.  stop() ends its thread."""

    def __init__(self) -> None:
        self._objects, self._history = Objects(), ApiHistory()
        self._api = ClusterApi(self._history, HOST, 0)
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.result(TIMEOUT)
        self.url = self._api.url

    def change(self, step: Step) -> None:
        """Apply a step to its objects; raise ScenarioError."""
        events = self._objects.change(step.apply, step.delete)
        self._call(lambda: self._put(events))

    def stop(self) -> None:
        """Stop it."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(TIMEOUT)

    def _put(self, events: list[ObjectEvent]) -> None:
        for event in events:
            if isinstance(event, Upserted | Deleted) and type(event.object) in KINDS:
                change = self._history.put if isinstance(event, Upserted) else self._history.remove
                change(event.object)
        self._api.changed()

    def _call(self, function: Callable[[], None]) -> None:
        async def call() -> None:
            function()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(TIMEOUT)

    def _run(self, started: Future[None]) -> None:
        asyncio.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._api.start()
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(None)
        try:
            await self._ended.wait()
        finally:
            await self._api.stop()


NETWORK: Final = 0.05  # seconds of a lookup that do not count as delay


class Askers:
    """The clients of a scenario, which query one nameserver, as in any pod, at a loopback port."""

    def __init__(self, scenario: Scenario, port: int) -> None:
        self._began = 0.0
        self._stopped = Event()
        count = max((each.programs for each in scenario.asked), default=0)
        self._programs = {
            seen.label: [_Program(scenario, seen, number, port) for number in range(count)]
            for seen in scenario.seen
            if seen.is_direct
        }
        self._threads = [
            threading.Thread(target=each.run, args=(self._stopped,), daemon=True)
            for programs in self._programs.values()
            for each in programs
        ]

    def start(self) -> None:
        """Start the lookups, unless they were started."""
        if not self._began:
            self._began = time.monotonic()
            for thread in self._threads:
                thread.start()

    def have_ended(self) -> bool:
        """Whether all lookups have ended."""
        return bool(self._began) and not any(thread.is_alive() for thread in self._threads)

    def results(self) -> list[dict[str, Any]]:
        """The results of each client so far; waiting clients continue."""
        self._stopped.set()
        return [_result(label, programs) for label, programs in self._programs.items()]


class _Program:
    """A program of a client, which looks up names one by one; `ended` has the seconds and errors of lookups."""

    def __init__(self, scenario: Scenario, seen: Seen, number: int, port: int) -> None:
        self._server = (SERVERS[0], port)
        asked = [each for each in scenario.asked if number < each.programs]
        self._models = {
            each: MODELS[seen.client](resolv_conf(scenario, seen, each), Random(number))
            for each in {each.namespace for each in asked}
        }
        self._times = sorted(
            (each.at + time * each.every, index, each)
            for index, each in enumerate(asked)
            for time in range(each.times)
        )
        self._kept: dict[str, socket.socket] | None = {} if seen.keeps_socket else None
        self.ended: list[tuple[float, str]] = []

    def run(self, stopped: Event) -> None:
        """Run all lookups."""
        try:
            self._run(stopped)
        finally:
            for sock in (self._kept or {}).values():
                sock.close()

    def _run(self, stopped: Event) -> None:
        began, random = time.monotonic(), Random()
        for at, _, asked in self._times:
            if stopped.wait(max(0.0, began + at - time.monotonic())):
                return
            second, model = time.monotonic() - began, self._models[asked.namespace]
            for step in server_steps(
                model, asked.name, TYPES, self._server, random, second, self._kept
            ):
                if isinstance(step, Ended):
                    self.ended.append((step.at - second, step.result.error))


def _result(label: str, programs: list[_Program]) -> dict[str, Any]:
    """The results of all programs of a client."""
    ended = [each for program in programs for each in [*program.ended]]
    failed = [error for _, error in ended if error]
    return {
        "client": label,
        "lookups": len(ended),
        "seconds": round(sum(each for each, _ in ended if each > NETWORK), 1),
        "failed": len(failed),
        "error": failed[-1] if failed else "",
    }
