"""Scenarios and clients as a table: the effect of each scenario on each client.

Path: cli/fault_scenario.py, page.py -> here -> play.py.
Rule: the table has a column for each resolver with default settings; a single scenario has a line for each of its
      clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from hsdns.fault_scenarios.ahead import OtherServer
from hsdns.fault_scenarios.play import Outcome, as_data, never_hit, play
from hsdns.fault_scenarios.scenario import Scenario, Seen
from hsdns.resolver import MODELS

CLIENTS: Final = tuple(MODELS)
LEGEND: Final = "seconds lost, and how many of the lookups failed or had a wrong answer"


class Played(NamedTuple):
    """A scenario with the outcomes of its clients; `why_not` says why it cannot use another server."""

    scenario: Scenario
    outcomes: tuple[Outcome, ...]
    why_not: str = ""

    @property
    def never_hit(self) -> list[str]:
        """The rules without a hit."""
        return [] if self.why_not else never_hit(self.scenario, self.outcomes)


def play_all(
    scenarios: Sequence[Scenario], behind: OtherServer | None = None, name: str = ""
) -> Iterator[Played]:
    """Run scenarios for all their clients; `behind` has another server's name to look up.  Raise ScenarioError."""
    for scenario in scenarios:
        if behind is None:
            yield Played(scenario, tuple(play(scenario, seen) for seen in scenario.seen))
        elif scenario.why_not_behind:
            yield Played(scenario, (), scenario.why_not_behind)
        else:
            about = scenario.about(name)
            found = tuple(play(about, seen, behind) for seen in scenario.seen)
            yield Played(scenario, found)


def cell(scenario: Scenario, measured: Seen | Outcome) -> str:
    """Describe the effect on a client briefly."""
    bad = measured.failed + measured.wrong
    if not scenario.rules and not measured.seconds and not bad:
        return f"{measured.queries} queries"
    seconds = "no end" if measured.seconds == inf else f"{measured.seconds:g} s"
    return f"{seconds}, {bad} of {lookups(scenario)}" if bad else seconds


def lookups(scenario: Scenario) -> int:
    """The number of a client's lookups."""
    return sum(each.times * each.programs for each in scenario.asked)


def as_table(played: Sequence[Played]) -> Iterator[str]:
    """A line for each scenario, and a column for each client."""
    width = max([8, *(len(each.scenario.name) for each in played)])
    rows = [(each, _cells(each)) for each in played]
    columns = zip(CLIENTS, *(cells for _, cells in rows), strict=True)
    widths = [max(map(len, column)) for column in columns]
    yield _line("scenario", CLIENTS, width, widths)
    for each, cells in rows:
        if each.why_not:
            yield f"{each.scenario.name:{width}}  not with this server: {each.why_not}"
        else:
            yield _line(each.scenario.name, cells, width, widths)


def as_list(played: Played) -> Iterator[str]:
    """A line for each client of a scenario."""
    scenario = played.scenario
    if played.why_not:
        yield f"{scenario.name}: not with this server: {played.why_not}"
        return
    count = lookups(scenario)
    often = f"{count} lookups" if count > 1 else "1 lookup"
    yield f"{scenario.name}: {scenario.title}, {often} of each client"
    width = max([6, *(len(each.client) for each in played.outcomes)])
    yield f"{'client':{width}}  seconds  failed  wrong  recovered  queries"
    for each in played.outcomes:
        seconds, recovered = number(each.seconds), number(each.recovered)
        line = f"{each.client:{width}}  {seconds:>7}  {each.failed:6}  {each.wrong:5}  {recovered:>9}  {each.queries:7}"
        yield f"{line}  {each.error}".rstrip()


def number(seconds: float) -> str:
    """Seconds as a number, or `no end`."""
    return "no end" if seconds == inf else f"{seconds:.1f}"


def as_json(played: Played) -> dict[str, Any]:
    """A scenario as JSON."""
    return {
        "scenario": played.scenario.name,
        "title": played.scenario.title,
        "why_not": played.why_not or None,
        "never_hit": played.never_hit,
        "clients": [as_data(each) for each in played.outcomes],
    }


def _cells(played: Played) -> list[str]:
    found = {each.client: cell(played.scenario, each) for each in played.outcomes}
    return [found.get(client, "") for client in CLIENTS]


def _line(first: str, cells: Sequence[str], width: int, widths: Sequence[int]) -> str:
    columns = (f"{text:{size}}" for text, size in zip(cells, widths, strict=True))
    return f"{first:{width}}  {'  '.join(columns)}".rstrip()
