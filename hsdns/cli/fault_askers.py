"""The lookups of a scenario against a running server: a thread for each program, with real waits.

Path: fault_run.py -> here -> resolve_server.py.
"""

from __future__ import annotations

import socket
import threading
import time
from random import Random
from typing import Any, Final

from hsdns.cli.resolve_server import server_steps
from hsdns.fault_scenarios.play import SERVERS, TYPES, resolv_conf
from hsdns.fault_scenarios.scenario import Scenario, Seen
from hsdns.resolver import MODELS
from hsdns.resolver.model import Ended

NETWORK: Final = 0.05  # seconds of a lookup that do not count as delay


class Askers:
    """The clients of a scenario, which query one nameserver, as in any pod, at a loopback port."""

    def __init__(self, scenario: Scenario, port: int) -> None:
        self._began = 0.0
        self._stopped = threading.Event()
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

    def run(self, stopped: threading.Event) -> None:
        """Run all lookups."""
        try:
            self._run(stopped)
        finally:
            for sock in (self._kept or {}).values():
                sock.close()

    def _run(self, stopped: threading.Event) -> None:
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
