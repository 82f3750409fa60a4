"""Generates the documentation pages of fault scenarios from the files of the scenarios.

    make scenario-pages

Path: files/*.toml -> here -> docs/fault-scenarios/; a test compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hsdns.fault_scenarios.matrix import CLIENTS, cell, lookups, number
from hsdns.fault_scenarios.scenario import Scenario, Step, load, names

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
    yield from (
        f"# {scenario.name}",
        "",
        MARK,
        "",
        f"**{scenario.title}.** {scenario.story.strip()}",
        "",
    )
    if scenario.remark:
        yield from (scenario.remark.strip(), "")
    yield from ("## In time", "", "| second | what happens |", "| --- | --- |")
    yield from (f"| {each.at:g} | {_what(each)} |" for each in scenario.steps)
    if not scenario.steps:
        yield "| 0 | nothing: the objects alone are the fault |"
    yield f"| {scenario.seconds:g} | it ends |"
    yield from ("", "Asked for:", "")
    for asked in scenario.asked:
        often = f", {asked.times} times, every {asked.every:g} s" if asked.times > 1 else ""
        crowd = f", by {asked.programs} programs at once" if asked.programs > 1 else ""
        begin = f" from second {asked.at:g} on" if asked.at else ""
        yield f"- `{asked.name}`, by a pod of the namespace `{asked.namespace}`{begin}{often}{crowd}"
    yield from ("", "## What each client sees", "")
    yield f"Of {lookups(scenario)} lookups:" if lookups(scenario) > 1 else "Of one lookup:"
    yield ""
    has_end = bool(scenario.mended)
    recovery = " recovered after |" if has_end else ""
    yield f"| client | seconds lost | failed | wrong |{recovery} queries | its error |"
    yield "| --- " * (7 if has_end else 6) + "|"
    for seen in scenario.seen:
        recovered = f" {number(seen.recovered)} s |" if has_end else ""
        yield (
            f"| {seen.label} | {number(seen.seconds)} | {seen.failed} | {seen.wrong} |{recovered} "
            f"{seen.queries} | {seen.error} |"
        )
    yield from ("", "## Play it", "", "```text")
    yield f"hsdns fault matrix {scenario.name}"
    yield f"hsdns fault run {scenario.name}"
    yield from ("```", "")
    if scenario.own:
        yield from (f"It is played with a cluster of its own: {scenario.own}.", "")
    yield from ("## Reports", "")
    yield from (f"- <{source}>" for source in scenario.sources)


def _what(step: Step) -> str:
    parts = [f"`{rule}`" for rule in step.add]
    if step.remove:
        parts.append(f"ends: {', '.join(f'`{name}`' for name in step.remove)}")
    if step.apply:
        parts.append("objects change")
    parts += [f"{each} is deleted" for each in step.delete]
    return "<br>".join(parts)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
