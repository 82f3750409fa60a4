"""Actions on the state of the cluster: answers from an earlier state, or an API server that is unavailable.

Path: words.py creates them.  `freeze`, `lag`, `flap`: handler.py determines the state that answers a query, and passes
its time with the request; the kubernetes plugin answers from it.  `watch`: plugins/fault.py makes requests
to the API server fail.
Rule 1: events are still received and applied.  A rule only selects a time.  So it can end at any moment, and two rules,
        or two listeners, can use two states of one store.
Rule 2: a query is a hit if the current state has another answer; so hits are counted when the reply is known.
Rule 3: the state at the start of a rule does not include the changes of the same instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, nextafter
from typing import ClassVar, Final

from hsdns.chain import Earlier
from hsdns.cluster.history import Need
from hsdns.corefile.properties import duration_to_text
from hsdns.faults.action import Action, Course
from hsdns.faults.rules import Bite, Rule
from hsdns.faults.selector import Selector

RESOURCES: Final = ("services", "endpointslices", "namespaces", "pods", "serviceimports")
OUTCOMES: Final = ("away", "forbidden")


class StateAction(Action):
    """Answer from an earlier state of the cluster.

    `moment` has the time whose state answers a query, for a rule that began at a time, and now; None is the current
    state.  All states of the last `lag` seconds are needed.
    """

    counts_late = True

    def __init__(
        self, text: str, moment: Callable[[float, float], float | None], lag: float = 0.0
    ) -> None:
        super().__init__(text)
        self.moment, self._lag = moment, lag

    def need(self, begun: float) -> Need:
        """The states that the rule needs."""
        return Need(_beginning(begun), self._lag)

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        """Do nothing, because the request already has the time."""


def freeze() -> StateAction:
    """The state at the start of the rule."""
    return StateAction("freeze", lambda begun, now: _beginning(begun))


def lag(seconds: float) -> StateAction:
    """The state of some seconds ago, but none before the rule: each change is served with this delay."""
    return StateAction(
        f"lag {duration_to_text(seconds)}",
        lambda begun, now: max(_beginning(begun), now - seconds),
        seconds,
    )


def flap(seconds: float) -> StateAction:
    """Alternately the state at the start of the rule and the current one, each for some seconds."""
    return StateAction(
        f"flap {duration_to_text(seconds)}",
        lambda begun, now: None if (now - begun) // seconds % 2 else _beginning(begun),
    )


class WatchAction(Action):
    """Make requests to the API server fail, for one resource or all; `status` is the HTTP status, or 0 for no reply."""

    about: ClassVar[str] = "watch"

    def __init__(self, resource: str = "") -> None:
        super().__init__(f"watch forbidden {resource}" if resource else "watch away")
        self.resource = resource
        self.status = 403 if resource else 0

    def misfit(self, selector: Selector) -> str:
        """Return why it cannot be combined with a selector, "" if it can."""
        for part in selector.parts():
            if part.word not in ("after", "before", "share"):
                return (
                    f'"{self.text}" is about requests to the API server, which have no {part.word}; '
                    "its selectors are after, before and share"
                )
        return ""

    def is_about(self, resource: str) -> bool:
        """Whether it affects requests for a resource, named by its plural."""
        return self.resource in ("", resource)


def earlier_for(bites: Iterable[Bite], now: float) -> Earlier | None:
    """The state that answers a query: the oldest one that its rules select, None for the current state."""
    moments = [found for each in bites if (found := _moment(each.rule, now)) is not None]
    return Earlier(min(moments)) if moments else None


def decisive(bites: Iterable[Bite], earlier: Earlier, now: float) -> list[Bite]:
    """The hits whose rule selected the state that answered."""
    return [each for each in bites if _moment(each.rule, now) == earlier.time]


def needs(rules: Iterable[Rule]) -> Sequence[Need]:
    """The states that rules may need."""
    return [each.action.need(each.begun) for each in rules if isinstance(each.action, StateAction)]


def _moment(rule: Rule, now: float) -> float | None:
    return rule.action.moment(rule.begun, now) if isinstance(rule.action, StateAction) else None


def _beginning(begun: float) -> float:
    return nextafter(begun, -inf)
