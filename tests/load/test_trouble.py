"""Senders and servers in trouble on a virtual clock, of which trouble.txt has rows, and searches for their knee.

A query leaves as schedule.Pace lets it, and not while the sender does not run; a server answers `capacity` queries a
second in turn, and drops those that its socket has no room for.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns.load.counters import MachineTimes
from hsdns.load.knee import KneeSearch, outcome_of, queries_for
from hsdns.load.limits import read_knee_limits
from hsdns.load.outcome import LATE, LOST, PlainOutcome
from hsdns.load.output.text import lines
from hsdns.load.report import exit_status
from hsdns.load.results import Results, measured_of
from hsdns.load.schedule import SECOND, Pace, Schedule, Stage
from tests.load.test_report import QUESTIONS, report
from tests.support.tables import Row, columns, rows

HERE = Path(__file__)
MS = SECOND // 1000
FAST = 1_000_000  # queries a second, so that no query waits
ROOM = 277  # datagrams in a socket of ordinary size
Span = tuple[int, int]  # nanoseconds
SHOWN = ("queries", "latency", "service", "WITHHELD", "NOTE", "machine", "limit", " ")


def outcomes(
    rate: float, seconds: float, stops: list[Span], stalls: list[Span], capacity: float, room: int
) -> Iterator[PlainOutcome]:
    """What becomes of queries; the sender does not run in `stops`, nor the server in `stalls`."""
    schedule = Schedule((Stage(seconds, rate, rate),))
    late_after = schedule.late_after
    pace = Pace(schedule.times(), 0, late_after)
    waiting: deque[int] = deque()  # when the server has answered each
    while (planned := pace.due) is not None:
        now = after(stops, pace.at)
        pace.begin_turn(now)
        while waiting and waiting[0] <= now:
            waiting.popleft()
        received = LOST
        if len(waiting) <= room:
            last = waiting[-1] if waiting else now
            received = after(stalls, max(last, now)) + round(SECOND / capacity)
            waiting.append(received)
        yield 0, LATE if now - planned > late_after else 0, 0, planned, now, received
        pace.advance()


def after(spans: list[Span], time: int) -> int:
    """The time, or the end of the span that it is in."""
    return next((high for low, high in spans if low <= time < high), time)


def spans(text: str) -> list[Span]:
    """Spans in milliseconds: 4500+300, or 0+200 each 1000."""
    found = []
    for first, length, every in re.findall(r"(\d+)\+(\d+)(?:each(\d+))?", text):
        times = range(int(first), 10_000, int(every)) if every else [int(first)]
        found += [(at * MS, (at + int(length)) * MS) for at in times]
    return found


def carried_out(given: str) -> Results:
    """The results of a row; each second of the machine is as usual but for its trouble."""
    words = dict(each.partition("=")[::2] for each in given.split())
    rate, seconds, capacity = (
        float(words.get(name, usual)) for name, usual in (("rate", 1000), ("for", 10), ("capacity", FAST))
    )  # fmt: skip
    stop, hog, stall = (spans(words.get(name, "")) for name in ("stop", "hog", "stall"))
    found = Results(QUESTIONS, 0)
    found.add(outcomes(rate, seconds, stop + hog, stall, capacity, ROOM))
    for number in range(round(seconds)):
        waits, stops = (
            sum(high - low for low, high in each if low // SECOND == number) // 1000
            for each in (hog, stop)
        )
        ran, told = 900_000 - waits - stops, None if "untold" in words else 2000 + waits
        found.second(number).machine = MachineTimes(
            10**6, 10**6, 0, told, 1000 + waits, ran, 50_000, 100_000, 0
        )
    for second, count in re.findall(r"(\d+):(\d+)", words.get("full", "")):
        found.second(int(second)).dropped = int(count)
        due = int(second) * SECOND
        found.add([(0, 0, 0, due, due, LOST)] * int(count))
    return found


def shown(row: Row) -> list[str]:
    """The lines of the report of a row."""
    servers, _, limits = row.given.partition(" | ")
    first, *others = servers.splitlines()
    more = {f"server {at}": carried_out(each) for at, each in enumerate(others, 2)}
    found = report(carried_out(first), limits, slack=None, **more)  # type: ignore[arg-type] # names
    told = [line for line in lines(found) if line.startswith(SHOWN)]
    return [*told, f"status {exit_status(found)}"]


@pytest.mark.parametrize("row", rows(HERE.with_name("trouble.txt")))
def test_what_a_report_says(row: Row) -> None:
    assert shown(row) == row.expected[0].splitlines()


@pytest.mark.parametrize(("given", "expected"), columns(HERE.with_name("tables.txt"), "searches for the knee of a server that answers 2,000 queries a second"))  # fmt: skip
def test_a_knee(given: str, expected: str) -> None:
    """With stops and stalls at these times of each step, and the share of a CPU that other processes have."""
    words = dict(each.partition("=")[::2] for each in given.split())
    stop, stall = (spans(words.get(name, "")) for name in ("stop", "stall"))
    limits = read_knee_limits("p90<5ms,loss<=0.1%", verifies=False)
    search = KneeSearch(500, 100_000, queries_for(limits))
    while (step := search.step) is not None:
        found = Results(QUESTIONS, 0)
        found.add(outcomes(step.rate, step.seconds, stop, stall, 2000, 28))
        whole = found.whole()
        others = float(words.get("others", 0))
        search.step_ended(
            outcome_of(
                limits, measured_of(whole), answered=whole.counts.answered, kept=True, others=others
            )
        )
    knee = search.knee()
    is_right = knee.found and knee.holds is not None and abs(knee.holds / 2000 - 1) < 0.02
    assert ("found" if is_right else knee.sentence) == expected
