"""Actions on the state of the cluster: answers from an earlier state, or an API server that is unavailable.

Path: words.py creates them.  `freeze`, `lag`, `flap`: handler.py determines the state that answers a query, and passes
its time with the request; the kubernetes plugin answers from it.  `watch`: plugins/kubernetes/faults.py makes requests
to the API server fail.
Rule 1: events are still received and applied.  A rule only selects a time.  So it can end at any moment, and two rules,
        or two listeners, can use two states of one store.
Rule 2: a query is a hit if the current state has another answer; so hits are counted when the reply is known.
Rule 3: the state at the start of a rule does not include the changes of the same instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, nextafter
from typing import ClassVar, Final

from hsdns.chain import Earlier
from hsdns.cluster.replaced import Need
from hsdns.corefile.properties import duration_to_text
from hsdns.faults.action import Action, Course
from hsdns.faults.rules import Bite, Rule
from hsdns.faults.selector import Period, Selector, Share

RESOURCES: Final = ("services", "endpointslices", "namespaces", "pods", "serviceimports")
OUTCOMES: Final = ("away", "forbidden")


class StateAction(Action):
    """Answer from an earlier state of the cluster."""

    counts_late = True

    def moment(self, begun: float, now: float) -> float | None:
        """The time whose state answers a query at `now`, for a rule that began at `begun`; None: the current state."""
        raise NotImplementedError

    def need(self, begun: float) -> Need:
        """The states that the rule needs."""
        return Need(_beginning(begun))

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        """Do nothing, because the request already has the time."""


class Freeze(StateAction):
    """The state at the start of the rule."""

    text = "freeze"

    def moment(self, begun: float, now: float) -> float | None:
        """The start of the rule."""
        return _beginning(begun)


class Lag(StateAction):
    """The state of some seconds ago: each change is served with this delay."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.text = f"lag {duration_to_text(seconds)}"

    def moment(self, begun: float, now: float) -> float | None:
        """The time of this many seconds ago, but not before the start of the rule."""
        return max(_beginning(begun), now - self.seconds)

    def need(self, begun: float) -> Need:
        """All states within the delay."""
        return Need(_beginning(begun), self.seconds)


class Flap(StateAction):
    """Alternately the state at the start of the rule and the current one, each for some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.text = f"flap {duration_to_text(seconds)}"

    def moment(self, begun: float, now: float) -> float | None:
        """Alternately the start of the rule and None."""
        return None if (now - begun) // self.seconds % 2 else _beginning(begun)


class WatchAction(Action):
    """Make requests to the API server fail, for one resource or all; `status` is the HTTP status, or 0 for no reply."""

    about: ClassVar[str] = "watch"
    resource = ""
    status = 0

    def misfit(self, selector: Selector) -> str:
        """Return why it cannot be combined with a selector, "" if it can."""
        for part in selector.parts():
            if not isinstance(part, Period | Share):
                return (
                    f'"{self.text}" is about requests to the API server, which have no {part.text.split()[0]}; '
                    "its selectors are after, before and share"
                )
        return ""

    def is_about(self, resource: str) -> bool:
        """Whether it affects requests for a resource, named by its plural."""
        return self.resource in ("", resource)


class WatchAway(WatchAction):
    """The API server cannot be reached."""

    text = "watch away"


class WatchForbidden(WatchAction):
    """The API server denies requests for a resource."""

    status = 403

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.text = f"watch forbidden {resource}"


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
