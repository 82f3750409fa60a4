"""A fault: a rule that is active within a `with`.

Path: cluster.fault() -> here -> server.py, which activates the rule; hsdns/faults/ implements it.
Rule 1: the rule is active from the beginning of the `with` to its end; its hits can be read after that.
Rule 2: before hits are read, the server handles all queries that have arrived.
Rule 3: a failed assertion about hits shows the rule, and the queries received while it was active.

A fault as a test writes it: a rule as text, or its action with keywords -> the words of a rule:
Rule 1: the server evaluates the keywords in this order, `share` last, so that `share=0.5` is half of the queries that
        all other keywords match.
Rule 2: a name is written as in a pod (pod.py), unless the rule is text.
Rule 3: a rule without a seed gets its number in the cluster as seed, so that every run of a test is the same.

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
from typing import TYPE_CHECKING, Final, Self, TypedDict

import msgspec

from hsdns.corefile.properties import duration_to_text
from hsdns.fault_scenarios.scenario import Scenario as File
from hsdns.fault_scenarios.scenario import ScenarioError, Step, load, name_of
from hsdns.faults.rules import Rule, RuleError
from hsdns.faults.words import read_rule
from hsdns.testing.errors import ClusterError, check_keywords, hides, unknown
from hsdns.testing.pod import NAMESPACE, Pod, PodIdentity, forms
from hsdns.testing.queries import Query

if TYPE_CHECKING:
    from hsdns.testing.cluster import Cluster

__tracebackhide__ = hides


class Keywords(TypedDict, total=False):
    """The keywords of cluster.fault(), in the order of evaluation; None is as if it were not given."""

    client: str | None
    pod: Pod | str | None
    transport: str | None
    name: str | None
    below: str | None
    qtype: str | None
    flow: str | None
    after: float | str | None
    before: float | str | None
    nth: int | None
    share: float | None
    times: int | None
    seed: int | None
    named: str | None


OPTIONS: Final = ("times", "seed", "named")
AS_TEXT: Final = {
    "qtype": "type",
    "below": "name below",
}  # keywords that have another word in a rule


def rule_words(
    rule: str, keywords: Keywords, pods: Mapping[str, PodIdentity], seed: int
) -> list[str]:
    """The words of a valid rule; raise ClusterError.  `pods` are the client pods, `seed` is the default seed."""
    check_keywords("fault", keywords, ("rule", *Keywords.__annotations__))
    if not isinstance(rule, str):
        raise ClusterError(f'a fault begins with what it does, such as "drop"; {rule!r} is no text')
    words = rule.split()
    try:
        written = read_rule(words)
        if written.action.about == "miss":
            raise ClusterError(
                f'"{words[0]}" is about a queue that the cluster of a test does not have; '
                '"drop share 0.5" loses queries, too'
            )
        values = ((word, keywords.get(word)) for word in Keywords.__annotations__)
        given = {word: value for word, value in values if value is not None}
        options = {word: str(value) for word, value in given.items() if word in OPTIONS}
        selectors = [word for word in given if word not in OPTIONS]
        if written.selector.text and selectors:
            raise _split(rule, "selectors", selectors[0])
        if given and (written.name, written.seed, written.lifetime, written.times) != (None,) * 4:
            raise _split(rule, "options", next(iter(given)))
        if written.seed is None:
            options.setdefault("seed", str(seed))
        for word in selectors:
            words += _selector(word, given[word], pods)
        words += [part for option in options.items() for part in option]
        if "pod" in given and written.action.about != "query":
            raise ClusterError(
                f'"{words[0]}" is not about queries, and a pod is known by its queries alone; leave "pod" out'
            )
        read_rule(words)
    except RuleError as error:
        raise ClusterError(f'the fault "{" ".join(words)}": {error}') from None
    return words


def _split(rule: str, what: str, word: str) -> ClusterError:
    return ClusterError(
        f'"{rule}" has {what}, which the keyword "{word}" would follow; '
        f'write "{AS_TEXT.get(word, word)}" in the text too, or all of it as keywords'
    )


def _selector(word: str, value: object, pods: Mapping[str, PodIdentity]) -> list[str]:
    if word == "qtype":
        return ["type", str(value).upper()]
    if word == "pod":
        name = value.name if isinstance(value, Pod) else str(value)
        if name not in pods:
            raise unknown("there is no pod", name, pods)
        return ["pod", f"{pods[name].namespace}/{name}"]
    if word in ("name", "below"):
        below = ["below"] if word == "below" else []
        found = [["name", *below, f"{form}."] for form in forms(str(value), NAMESPACE)]
        if len(found) == 1:
            return found[0]
        rest = [part for each in found[1:] for part in ("or", *each)]
        return ["(", *found[0], *rest, ")"]
    if word in ("after", "before") and isinstance(value, int | float):
        return [word, duration_to_text(value)]
    return [word, *str(value).split()]


SHOWN: Final = 10  # queries in a failure
COUNTED: Final = {  # the objects of hits, for rules that are not about queries
    "connection": ("connection", "connections"),
    "process": ("restart", "restarts"),
}


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
            one, many = COUNTED[self._rule.action.about]
            return f"{self._rule.hits} {one if self._rule.hits == 1 else many}"
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
        (file.corefile, "has a Corefile of its own, and the cluster of a test has another"),
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
            f"the scenario {file.name} is about its own names alone: {file.own}; leave `about` out"
        )
    return msgspec.structs.replace(file.about(about), manifests="")
