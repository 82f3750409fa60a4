"""A fault: a rule that is active within a `with`.

Path: cluster.fault() -> here -> server.py, which activates the rule; hsdns/faults/ implements it.
Rule 1: the rule is active from the beginning of the `with` to its end; its hits can be read after that.
Rule 2: before hits are read, the server handles all queries that have arrived.
Rule 3: a failed assertion about hits shows the rule, and the queries received while it was active.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Final, Protocol, Self

from hsdns.faults.rules import Rule, RuleError
from hsdns.testing.errors import ClusterError, hides
from hsdns.testing.queries import Query

__tracebackhide__ = hides

SHOWN: Final = 10  # queries in a failure
COUNTED: Final = {  # the objects of hits, for rules that are not about queries
    "connection": ("connection", "connections"),
    "process": ("restart", "restarts"),
}


class TakesFaults(Protocol):
    """The server, which has the active rules."""

    def add_fault(self, words: Sequence[str]) -> Rule:
        """Activate a rule; raise RuleError."""

    def remove_fault(self, rule: Rule) -> None:
        """End a rule, if it is active."""


class Followed(Protocol):
    """The queries that the server receives."""

    def followed(self, note: Callable[[Query], None]) -> AbstractContextManager[None]:
        """Within it, call `note` with each."""

    def settle(self) -> None:
        """Return when the queries that have arrived are recorded."""


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

    def __init__(
        self, words: Sequence[str], find_server: Callable[[], TakesFaults], queries: Followed
    ) -> None:
        self._words = list(words)
        self._find_server, self._queries = find_server, queries
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
        server = self._find_server()
        with ExitStack() as standing:
            standing.enter_context(self._queries.followed(self._note))
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
        rule = self._stood()
        self._settle()
        return Hits(rule.hits, self)

    @property
    def digest(self) -> str:
        """SHA-256 of the hits in order: equal for two runs with the same hits."""
        rule = self._stood()
        self._settle()
        return rule.digest

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
        rule = self._stood()
        rule.begun -= seconds

    def _stood(self) -> Rule:
        if self._rule is None:
            raise ClusterError(
                f"{self!r} has done nothing yet; use it in `with cluster.fault(...) as fault:`"
            )
        return self._rule

    def _settle(self) -> None:
        if self._standing is not None:
            self._queries.settle()

    def _remove(self, rule: Rule) -> None:
        with suppress(ClusterError):  # a cluster that has ended has no rules
            self._find_server().remove_fault(rule)

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
