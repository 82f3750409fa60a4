"""Generates the documentation pages of fault scenarios from the files of the scenarios.

    make scenario-pages

Path: files/*.toml -> here -> docs/fault-scenarios/; a test compares them.

Scenarios and clients as a table: the effect of each scenario on each client:
Rule: the table has a column for each resolver with default settings; a single scenario has a line for each of its
      clients.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NamedTuple

import msgspec

from hsdns.fault_scenarios.memory_server import OtherServer
from hsdns.fault_scenarios.play import Outcome, play
from hsdns.fault_scenarios.scenario import Scenario, Seen, Step, load, names
from hsdns.resolver import looks_up
from hsdns.wire import counted

CLIENTS: Final = ("glibc", "musl", "musl-1.2.3", "go", "node-resolve", "envoy")
LEGEND: Final = "seconds lost, and how many of the lookups failed or had a wrong answer"


class Played(NamedTuple):
    """A scenario with the outcomes of its clients; `why_not` says why it cannot use another server."""

    scenario: Scenario
    outcomes: tuple[Outcome, ...]
    why_not: str = ""

    @property
    def never_hit(self) -> list[str]:
        """The rules without a hit of any client."""
        hit = {name for outcome in self.outcomes for name, hits in outcome.hits.items() if hits}
        return [] if self.why_not else [name for name in self.scenario.rules if name not in hit]


def play_all(
    scenarios: Sequence[Scenario],
    behind: OtherServer | None = None,
    name: str = "",
    programs: Sequence[str] = (),
    through: str = "",
) -> Iterator[Played]:
    """Run scenarios for programs, or all their clients; `behind` has another server's name to look up.

    Raise ScenarioError.
    """
    for scenario in scenarios:
        types = [rrtype for each in scenario.asked for rrtype in each.types]
        able = [each for each in programs if looks_up(each, types)]
        own = [each for each in scenario.seen if not programs]
        clients = [Seen(each, 0.0, 0, 0, through=through) for each in able] or own
        if behind is None:
            yield Played(scenario, tuple(play(scenario, seen) for seen in clients))
        elif scenario.why_not_behind:
            yield Played(scenario, (), scenario.why_not_behind)
        else:
            about = scenario.about(name)
            found = tuple(play(about, seen, behind) for seen in clients)
            yield Played(scenario, found)


def cell(scenario: Scenario, measured: Seen | Outcome) -> str:
    """Describe the effect on a client briefly."""
    bad = measured.failed + measured.wrong
    if not scenario.rules and not measured.seconds and not bad:
        return counted(measured.queries, "query")
    seconds = "no end" if measured.seconds == inf else f"{measured.seconds:g} s"
    return f"{seconds}, {bad} of {lookups(scenario)}" if bad else seconds


def lookups(scenario: Scenario) -> int:
    """The number of a client's lookups."""
    return sum(each.times * each.programs for each in scenario.asked)


