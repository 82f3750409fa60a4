"""Finds the past queries that a rule would have hit: `hsdns fault add -dry-run`.

Path: server/control/faults.py passes the last queries, in the order in which they came.
Rule 1: the rule is evaluated with its seed as if it had been added right before the first query, with the times,
        clients and five-tuples of the queries.
Rule 2: facts that are not recorded are not guessed; a sentence names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from hsdns.faults.asked import UNKNOWN, Asked
from hsdns.faults.flow import Flow
from hsdns.faults.process import Restart, due_at
from hsdns.faults.rule import Bite, Rule
from hsdns.faults.selector import AskedIs, Nth, Share
from hsdns.wire.name import ROOT

BESIDE: Final = {
    "connection": "connections are known by their queries alone, and one that was open before counts as new",
    "miss": "what the answer table knew when a query came counts as what it would have known",
}


class Past(NamedTuple):
    """A query at `time`, in seconds since some time; `is_hit` says that the answer table had its reply."""

    time: float
    asked: Asked
    is_hit: bool


class DryRun:
    """A rule that is not active, applied to queries; `may` counts the queries that it may hit, which is not known."""

    def __init__(self, rule: Rule, *, is_drawn: bool) -> None:
        self.rule = rule
        self.may = 0
        self._is_drawn = is_drawn  # the seed
        self._has_begun = False
        self._is_open = False  # a destination address is not known
        self._connections: dict[tuple[str, str, int], Bite | None] = {}
        self._killed: Bite | None = None

    def see(self, past: Past) -> Bite | None:
        """Evaluate the rule for the next query."""
        if not self._has_begun:
            self._has_begun, self.rule.begun = True, past.time
        decide = _DECIDE.get(self.rule.action.about)
        if decide is None or self._stays_open(past):
            return None
        bite = decide(self, past)
        if bite is not None and self.rule.action.counts_late:
            self.may += 1
            return None
        return bite

    def unforeseen(self) -> Iterator[str]:
        """Yield a sentence for each fact that is not known."""
        action, parts = self.rule.action, self.rule.selector.parts()
        if action.about not in _DECIDE:
            yield f'"{action.text}" is not about queries, so none is hit'
        if isinstance(action, Restart):
            if action.pending is not None:
                yield "how many queries waited at a time is not known, so none is counted as hit"
            else:
                yield "how long the start would take is not known; it is taken as no time"
        if action.counts_late:
            yield "what the replies would have been is not known, so each query that matches is one that may be hit"
        if action.about in BESIDE:
            yield BESIDE[action.about]
        if self._is_open:
            yield 'the address that a query was sent to is not known, so "asked" is left open'
        if any(isinstance(each, Flow) for each in parts):
            yield "a five-tuple that was used before the first of these queries counts as new"
        if any(isinstance(each, Nth) for each in parts):
            yield 'the first of these queries are the first that "nth" counts'
        if self._is_drawn and any(isinstance(each, Share) for each in parts):
            yield f"another seed than {self.rule.seed} hits others; without one it is drawn anew"

    def _stays_open(self, past: Past) -> bool:
        rule, asked = self.rule, past.asked
        if asked.local != UNKNOWN or not any(
            isinstance(each, AskedIs) for each in rule.selector.parts()
        ):
            return False
        may = rule.foresee(asked, past.time) is not False
        self.may += may
        self._is_open |= may
        return True

    def _query(self, past: Past) -> Bite | None:
        return self.rule.decide(past.asked, past.time)

    def _connection(self, past: Past) -> Bite | None:
        asked = past.asked
        if asked.transport == "udp":
            return None
        key = (asked.server, asked.client.address, asked.client.port)
        if key not in self._connections:
            self._connections[key] = self.rule.decide(_unread(asked), past.time)
        return self._connections[key]

    def _miss(self, past: Past) -> Bite | None:
        if past.is_hit or past.asked.transport != "udp":
            return None
        return self.rule.decide(_unread(past.asked), past.time)

    def _process(self, past: Past) -> Bite | None:
        action, selector = self.rule.action, self.rule.selector
        assert isinstance(action, Restart), "about the process"
        dead = past.time - self.rule.begun - due_at(selector)
        if action.pending is not None or not 0 <= dead < action.dead:
            return None
        if self._killed is None:
            self._killed = self.rule.strike()
        return self._killed


_DECIDE: Final[dict[str, Callable[[DryRun, Past], Bite | None]]] = {
    "query": DryRun._query,
    "connection": DryRun._connection,
    "miss": DryRun._miss,
    "process": DryRun._process,
}


def _unread(asked: Asked) -> Asked:
    return asked._replace(qname=ROOT, qtype=0)
