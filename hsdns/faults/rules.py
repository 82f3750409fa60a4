"""The set of active rules, and the last ended ones.

Path: server/faults.py has one set for the rules of the control API, plugins/fault.py one for each server block;
handler.py evaluates them for each query.
Rule 1: rules are applied in the order in which they were added, each to the result of the previous one.
Rule 2: the last MAX_ENDED ended rules and the last MAX_LINES hits are kept.
Rule 3: nothing here reads a clock or draws a seed: the time is an argument, the Random is given.
Rule 4: `watch` rules are evaluated in the watch thread, all others on the main loop, so a lock protects the common log.

A rule: its selector, its action, its seed, its lifetime, and its hits:
Rule 1: the same seed and the same queries in the same order give the same hits; `digest` covers all of them.
Rule 2: a rule that has expired, or has reached its limit of hits, matches nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from random import Random
from threading import Lock
from typing import Any, Final, NamedTuple

from hsdns.causes.cause import Cause
from hsdns.corefile.properties import duration_to_text
from hsdns.corefile.tree import did_you_mean
from hsdns.faults.action import Action
from hsdns.faults.selector import NO_QUERY, Asked, Selector
from hsdns.metrics import Counter, Registry
from hsdns.wire.iana import type_to_text

MAX_SEED: Final = 2**32 - 1


class RuleError(Exception):
    """An error in a rule, as a sentence; `at` is the number of the word, from 0."""

    def __init__(self, sentence: str, at: int = 0) -> None:
        super().__init__(sentence)
        self.at = at


class Wanted(NamedTuple):
    """The content of a rule's text; options that it does not have are None.  `lifetime` in seconds."""

    action: Action
    selector: Selector
    name: str | None = None
    seed: int | None = None
    lifetime: float | None = None
    times: int | None = None


class Bite(NamedTuple):
    """A hit: the decision to apply a rule to a query; `line` has the members of its log line, in order."""

    rule: Rule
    drawn: float | None
    line: dict[str, Any]


