"""A fault scenario in a test: a known DNS failure, step by step, as the test advances its time.

Path: cluster.scenario() -> here -> fault.py for its rules; hsdns/fault_scenarios/ has the files.
Rule 1: the steps of second 0 are done at the beginning of the `with`, later steps when the test advances to them, so
        that no test waits for minutes.  The age of the rules advances with it.
Rule 2: at the end of the `with` all rules end; the test fails if a rule was active but had no hits, and nothing else
        failed.
Rule 3: a scenario that cannot run in a test's cluster is rejected, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol, Self

import msgspec

from hsdns.fault_scenarios.scenario import Scenario as File
from hsdns.fault_scenarios.scenario import ScenarioError, Step, load, name_of
from hsdns.faults.words import read_rule
from hsdns.testing.errors import ClusterError, hides
from hsdns.testing.fault import Fault
from hsdns.testing.objects import Objects

__tracebackhide__ = hides


class Plays(Protocol):
    """The cluster that a scenario runs in."""

    def fault(self, rule: str) -> Fault:
        """A rule; raise ClusterError."""

    def changing(self) -> AbstractContextManager[Objects]:
        """Change the objects."""


class Scenario:
    """A context manager that runs a scenario; `host` is the name that clients look up in it.

    `faults` has the rules that are or were active, by name; `time` is the current second, `seconds` the last one.
    """

    def __init__(self, file: File, cluster: Plays) -> None:
        self.name, self.title, self.seconds = file.name, file.title, file.seconds
        self.host = file.asked[0].meant.removesuffix(".")
        self.faults: dict[str, Fault] = {}
        self.time = 0.0
        self._file, self._cluster = file, cluster
        self._steps: list[Step] | None = None

    def __repr__(self) -> str:
        """Show the current second."""
        return f"<Scenario {self.name} at second {self.time:g} of {self.seconds:g}>"

    def __enter__(self) -> Self:
        """Add its objects, and run the steps of second 0; raise ClusterError."""
        if self._steps is not None:
            raise ClusterError(f"{self!r} starts once; make another one with cluster.scenario()")
        self._steps = list(self._file.steps)
        try:
            if self._file.manifests:
                with self._cluster.changing() as objects:
                    objects.apply_text(self._file.manifests)
            self._do_steps()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End all rules; raise AssertionError if a rule had no hits."""
        __tracebackhide__ = True  # pytest shows the line of the test
        self._end()
        if kind is None:
            for name, fault in self.faults.items():
                if not fault.hits:
                    sentence = f'the rule "{name}" of the scenario {self.name} was never hit'
                    raise AssertionError("\n".join([sentence, *fault.report()]))

    def advance(self, seconds: float) -> None:
        """Advance by some seconds at once: run the steps of that time, and increase the age of the rules."""
        if self._steps is None:
            raise ClusterError(f"{self!r} has not begun; use it in `with cluster.scenario(...)`")
        if seconds < 0 or self.time + seconds > self.seconds:
            left = self.seconds - self.time
            raise ClusterError(f"{self!r} cannot go {seconds:g} seconds on; it has {left:g} left")
        until = self.time + seconds
        while self._steps and self._steps[0].at <= until:
            self._go_to(self._steps[0].at)
            self._do_steps()
        self._go_to(until)

    def _go_to(self, second: float) -> None:
        for fault in self.faults.values():
            fault.grow_older(second - self.time)
        self.time = second

    def _do_steps(self) -> None:
        assert self._steps is not None, "begun"
        while self._steps and self._steps[0].at <= self.time:
            step = self._steps.pop(0)
            if step.apply or step.delete:
                with self._cluster.changing() as objects:
                    if step.apply:
                        objects.apply_text(step.apply)
                    for written in step.delete:
                        kind, _, path = written.partition(" ")
                        namespace, _, name = path.partition("/")
                        objects.remove(kind, namespace, name)
            for name in step.remove:
                self.faults[name].__exit__(None, None, None)
            for rule in step.add:
                self.faults[name_of(rule)] = self._cluster.fault(rule).__enter__()

    def _end(self) -> None:
        for fault in reversed(self.faults.values()):
            fault.__exit__(None, None, None)


def find(name: str, about: str | None, make: Callable[[File], Scenario]) -> Scenario:
    """The scenario of a name, or of a path; `about` another name than its own; raise ClusterError."""
    try:
        file = load(name)
    except ScenarioError as error:
        raise ClusterError(str(error)) from None
    for what, has in _CANNOT.items():
        if has(file):
            raise ClusterError(
                f"the scenario {file.name} {what}; hsdns fault run {file.name} plays it"
            )
    if about is not None:
        if file.own:
            raise ClusterError(
                f"the scenario {file.name} is about its own names alone: {file.own}; leave `about` out"
            )
        file = msgspec.structs.replace(file.about(about), manifests="")
    return make(file)


def _abouts(file: File) -> set[str]:
    """The kinds of its rules: on queries, connections and so on."""
    return {read_rule(rule.split()).action.about for step in file.steps for rule in step.add}


_CANNOT: Final[Mapping[str, Callable[[File], bool]]] = {
    "has a Corefile of its own, and the cluster of a test has another": lambda file: bool(
        file.corefile
    ),
    "kills the server for seconds that no test can advance": lambda file: (
        "process" in _abouts(file)
    ),
    "is about an API server, and the cluster of a test has none": lambda file: (
        "watch" in _abouts(file)
    ),
}
