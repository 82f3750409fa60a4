"""The lookups of a scenario against a server that runs: each resolver model in a thread, its waits real.

Path: fault_run.py -> here -> resolve_server.py.
"""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any, Final

from hsdns.cli.resolve_server import server_steps
from hsdns.fault_scenarios.client import TYPES
from hsdns.fault_scenarios.play import resolv_conf
from hsdns.fault_scenarios.scenario import Scenario, Seen
from hsdns.fault_scenarios.stage import SERVERS
from hsdns.resolver import MODELS
from hsdns.resolver.model import Ended

NETWORK: Final = 0.05  # seconds of a lookup that do not count as lost


class Askers:
    """The clients of a scenario that have one nameserver and no cache of their own, at a port of loopback."""

    def __init__(self, scenario: Scenario, port: int) -> None:
        self._began = 0.0
        self._stopped = threading.Event()
        self._askers = [_Asker(scenario, seen, port) for seen in scenario.seen if seen.is_plain]
        self._threads = [
            threading.Thread(target=each.run, args=(self._stopped,), daemon=True)
            for each in self._askers
        ]

    def start(self) -> None:
        """Begin to ask, unless that was done."""
        if not self._began:
            self._began = time.monotonic()
            for thread in self._threads:
                thread.start()

    def have_ended(self) -> bool:
        """Whether all is looked up."""
        return bool(self._began) and not any(thread.is_alive() for thread in self._threads)

    def results(self) -> list[dict[str, Any]]:
        """What each client has got so far; those that wait are left alone."""
        self._stopped.set()
        return [each.result() for each in self._askers]


class _Asker:
    """One client."""

    def __init__(self, scenario: Scenario, seen: Seen, port: int) -> None:
        self._label = seen.label
        self._server = (SERVERS[0], port)
        namespaces = {each.namespace for each in scenario.asked}
        self._models = {
            each: MODELS[seen.client](resolv_conf(scenario, seen, each), Random(0))
            for each in namespaces
        }
        self._times = sorted(
            (each.at + number * each.every, index, each)
            for index, each in enumerate(scenario.asked)
            for number in range(each.times)
        )
        self._ended: list[tuple[float, str]] = []

    def run(self, stopped: threading.Event) -> None:
        """Look all of it up."""
        began, random = time.monotonic(), Random()
        for at, _, asked in self._times:
            if stopped.wait(max(0.0, began + at - time.monotonic())):
                return
            second, model = time.monotonic() - began, self._models[asked.namespace]
            for step in server_steps(model, asked.name, TYPES, self._server, random, second):
                if isinstance(step, Ended):
                    self._ended.append((step.at - second, step.result.error))

    def result(self) -> dict[str, Any]:
        """What it has got."""
        failed = [error for _, error in self._ended if error]
        return {
            "client": self._label,
            "lookups": len(self._ended),
            "seconds": round(sum(each for each, _ in self._ended if each > NETWORK), 1),
            "failed": len(failed),
            "error": failed[-1] if failed else "",
        }
