"""The table of a soak: on the terminal, and in docs/performance.md.

Path: cli.py -> here <- soak_result.py.
Rule 1: the table shows the machine's own delays beside the server's: a delay that the control process has, too, is not
        the server's alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from loadtest.bench import Rows, listed, markdown
from loadtest.pressure.lateness import RATE, Machine
from loadtest.pressure.soak_result import Soak
from loadtest.programs import TITLES

NAME: Final = "soak"  # in the marks of the page
_MACHINE: Final = (
    f"a process that only wakes {RATE:.0f} times a second was late: p99 and worst, ms",
    "time of all cores with nothing to run, and taken by a hypervisor",
)


def rows(results: Sequence[Soak]) -> Rows:
    """A line for each figure, with its limit, and a column for each server; a figure beyond its limit is marked."""
    found = [["figure", "limit", *(TITLES[each.server] for each in results)]]
    whole = [each for each in results if not each.ended]
    for number, check in enumerate(whole[0].checks if whole else ()):
        found.append([check.figure, check.limit, *(_measured(each, number) for each in results)])
    for number, figure in enumerate(_MACHINE):
        found.append([figure, "", *(_of_machine(each.machine)[number] for each in results)])
    return found


def _measured(soak: Soak, number: int) -> str:
    if soak.ended:
        return "ended"
    check = soak.checks[number]
    return check.measured if check.holds else f"{check.measured}: FAILS"


def _of_machine(machine: Machine | None) -> tuple[str, str]:
    if machine is None:
        return "", ""
    late = f"{machine.p99 * 1e3:,.1f}, {machine.worst * 1e3:,.0f}"
    return late, f"{machine.idle:.0%}, {machine.stolen:.1%}"


def section(context: Mapping[str, str], results: Sequence[Soak]) -> str:
    """The section between the marks of the page."""
    parts = [listed(context), markdown(rows(results)).rstrip()]
    parts += [f"{TITLES[each.server]}: {each.ended}" for each in results if each.ended]
    return "\n\n".join(parts)
