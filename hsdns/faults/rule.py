"""A rule: its selector, its action, its seed, its lifetime, and its hits.

Path: words.py reads it -> rules.py evaluates it for each query -> handler.py applies the action.
Rule 1: the same seed and the same queries in the same order give the same hits; `digest` covers all of them.
Rule 2: a rule that has expired, or has reached its limit of hits, matches nothing.
"""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import Any, Final, NamedTuple

from hsdns.corefile.properties import duration_to_text
from hsdns.faults.action import Action
from hsdns.faults.asked import NO_QUERY, Asked
from hsdns.faults.selector import Selector
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

    `place` is its position in the Corefile, "" if it came through the control door.
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
        self.selector.note(asked, age)
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
