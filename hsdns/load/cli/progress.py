"""The progress of a load test, with a line for each server, on standard error.

Path: load.py -> here, which only reads the results; screen.py draws the whole screen (-live screen).
Rule: on a terminal the lines are redrawn in place; elsewhere they are written
      at most every five seconds, so that a log stays short.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from hsdns import colours
from hsdns.cli.command import FlagError, complain
from hsdns.load.histogram import us_to_text
from hsdns.load.verify.judge import NOT_BAD, RIGHT
from hsdns.wire import printable

if TYPE_CHECKING:
    from hsdns.load.results import Results

LINE: Final = "line"
SCREEN: Final = "screen"
NONE: Final = "none"
WAYS: Final = (LINE, SCREEN, NONE)
BETWEEN: Final = 5.0  # seconds between lines without a terminal
SHOWN: Final = 3  # seconds that the latencies cover
REDRAWN: Final = 0.2  # seconds between two pictures of the screen
Show = Callable[[Mapping[str, "Results"], float], None]


def line(results: Results, seconds: float, length: float) -> str:
    """The results after `seconds` of a schedule of `length`: for the last SHOWN whole seconds, and in total."""
    from hsdns.load.results import together, without_histograms

    if seconds < 0:
        return f"begins in {-seconds:.0f} s"
    now = int(seconds)
    shown = [results.seconds[each] for each in range(now - SHOWN, now) if each in results.seconds]
    last, whole = together(shown), without_histograms(results.seconds.values())
    counts, verdicts = whole.counts, whole.verdicts
    parts = [f"{min(seconds, length):.0f}/{length:.0f} s"]
    if shown:
        p50, p99 = last.slots.percentiles((50, 99))
        late = last.late_slots.percentile(99)
        parts.append(f"{last.counts.answered / len(shown):.0f} answers/s")
        parts.append(f"p50 {_text(p50)} p99 {_text(p99)} (late {_text(late)})")
    if counts.lost:
        parts.append(f"lost {counts.lost}")
    if verdicts:
        parts += [f"{word} {number}" for word, number in verdicts.items() if word not in NOT_BAD]
        parts.append(f"{verdicts.get(RIGHT, 0)} right")
    parts += [f"{rcode} {number}" for rcode, number in sorted(counts.rcodes.items())]
    return ", ".join(parts)


def lines(servers: Mapping[str, Results], seconds: float, length: float) -> list[str]:
    """A line for each server, with its name if there are several."""
    found = [line(results, seconds, length) for results in servers.values()]
    if len(found) == 1:
        return found
    return [f"{printable(name)}: {told}" for name, told in zip(servers, found, strict=True)]


def check_live(how: str) -> None:
    """Raise FlagError if -live cannot show it."""
    if how == SCREEN and not sys.stderr.isatty():
        raise FlagError("--live screen: standard error is not a terminal; remove it for a log")


@contextlib.contextmanager
def live(length: float, how: str = LINE) -> Iterator[Show]:
    """Show a run of `length` seconds while it runs; `how` is one of WAYS."""
    if how == NONE:
        yield lambda servers, seconds: None
    elif how == LINE and not sys.stderr.isatty():
        yield _every(BETWEEN, length, lambda servers, now: complain(*lines(servers, now, length)))
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        from hsdns.load.cli.screen import view

        is_screen = how == SCREEN
        shown = colours.are_shown(sys.stderr)
        console = Console(
            stderr=True, highlight=False, soft_wrap=False, color_system="auto" if shown else None
        )
        with Live(console=console, auto_refresh=False, transient=True, screen=is_screen) as display:

            def show(servers: Mapping[str, Results], seconds: float) -> None:
                if is_screen:
                    drawn = view(servers, seconds, length, *console.size)
                else:
                    text = "\n".join(lines(servers, seconds, length))
                    drawn = Text(text, overflow="ellipsis", no_wrap=True)
                display.update(drawn, refresh=True)

            yield _every(REDRAWN, float("inf"), show) if is_screen else show


def _every(pause: float, length: float, show: Show) -> Show:
    """Show at most every `pause` seconds, until `length`."""
    last = 0.0

    def shown(servers: Mapping[str, Results], seconds: float) -> None:
        nonlocal last
        if seconds - last >= pause and seconds <= length:
            last = seconds
            show(servers, seconds)

    return shown


def _text(us: int | None) -> str:
    return "-" if us is None else us_to_text(us)