def as_table(
    played: Sequence[Played], clients: Sequence[str] = CLIENTS, through: str = "", most: int = 0
) -> Iterator[str]:
    """A line for each scenario, and a column for each client, of those through a forwarder if one is named.

    If a line is longer than `most`, 0 for any, the clients are in several tables.
    """
    width = max([8, *(len(each.scenario.name) for each in played)])
    labels = [Seen(each, 0.0, 0, 0, through=through).label for each in clients]
    rows = [(each, _cells(each, labels)) for each in played]
    columns = zip(clients, *(cells for _, cells in rows), strict=True)
    widths = [max(map(len, column)) for column in columns]
    if 0 < most < width + sum(widths) + 2 * len(widths) and (half := len(clients) // 2):
        yield from as_table(played, clients[:half], through, most)
        yield from ("", *as_table(played, clients[half:], through, most))
        return
    yield _line("scenario", clients, width, widths)
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
    """A scenario as JSON; a duration without end is null."""
    clients = [msgspec.to_builtins(each) for each in played.outcomes]
    return {
        "scenario": played.scenario.name,
        "title": played.scenario.title,
        "why_not": played.why_not or None,
        "never_hit": played.never_hit,
        "clients": [
            {key: None if value == inf else value for key, value in each.items()}
            for each in clients
        ],
    }


def _cells(played: Played, clients: Sequence[str]) -> list[str]:
    found = {each.client: cell(played.scenario, each) for each in played.outcomes}
    return [found.get(client, "") for client in clients]


def _line(first: str, cells: Sequence[str], width: int, widths: Sequence[int]) -> str:
    columns = (f"{text:{size}}" for text, size in zip(cells, widths, strict=True))
    return f"{first:{width}}  {'  '.join(columns)}".rstrip()


MARK: Final = "<!-- of hsdns/fault_scenarios/files, by make scenario-pages -->"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of the matrix -->\n"


def page(scenario: Scenario) -> str:
    """The page of a scenario."""
    return "\n".join(_lines(scenario)) + "\n"


def matrix(scenarios: list[Scenario]) -> str:
    """The table of all scenarios, in Markdown."""
    lines = [f"| scenario | {' | '.join(CLIENTS)} |", "| --- " * (len(CLIENTS) + 1) + "|"]
    for scenario in scenarios:
        plain = {seen.client: cell(scenario, seen) for seen in scenario.seen if seen.is_plain}
        cells = " | ".join(plain.get(client, "") for client in CLIENTS)
        lines.append(f"| [{scenario.name}]({scenario.name}.md) | {cells} |")
    return "\n".join(lines) + "\n"


def write(folder: Path) -> None:
    """Write the pages into a folder, and the matrix into its index."""
    scenarios = [load(name) for name in names()]
    for scenario in scenarios:
        (folder / f"{scenario.name}.md").write_text(page(scenario))
    index = folder / "index.md"
    before, _, rest = index.read_text().partition(BEGIN)
    index.write_text(f"{before}{BEGIN}{matrix(scenarios)}{END}{rest.partition(END)[2]}")


def _lines(scenario: Scenario) -> Iterator[str]:
    yield from (f"# {scenario.name}", "", MARK, "")
    for text in filter(None, (f"**{scenario.title}.** {scenario.story}", scenario.remark)):
        yield from (fill(text, 120, break_on_hyphens=False), "")
    yield from ("## Timeline", "", "| second | what happens |", "| --- | --- |")
    yield from (f"| {each.at:g} | {_what(each)} |" for each in scenario.steps)
    if not scenario.steps:
        yield "| 0 | nothing: the objects alone are the fault |"
    yield f"| {scenario.seconds:g} | the scenario ends |"
    yield from ("", "Lookups:", "")
    for asked in scenario.asked:
        often = f", {asked.times} times, every {asked.every:g} s" if asked.times > 1 else ""
        crowd = f", by {asked.programs} programs at once" if asked.programs > 1 else ""
        begin = f" from second {asked.at:g} on" if asked.at else ""
        kind = f" {asked.type}" if asked.type else ""
        yield f"- `{asked.name}`{kind}, by a Pod in namespace `{asked.namespace}`{begin}{often}{crowd}"
    yield from ("", "## What each client sees", "")
    yield f"Of {lookups(scenario)} lookups:" if lookups(scenario) > 1 else "Of one lookup:"
    yield ""
    has_end = bool(scenario.mended)
    recovery = " recovered after |" if has_end else ""
    yield f"| client | seconds lost | failed | wrong |{recovery} queries | error |"
    yield "| --- " * (7 if has_end else 6) + "|"
    for seen in scenario.seen:
        recovered = f" {number(seen.recovered)} s |" if has_end else ""
        yield (
            f"| {seen.label} | {number(seen.seconds)} | {seen.failed} | {seen.wrong} |{recovered} "
            f"{seen.queries} | {seen.error} |"
        )
    yield from ("", "## Run it", "", "```text", f"hsdns fault matrix {scenario.name}")
    yield from (f"hsdns fault run {scenario.name}", "```", "")
    if scenario.own:
        yield from (f"It needs its own cluster: {scenario.own}.", "")
    yield from ("## Reports", "")
    yield from (f"- <{source}>" for source in scenario.sources)


def _what(step: Step) -> str:
    parts = [f"`{rule}`" for rule in step.add]
    parts += [f"`{name}` ends" for name in step.remove]
    if step.apply:
        parts.append("objects change")
    parts += [f"{each} is deleted" for each in step.delete]
    return "<br>".join(parts)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
