"""The lines that show how a load test goes, one for each server, once in a while, on standard error.

Path: cli/load.py -> here; the results are read as they are.
Rule: on a terminal the lines stand still, with the library rich if there is one; elsewhere they are written every five
      seconds at most, so that a log stays short.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hsdns.load.histogram import Histogram
from hsdns.load.judge import RIGHT, UNDECIDED
from hsdns.load.results import Results
from hsdns.load.words import us_to_text
from hsdns.wire.iana import rcode_to_text

LIBRARY: Final = "rich"
BETWEEN: Final = 5.0  # seconds between lines where there is no terminal
SHOWN: Final = 3  # seconds that the latencies are of
Show = Callable[[Mapping[str, Results], float], None]


def line(results: Results, seconds: float, length: float) -> str:
    """What is known after so many seconds of a schedule of `length`: of the last SHOWN whole seconds, and in all."""
    now = int(seconds)
    latency, lateness, answered = Histogram(), Histogram(), 0
    shown = [results.seconds[each] for each in range(now - SHOWN, now) if each in results.seconds]
    for second in shown:
        latency.merge(second.latency)
        lateness.merge(second.lateness)
        answered += second.answered
    lost = sum(second.lost for second in results.seconds.values())
    rcodes: dict[str, int] = {}
    verdicts: dict[str, int] = {}
    for second in list(results.seconds.values()):
        for rcode, count in second.rcodes.items():
            rcodes[rcode_to_text(rcode)] = rcodes.get(rcode_to_text(rcode), 0) + count
        for word, count in second.verdicts.items():
            verdicts[word] = verdicts.get(word, 0) + count
    parts = [f"{min(seconds, length):.0f}/{length:.0f} s"]
    if shown:
        p50, p99 = latency.percentiles((50, 99))
        late = lateness.percentile(99)
        parts.append(f"{answered / len(shown):.0f} answers/s")
        parts.append(f"p50 {_text(p50)} p99 {_text(p99)} (late {_text(late)})")
    parts += [f"{rcode} {count}" for rcode, count in sorted(rcodes.items())]
    if lost:
        parts.append(f"lost {lost}")
    if verdicts:
        parts += [
            f"{word} {count}"
            for word, count in verdicts.items()
            if word not in (RIGHT, UNDECIDED) or not len(parts)
        ]
        parts.append(f"{verdicts.get(RIGHT, 0)} right")
    return ", ".join(parts)


def lines(servers: Mapping[str, Results], seconds: float, length: float) -> list[str]:
    """A line for each server, with its name if there are several."""
    found = [line(results, seconds, length) for results in servers.values()]
    if len(found) == 1:
        return found
    return [f"{name}: {told}" for name, told in zip(servers, found, strict=True)]


@contextlib.contextmanager
def live(length: float) -> Iterator[Show]:
    """Show a run of so many seconds while it goes on."""
    if not sys.stderr.isatty():
        yield _plain(length)
    elif importlib.util.find_spec(LIBRARY) is None:
        yield _overwritten(length)
        print("\r\x1b[J", end="", file=sys.stderr)
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as display:
            yield lambda servers, seconds: display.update(
                Text("\n".join(lines(servers, seconds, length)), overflow="ellipsis", no_wrap=True),
                refresh=True,
            )


def _plain(length: float) -> Show:
    last = 0.0

    def show(servers: Mapping[str, Results], seconds: float) -> None:
        nonlocal last
        if seconds - last >= BETWEEN and seconds <= length:
            last = seconds
            print("\n".join(lines(servers, seconds, length)), file=sys.stderr, flush=True)

    return show


def _overwritten(length: float) -> Show:
    def show(servers: Mapping[str, Results], seconds: float) -> None:
        found = lines(servers, seconds, length)
        up = f"\x1b[{len(found) - 1}F" if len(found) > 1 else ""
        print(f"\r\x1b[J{chr(10).join(found)}{up}", end="", file=sys.stderr, flush=True)

    return show


def _text(us: int | None) -> str:
    return "-" if us is None else us_to_text(us)
