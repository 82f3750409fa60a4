"""Actions on the state of the cluster: an earlier one is answered from, or the API server is out of reach.

Path: words.py makes them.  `freeze`, `lag`, `flap`: handler.py asks which state a query is answered from, and gives the
time on with the request; the kubernetes plugin does it.  `watch`: plugins/kubernetes/faults.py puts an obstacle before
the API server.
Rule 1: events go on being received and applied.  What a rule has is a time, so that its end is one too, and two rules,
        or two listeners, see two states of one store.
Rule 2: a query is a hit if the newest state has another answer; so hits are counted when the reply is there.
Rule 3: the state of a rule's beginning lacks the changes of the same instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, nextafter
from typing import ClassVar, Final

from hsdns.chain import Earlier
from hsdns.cluster.replaced import Need
from hsdns.corefile.properties import duration_to_text
from hsdns.faults.action import Action, Course
from hsdns.faults.rule import Bite, Rule
from hsdns.faults.selector import Period, Selector, Share

RESOURCES: Final = ("services", "endpointslices", "namespaces", "pods", "serviceimports")
OUTCOMES: Final = ("away", "forbidden")


class StateAction(Action):
    """Answer from a state of the cluster that may be an earlier one."""

    counts_late = True

    def moment(self, begun: float, now: float) -> float | None:
        """The time whose state answers a query that comes now, for a rule that has begun then; None: the newest."""
        raise NotImplementedError

    def need(self, begun: float) -> Need:
        """The states that are asked for."""
        return Need(_beginning(begun))

    async def act(self, course: Course, drawn: float | None, seed: int) -> None:
        """Nothing is left to do: the request has the time."""


class Freeze(StateAction):
    """The state of the rule's beginning."""

    text = "freeze"

    def moment(self, begun: float, now: float) -> float | None:
        """The beginning."""
        return _beginning(begun)


class Lag(StateAction):
    """Each change so much later than it was received, in seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.text = f"lag {duration_to_text(seconds)}"

    def moment(self, begun: float, now: float) -> float | None:
        """The time that is so long ago."""
        return max(_beginning(begun), now - self.seconds)

    def need(self, begun: float) -> Need:
        """All states of that time."""
        return Need(_beginning(begun), self.seconds)


class Flap(StateAction):
    """The state of the rule's beginning and the newest one by turns, each for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.text = f"flap {duration_to_text(seconds)}"

    def moment(self, begun: float, now: float) -> float | None:
        """The beginning, or None, by turns."""
        return None if (now - begun) // self.seconds % 2 else _beginning(begun)


class WatchAction(Action):
    """Have requests to the API server fail: those about a resource, or all; `status` is that of a refusal, or 0."""

    about: ClassVar[str] = "watch"
    resource = ""
    status = 0

    def misfit(self, selector: Selector) -> str:
        """Why it cannot be done to what a selector is about, empty if it can."""
        for part in selector.parts():
            if not isinstance(part, Period | Share):
                return (
                    f'"{self.text}" is about requests to the API server, which have no {part.text.split()[0]}; '
                    "its selectors are after, before and share"
                )
        return ""

    def is_about(self, resource: str) -> bool:
        """Whether it is about requests for a resource, by its plural."""
        return self.resource in ("", resource)


class WatchAway(WatchAction):
    """The API server cannot be reached."""

    text = "watch away"


class WatchForbidden(WatchAction):
    """The API server refuses requests for a resource."""

    status = 403

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.text = f"watch forbidden {resource}"


def earlier_for(bites: Iterable[Bite], now: float) -> Earlier | None:
    """The state that answers a query: of those that its rules want the oldest one, None for the newest."""
    moments = [found for each in bites if (found := _moment(each.rule, now)) is not None]
    return Earlier(min(moments)) if moments else None


def decisive(bites: Iterable[Bite], earlier: Earlier, now: float) -> list[Bite]:
    """Those whose state has answered a query."""
    return [each for each in bites if _moment(each.rule, now) == earlier.time]


def needs(rules: Iterable[Rule]) -> Sequence[Need]:
    """The states that rules may ask for."""
    return [each.action.need(each.begun) for each in rules if isinstance(each.action, StateAction)]


def _moment(rule: Rule, now: float) -> float | None:
    return rule.action.moment(rule.begun, now) if isinstance(rule.action, StateAction) else None


def _beginning(begun: float) -> float:
    return nextafter(begun, -inf)
