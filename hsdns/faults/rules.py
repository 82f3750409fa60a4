"""The set of active rules, and the last ended ones.

Path: server/faults.py has one set for the rules of the control door, plugins/fault.py one for each server block;
handler.py evaluates them for each query.
Rule 1: rules are applied in the order in which they were added, each to the result of the previous one.
Rule 2: the last MAX_ENDED ended rules and the last MAX_LINES hits are kept.
Rule 3: nothing here reads a clock or draws a seed: the time is an argument, the Random is given.
Rule 4: `watch` rules are evaluated in the watch thread, all others on the main loop, so a lock protects the common log.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from random import Random
from threading import Lock
from typing import Any, Final

from hsdns.corefile.properties import duration_to_text
from hsdns.corefile.tree import did_you_mean
from hsdns.faults.asked import Asked
from hsdns.faults.rule import MAX_SEED, Bite, Rule, RuleError, Wanted
from hsdns.metrics import Counter, Registry

MAX_STANDING: Final = 100
MAX_ENDED: Final = 100
MAX_LINES: Final = 1_000
# How two rules conflict, if they are not about queries.
_SAME: Final = {
    "connection": "decides about the same connections",
    "miss": "sheds the same queries",
    "process": "restarts the process at the same time",
}
log = logging.getLogger("hsdns.faults")


def hits_metric(metrics: Registry) -> Counter:
    """The counter of hits, by the name of the rule."""
    return metrics.counter(
        "hsdns_fault_hits_total",
        "Queries, connections and restarts that a rule of fault did something to.",
        ("rule",),
    )


class Rules:
    """A set of rules; `random` draws the seeds of rules without one, `hits` counts hits."""

    def __init__(self, random: Random, hits: Counter) -> None:
        self.standing: dict[str, Rule] = {}
        self.ended: deque[Rule] = deque(maxlen=MAX_ENDED)
        self.lines: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MAX_LINES)  # with their number
        self._bites = 0
        self._logging = Lock()
        self.on_spent: Callable[[], None] = lambda: (
            None
        )  # called when a rule has reached its limit of hits
        self.on_bite: Callable[[Bite], None] = lambda bite: None  # called at each one
        self._random, self._hits = random, hits

    @property
    def all(self) -> list[Rule]:
        """The ended rules, then the active ones; in order."""
        return [*self.ended, *self.standing.values()]

    @property
    def next_end(self) -> float | None:
        """When the next rule expires, in monotonic seconds; None if none will."""
        return min(
            (each.end for each in self.standing.values() if each.end is not None), default=None
        )

    def make(self, wanted: Wanted, now: float, lifetime: float | None, place: str = "") -> Rule:
        """Create a rule that is not active yet; raise RuleError.  `lifetime` is the default, in seconds."""
        if len(self.standing) >= MAX_STANDING:
            raise RuleError(f"{MAX_STANDING} rules stand already, which is the most; remove one")
        name = wanted.name or self._free_name(wanted.action.text.split()[0])
        if name in self.standing:
            raise RuleError(f'a rule named "{name}" stands already; remove it, or use another name')
        for other in self.standing.values():
            if _hides(other, wanted):
                same = _SAME.get(wanted.action.about, "answers the same queries")
                raise RuleError(
                    f'it excludes the rule "{other.name}" ({other.action.text}), which {same}; remove one of the two'
                )
        seed = wanted.seed if wanted.seed is not None else self._random.randint(0, MAX_SEED)
        if wanted.lifetime is not None:
            lifetime = wanted.lifetime
        return Rule(wanted, name, seed, now, lifetime, place)

    def add(self, rule: Rule) -> None:
        """Activate a rule that make() has created."""
        for old in [each for each in self.ended if each.name == rule.name]:
            self.ended.remove(old)
        self.standing[rule.name] = rule
        self._hits.inc((rule.name,), 0)
        until = "" if rule.lifetime is None else f" for {duration_to_text(rule.lifetime)}"
        log.info('plugin/fault: the rule "%s" stands%s: %s', rule.name, until, rule.text)

    def remove(self, name: str) -> Rule:
        """End a rule; raise RuleError."""
        rule = self.standing.get(name)
        if rule is None:
            hint = did_you_mean(name, self.standing)
            raise RuleError(f'no rule named "{name}" stands{hint}')
        self._end(rule, "removed")
        return rule

    def clear(self) -> list[Rule]:
        """End all rules."""
        found = list(self.standing.values())
        for rule in found:
            self._end(rule, "removed")
        return found

    def expire(self, now: float) -> list[Rule]:
        """End the rules that are over, and return them."""
        found = [(rule, rule.is_over(now)) for rule in self.standing.values()]
        over = [(rule, why) for rule, why in found if why]
        for rule, why in over:
            self._end(rule, why)
        return [rule for rule, _ in over]

    def about(self, *what: str) -> list[Rule]:
        """The active rules whose Action.about is one of these."""
        rules = tuple(self.standing.values())  # called in other threads too
        return [rule for rule in rules if rule.action.about in what]

    def decide(self, asked: Asked, now: float, about: str = "query") -> list[Bite]:
        """Evaluate the rules for a query received at `now`, in monotonic seconds; once for each query."""
        bites = []
        for rule in self.about(about):
            bite = rule.decide(asked, now)
            if bite is not None:
                bites.append(bite)
                if not rule.action.counts_late:
                    self._count(bite)
        return bites

    def confirm(self, bite: Bite) -> None:
        """Count a hit whose action has `counts_late`, unless its rule has ended meanwhile."""
        rule = bite.rule
        if not rule.ended and (rule.times is None or rule.hits < rule.times):
            rule.count(bite)
            self._count(bite)

    def stop(self, rule: Rule, resource: str, request: str, now: float) -> bool:
        """Whether a rule makes a request to the API server fail; called once for each, in the thread that sends it."""
        bite = rule.stop(resource, request, now)
        if bite is not None:
            self._count(bite)
        return bite is not None

    def after(self, number: int) -> tuple[int, Sequence[dict[str, Any]]]:
        """The number of the last hit, and the log lines of the hits after `number` that are still kept."""
        with self._logging:
            return self._bites, [line for at, line in self.lines if at > number]

    def strike(self, rule: Rule) -> None:
        """Count a hit on the process, which is not a query."""
        self._count(rule.strike())

    def foresee(self, asked: Asked, now: float) -> list[tuple[Rule, bool]]:
        """The rules that would match a query, with True, and the rules that might, with False."""
        found = [(rule, rule.foresee(asked, now)) for rule in self.about("query")]
        return [(rule, will is True) for rule, will in found if will is not False]

    def _count(self, bite: Bite) -> None:
        rule = bite.rule
        with self._logging:
            self._bites += 1
            self.lines.append((self._bites, bite.line))
        self._hits.inc((rule.name,))
        self.on_bite(bite)
        if rule.hits == 1:
            shown = hit_to_text(bite.line)
            log.info('plugin/fault: first hit of the rule "%s": %s', rule.name, shown)
        if rule.hits == rule.times:
            self.on_spent()

    def _end(self, rule: Rule, why: str) -> None:
        rule.ended = why
        del self.standing[rule.name]
        if len(self.ended) == MAX_ENDED:  # so that the label values stay bounded
            oldest = self.ended[0]
            self._hits.values.pop((oldest.name,), None)
        self.ended.append(rule)
        log.info('plugin/fault: the rule "%s" has ended (%s), hits: %d', rule.name, why, rule.hits)

    def _free_name(self, word: str) -> str:
        number = 1
        taken = {each.name for each in chain(self.ended, self.standing.values())}
        while f"{word}-{number}" in taken:
            number += 1
        return f"{word}-{number}"


def hit_to_text(line: Mapping[str, Any]) -> str:
    """Describe the object of a hit; `line` is its log line."""
    if "resource" in line:
        return f"a {line['request']} of {line['resource']}"
    if "client" not in line:
        return "the process"
    asked = f"{line['name']} {line['type']}" if "name" in line else "a client"
    return f"{asked} over {line['transport']} from {line['client']}"


def _hides(rule: Rule, wanted: Wanted) -> bool:
    """Whether two rules replace the replies to the same queries, so that one has no effect.

    Rules about the state of the cluster do so too, because only one state can answer.
    """
    return (
        all(each.replaces or each.counts_late for each in (rule.action, wanted.action))
        and rule.action.about == wanted.action.about
        and rule.times == rule.action.times
        and wanted.times is None
        and rule.selector.text == wanted.selector.text
        and not any(
            part.text.split()[0] in ("share", "nth", "flow") for part in rule.selector.parts()
        )
    )