class Rule:
    """A rule that is active from `begun` on, in monotonic seconds, for `lifetime` seconds, None without an end.

    `place` is its position in the Corefile, "" if it came through the control API.
    """

    def __init__(
        self, wanted: Wanted, name: str, seed: int, begun: float, lifetime: float | None, place: str
    ) -> None:
        self.action, self.selector = wanted.action, wanted.selector
        self.times = wanted.action.times if wanted.times is None else wanted.times
        self.name, self.seed, self.begun, self.lifetime = name, seed, begun, lifetime
        self.place = place
        self.seen = self.hits = 0
        self.ended = ""  # why it is no longer active
        self.is_at_work = False  # its last hit is still in progress
        self._random = Random(seed)
        self._digest = hashlib.sha256()

    @property
    def what(self) -> str:
        """Its action and selectors, in the syntax of rules."""
        return f"{self.action.text} {self.selector.text}".rstrip()

    @property
    def text(self) -> str:
        """The whole rule in the syntax of rules, including default options."""
        words = [self.what, f"seed {self.seed}"]
        if self.times is not None:
            words.append(f"times {self.times}")
        if self.lifetime is not None:
            words.append(f"for {duration_to_text(self.lifetime)}")
        return f"{' '.join(words)} named {self.name}"

    @property
    def digest(self) -> str:
        """SHA-256 of the log lines of all hits so far, in hexadecimal digits."""
        return self._digest.hexdigest()

    @property
    def end(self) -> float | None:
        """When it expires, in monotonic seconds."""
        return None if self.lifetime is None else self.begun + self.lifetime

    def is_over(self, now: float) -> str:
        """Why it is no longer active: expired, spent, removed; "" if it is active."""
        if self.ended:
            return self.ended
        if self.end is not None and now >= self.end:
            return "expired"
        is_spent = self.times is not None and self.hits >= self.times
        return "spent" if is_spent and not self.is_at_work else ""

    def is_lifted(self, now: float) -> bool:
        """Whether a lasting effect, such as a hanging connection, must end; a spent rule does not end it."""
        return self.ended not in ("", "spent") or (self.end is not None and now >= self.end)

    def decide(self, asked: Asked, now: float) -> Bite | None:
        """Evaluate the rule for a query received at `now`; to be called once for each query."""
        if self.is_over(now):
            return None
        age = now - self.begun
        self.seen += 1
        for part in self.selector.parts():
            part.note(asked, age)
        if not self.action.fits(asked) or not self.selector.matches(asked, age, self._random):
            return None
        facts = {"client": asked.client.address, "transport": asked.transport}
        if self.action.about == "query":
            name = asked.qname.lowered().to_text()
            facts |= {"name": name, "type": type_to_text(asked.qtype)}
        return self._bite(facts, self.action.draw(self._random))

    def strike(self) -> Bite:
        """Record a hit on the process, which is not a query."""
        self.seen += 1
        return self._bite({}, None)

    def stop(self, resource: str, request: str, now: float) -> Bite | None:
        """Evaluate the rule for a `list` or `watch` request to the API server; to be called once for each."""
        if self.is_over(now):
            return None
        self.seen += 1
        if not self.selector.matches(NO_QUERY, now - self.begun, self._random):
            return None
        return self._bite({"resource": resource, "request": request}, None)

    def count(self, bite: Bite) -> None:
        """Count a hit whose action has `counts_late`."""
        self.hits += 1
        bite.line["hit"] = self.hits
        self._digest.update(json.dumps(bite.line).encode() + b"\n")

    def _bite(self, facts: dict[str, str], drawn: float | None) -> Bite:
        line: dict[str, Any] = {"rule": self.name, "hit": self.hits, "query": self.seen, **facts}
        line["action"] = self.action.text
        if drawn is not None:
            line["drawn"] = drawn
        bite = Bite(self, drawn, line)
        if not self.action.counts_late:
            self.count(bite)
        return bite

    def foresee(self, asked: Asked, now: float) -> bool | None:
        """Whether it would match a query, None if this depends on chance or on earlier queries; changes nothing."""
        if self.is_over(now) or not self.action.fits(asked):
            return False
        return self.selector.foresee(asked, now - self.begun)

    def cause(self, *, hits: bool) -> Cause:
        """The rule as the cause of an answer; `hits` is False if it may hit the query, or not."""
        told = f'fault rule "{self.name}" {"hits" if hits else "may hit"} this query: {self.what}'
        todo = (
            f"remove the rule at {self.place}" if self.place else f"hsdns fault remove {self.name}"
        )
        return Cause("", "Corefile" if self.place else "", told, todo)


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
    return metrics.counter("hsdns_fault_hits_total", ("rule",))


class Rules:
    """A set of rules; `random` draws the seeds of rules without one, `hits` counts hits."""

    def __init__(self, random: Random, hits: Counter) -> None:
        self.standing: dict[str, Rule] = {}
        self.ended: deque[Rule] = deque(maxlen=MAX_ENDED)
        self.lines: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MAX_LINES)  # with their number
        self._bites = 0
        self._logging = Lock()
        # Called when a rule has reached its limit of hits.
        self.on_spent: Callable[[], None] = lambda: None
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
            raise RuleError(f"{MAX_STANDING} rules are active, the maximum; remove one")
        name = wanted.name or self._free_name(wanted.action.word)
        if name in self.standing:
            raise RuleError(
                f'a rule named "{name}" is active already; remove it, or use another name'
            )
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
        log.info('plugin/fault: the rule "%s" is active%s: %s', rule.name, until, rule.text)

    def remove(self, name: str) -> Rule:
        """End a rule; raise RuleError."""
        rule = self.standing.get(name)
        if rule is None:
            hint = did_you_mean(name, self.standing)
            raise RuleError(f'no rule named "{name}" is active{hint}')
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
        and not any(part.word in ("share", "nth", "flow") for part in rule.selector.parts())
    )
