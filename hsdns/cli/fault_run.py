"""`hsdns fault run SCENARIO`: applies the rules of a scenario to a running server, in real time.

Path: fault_scenario.py -> here -> /v1/faults of the running server, or of a separate cluster (fault_cluster.py).
Rule 1: at the end, also after Ctrl-C, all its rules are removed; if this process is killed, they expire.
Rule 2: the objects of a running server are not changed: a scenario that needs others uses a separate cluster, or is
        refused.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from hsdns.cli.fault_askers import Askers
from hsdns.cli.fault_cluster import OwnCluster
from hsdns.cli.fault_scenario import name_of as name_of_flag
from hsdns.cli.flags import FlagError
from hsdns.cli.output import say
from hsdns.cli.running_server import NotRunning, Refused, RunningServer, ServerError
from hsdns.corefile.properties import duration_to_text
from hsdns.fault_scenarios.play import SERVERS
from hsdns.fault_scenarios.scenario import Scenario, Step, load, name_of

if TYPE_CHECKING:
    from hsdns.cli.fault import Fault

PAGE: Final = "/v1/faults"
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
