"""A fault: a rule that is active within a `with`.

Path: cluster.fault() -> here -> server.py, which activates the rule; hsdns/faults/ implements it.
Rule 1: the rule is active from the beginning of the `with` to its end; its hits can be read after that.
Rule 2: before hits are read, the server handles all queries that have arrived.
Rule 3: a failed assertion about hits shows the rule, and the queries received while it was active.

A fault as a test writes it: an action and selectors, as text or as objects (faults/words.py) -> the words of a rule:
Rule 1: a name in When.NAME() is written as in a pod (pod.py), one in a text as in a rule.
Rule 2: a rule without a seed gets its number in the cluster as seed, so that every run of a test is the same.

A fault scenario in a test: a known DNS failure, step by step, as the test advances its time:
Rule 1: the steps of second 0 are done at the beginning of the `with`, later steps when the test advances to them, so
        that no test waits for minutes.  The age of the rules advances with it.
Rule 2: at the end of the `with` all rules end; the test fails if a rule was active but had no hits, and nothing else
        failed.
Rule 3: a scenario that cannot run in a test's cluster is rejected, with the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, Self

import msgspec

from hsdns.fault_scenarios.scenario import Scenario as File
from hsdns.fault_scenarios.scenario import ScenarioError, Step, load, name_of
from hsdns.faults.rules import Rule, RuleError
from hsdns.faults.words import Do, When, Words, read_rule
from hsdns.testing.errors import ClusterError, hides, unknown
from hsdns.testing.pod import NAMESPACE, Pod, PodIdentity, forms
from hsdns.testing.queries import Query
from hsdns.wire import counted

if TYPE_CHECKING:
    from hsdns.testing.cluster import Cluster

__tracebackhide__ = hides


def rule_words(
    parts: Sequence[object],
    options: Mapping[str, object],
    pods: Mapping[str, PodIdentity],
    seed: int,
) -> list[str]:
    """The words of a valid rule; raise ClusterError.  `pods` are the client pods, `seed` is the default seed."""
    words: list[str] = []
    try:
        for number, part in enumerate(parts):
            if not isinstance(part, str | Do | Words):
                raise ClusterError(
                    f'a fault has parts such as Do.DROP or "drop", and When.TYPE("A"); {part!r} is none'
                )
            text = f"( {part} )" if number and " or " in str(part) else str(part)
            pieces = part.parts if isinstance(part, Words) else (text,)
            for each in pieces:
                words += each.split() if isinstance(each, str) else _selector(*each, pods)
            if number == 0 and len(parts) > 1 and (first := read_rule(words)).selector.text:
                raise ClusterError(
                    f'"{part}" has selectors; write all of them in the text, or all after its action'
                )
        first = read_rule(words)
        if first.action.about == "miss":
            raise ClusterError(
                f'"{words[0]}" is about a queue that the cluster of a test does not have; '
                '"drop share 0.5" loses queries, too'
            )
        given = {word: str(value) for word, value in options.items() if value is not None}
        if first.seed is None:
            given.setdefault("seed", str(seed))
        words += [text for option in given.items() for text in option]
        wanted = read_rule(words)
        selected = {each.word for each in wanted.selector.parts()}
        if "labels" in selected:
            raise ClusterError(
                'the client pods here have no labels; write When.POD() in place of "labels"'
            )
        if "pod" in selected and wanted.action.about != "query":
            raise ClusterError(
                f'"{words[0]}" is not about queries, and a pod is known by its queries alone; remove "pod"'
            )
    except RuleError as error:
        raise ClusterError(f'the fault "{" ".join(words)}": {error}') from None
    return words


def _selector(
    word: When, arguments: Sequence[object], pods: Mapping[str, PodIdentity]
) -> list[str]:
    *before, last = arguments or ("",)
    if word is When.POD and "/" not in str(last):
        name = last.name if isinstance(last, Pod) else str(last)
        if name not in pods:
            raise unknown("there is no pod", name, pods)
        last = f"{pods[name].namespace}/{name}"
    elif word is When.NAME and last and before in ([], ["below"]):
        found = [Words(((word, (*before, f"{each}.")),)) for each in forms(str(last), NAMESPACE)]
        return str(reduce(or_, found)).split()
    return str(word(*before, last)).split()


SHOWN: Final = 10  # queries in a failure
COUNTED: Final = {"connection": "connection", "process": "restart"}  # what rules hit but queries


class Hits(int):
    """A number of hits, of a fault that failures can show."""

    fault: Fault

    def __new__(cls, number: int, fault: Fault) -> Self:
        """Make an immutable number."""
        made = super().__new__(cls, number)
        made.fault = fault
        return made


class Fault:
    """A context manager: within it the rule is active."""

    def __init__(self, words: Sequence[str], cluster: Cluster) -> None:
        self._words, self._cluster = list(words), cluster
        self._rule: Rule | None = None
        self._standing: ExitStack | None = None
        self._count = 0
        self._last: deque[Query] = deque(maxlen=SHOWN)

    def __repr__(self) -> str:
        """Show the rule, and what it has done."""
        if self._rule is None:
            return f'<Fault "{" ".join(self._words)}" that was not started>'
        return f'<Fault "{self._rule.what}": {self._hit_text()}>'

    def __enter__(self) -> Self:
        """Activate the rule; raise ClusterError."""
        if self._rule is not None:
            raise ClusterError(f"{self!r} starts once; make another one with cluster.fault()")
        server = self._cluster.server
        with ExitStack() as standing:
            standing.enter_context(self._cluster.queries.followed(self._note))
            try:
                self._rule = server.add_fault(self._words)
            except RuleError as error:
                raise ClusterError(f'the fault "{" ".join(self._words)}": {error}') from None
            standing.callback(self._remove, self._rule)
            self._standing = standing.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """End the rule."""
        standing, self._standing = self._standing, None
        if standing is not None:
            standing.close()

    @property
    def rule(self) -> str:
        """The rule, as it can be written in a Corefile or for `hsdns fault add`."""
        return self._stood().text

    @property
    def hits(self) -> int:
        """The number of hits so far."""
        return Hits(self._stood().hits, self)

    @property
    def digest(self) -> str:
        """SHA-256 of the hits in order: equal for two runs with the same hits."""
        return self._stood().digest

    def assert_hits(self, times: int | None = None) -> None:
        """Fail unless it had hits, `times` of them if this is given."""
        __tracebackhide__ = True  # pytest shows the line of the test
        hits = self.hits
        if not hits if times is None else hits != times:
            expected = "" if times is None else f", not {times}"
            raise AssertionError("\n".join([f"{int(hits)} hits{expected}", *self.report()]))

    def report(self) -> list[str]:
        """Lines for a failure: the rule, and the queries received while it was active."""
        lines = [f"the fault hit {self._hit_text()}: {self._stood().what}"]
        if self._count > SHOWN:
            lines.append(f"  the last {SHOWN}:")
        return lines + [f"  {each}" for each in self._last]

    def grow_older(self, seconds: float) -> None:
        """Increase the age of the rule, for conditions on time; scenarios use this to advance."""
        self._stood().begun -= seconds

    def _stood(self) -> Rule:
        """The rule, once the queries that have arrived are handled."""
        if self._rule is None:
            raise ClusterError(
                f"{self!r} has done nothing yet; use it in `with cluster.fault(...) as fault:`"
            )
        if self._standing is not None:
            self._cluster.queries.settle()
        return self._rule

    def _remove(self, rule: Rule) -> None:
        with suppress(ClusterError):  # a cluster that has ended has no rules
            self._cluster.server.remove_fault(rule)

    def _note(self, query: Query) -> None:
        self._count += 1
        self._last.append(query)

    def _hit_text(self) -> str:
        if self._rule is not None and self._rule.action.about in COUNTED:
            return counted(self._rule.hits, COUNTED[self._rule.action.about])
        if not self._count:
            return "nothing, as no query came"
        queries = "query" if self._count == 1 else "queries"
        assert self._rule is not None, "it stood"
        return f"{self._rule.hits} of {self._count} {queries}"


class Scenario:
    """A context manager that runs a scenario; `host` is the name that clients look up in it.

    `faults` has the rules that are or were active, by name; `time` is the current second, `seconds` the last one.
    """

    def __init__(self, file: File, cluster: Cluster) -> None:
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


def find(name: str, about: str | None) -> File:
    """The scenario of a name, or of a path; `about` another name than its own; raise ClusterError."""
    try:
        file = load(name)
    except ScenarioError as error:
        raise ClusterError(str(error)) from None
    abouts = {read_rule(rule.split()).action.about for step in file.steps for rule in step.add}
    for is_so, what in (
        (file.corefile, "has its own Corefile, and the cluster of a test has another"),
        ("process" in abouts, "kills the server for seconds that no test can advance"),
        ("watch" in abouts, "is about an API server, and the cluster of a test has none"),
    ):
        if is_so:
            raise ClusterError(
                f"the scenario {file.name} {what}; hsdns fault run {file.name} plays it"
            )
    if about is None:
        return file
    if file.own:
        raise ClusterError(
            f"the scenario {file.name} is about its own names alone: {file.own}; remove `about`"
        )
    return msgspec.structs.replace(file.about(about), manifests="")
