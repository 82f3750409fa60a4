"""The progress of a load test on the whole screen: rates, percentiles, rcodes, lateness, and a heat map.

Path: progress.py (-live screen) -> here, which only reads the results -> rich, which draws for the terminal's
width.
Rule 1: figures cover the last SHOWN whole seconds; counts and the strip cover the whole run, as far as there is room.
Rule 2: letters or shapes also show what colours show.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from hsdns.load.histogram import Percentile, highest_in, us_to_text
from hsdns.load.results import Counts, Results, Second, measured_of, together, without_histograms
from hsdns.load.verify.judge import NOT_BAD, RIGHT
from hsdns.wire import printable

SHOWN: Final = 3  # seconds that figures cover
LABEL: Final = 10  # columns left of the strip
NARROW: Final = 78  # columns below which only the most important percentiles are shown
IMPORTANT: Final = ("p50", "p99", "max")
LEAST_HEIGHT: Final = 16  # lines that one server needs
# Upper ends of the bands of the strip, in microseconds; there is one more band above the last.
BANDS: Final[tuple[int, ...]] = (
    *(100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
    *(100_000, 200_000, 500_000, 1_000_000),
)
SHADES: Final = "·░▒▓█"  # by the share of a second's queries
_SHARES: Final = (0.01, 0.1, 0.3, 0.6)
_GOOD: Final = ("NOERROR", "NXDOMAIN")
_BARS: Final = " ▁▂▃▄▅▆▇█"


def view(
    servers: Mapping[str, Results], seconds: float, length: float, width: int, height: int
) -> RenderableType:
    """The results of servers, `seconds` after the begin of a run of `length`, on `width` columns of `height` lines."""
    parts: list[RenderableType] = [_progress(seconds, length, width)]
    each = max(LEAST_HEIGHT, (height - 2) // max(1, len(servers)))
    room = max(1, (height - 2) // each)
    for name, results in list(servers.items())[:room]:
        parts += _server(name, results, int(max(0.0, seconds)), width, each)
    if len(servers) > room:
        names = ", ".join(list(servers)[room:])
        parts.append(
            Text(printable(f"no room for {names}"), style="dim", no_wrap=True, overflow="ellipsis")
        )
    return Group(*parts)


def _progress(seconds: float, length: float, width: int) -> Text:
    passed = min(max(seconds, 0.0), length)
    told = f" {passed:.0f}/{length:.0f} s  Ctrl-C ends it"
    room = max(4, width - len(told) - 1)
    full = round(room * passed / length)
    return Text().append("━" * full, "cyan").append("─" * (room - full), "dim").append(told, "dim")


def _server(
    name: str, results: Results, now: int, width: int, height: int
) -> Iterable[RenderableType]:
    seconds = dict(results.seconds)
    counted = [seconds[at] for at in range(now - SHOWN, now) if at in seconds]
    last = together(counted)
    yield Rule(Text(printable(name), style="bold"), align="left", style="dim")
    yield _rates(seconds, last, len(counted), now, width)
    yield _figures(last, width)
    whole = without_histograms(seconds.values())
    yield _answers(whole.counts)
    if whole.verdicts:
        yield _verdicts(whole.verdicts, whole.worst_age_ms)
    yield from _strip(seconds, now, width, height - 9)


def _rates(seconds: Mapping[int, Second], last: Second, count: int, now: int, width: int) -> Text:
    line = Text(no_wrap=True, overflow="crop")
    rate = last.counts.answered / count if count else 0.0
    line.append(f"{rate:,.0f}", "bold").append(" answers/s  ")
    room = max(0, width - len(line.plain) - 1)
    found = [
        seconds[at].counts.answered if at in seconds else 0 for at in range(max(0, now - room), now)
    ]
    most = max(found, default=0)
    line.append("".join(_BARS[-(-each * 8 // most)] if most else " " for each in found), "cyan")
    return line


def _figures(last: Second, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    measured = measured_of(last)
    latency, late = measured.latency, measured.lateness
    names = [each.name for each in latency]
    shown = [at for at, name in enumerate(names) if width >= NARROW or name in IMPORTANT]
    table.add_column("", style="dim", no_wrap=True)
    for at in shown:
        table.add_column(names[at], justify="right", header_style="dim", no_wrap=True)
    table.add_row("latency", *(_figure(latency[at]) for at in shown))
    table.add_row("late by", *(_figure(late[at]) for at in shown), style="dim")
    return table


def _figure(figure: Percentile) -> Text:
    if figure.us is not None:
        return Text(us_to_text(figure.us))
    return Text("lost", style="red") if figure.why == "lost" else Text("-", style="dim")


def _answers(counts: Counts) -> Text:
    lost, not_sent, whole = counts.lost, counts.not_sent, counts.sent
    line = Text(no_wrap=True, overflow="ellipsis")
    for rcode, number in counts.rcodes.items():
        style = "" if rcode in _GOOD else "red"
        line.append(f"{rcode} {number:,}", style).append(f" {number / whole:.1%}  ", "dim")
    line.append(f"lost {lost:,}", "red" if lost else "dim")
    if lost:
        line.append(f" {lost / whole:.2%}", "dim")
    if not_sent:
        line.append(f"  not sent {not_sent:,}", "yellow")
    return line


def _verdicts(verdicts: Mapping[str, int], worst_age_ms: float) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"right {verdicts.get(RIGHT, 0):,}", "green")
    for word, count in verdicts.items():
        if word != RIGHT and count:
            line.append(f"  {word} {count:,}", "dim" if word in NOT_BAD else "red")
    if worst_age_ms:
        line.append(f"  by {us_to_text(worst_age_ms * 1000)} at most", "dim")
    return line


def _strip(
    seconds: Mapping[int, Second], now: int, width: int, most: int
) -> Iterable[RenderableType]:
    """A column for each of the last seconds, a line for each band of latencies, the slowest at the top."""
    first = max(0, now - (width - LABEL - 1))
    columns = [_column(seconds.get(at)) for at in range(first, now)]
    used = [band for band in range(len(BANDS) + 2) if any(column[band] for column in columns)]
    if not used or most < 3:
        return
    shown = used[-(most - 1) :]  # one line shows the seconds
    for band in reversed(shown):
        is_rest = band == shown[0] and shown != used  # without room, it includes all faster ones
        line = Text(no_wrap=True, overflow="crop")
        line.append(f"{_band(band, is_rest=is_rest):>{LABEL - 1}} ", "dim")
        for column in columns:
            share = sum(column[: band + 1]) if is_rest else column[band]
            line.append(_shade(share), _style(band))
        yield line
    begin, end = f"{first} s", f"{now} s"
    gap = len(columns) - len(begin) - len(end)
    if gap >= 1:
        yield Text(f"{'':{LABEL}}{begin}{'':{gap}}{end}", "dim")


def _column(second: Second | None) -> list[float]:
    """The share of a second's queries in each band; the last band has the lost ones."""
    counts = [0] * (len(BANDS) + 2)
    if second is None:
        return [0.0] * len(counts)
    for slot, count in list(second.slots.items()):
        counts[bisect_left(BANDS, highest_in(slot))] += count
    counts[-1] = second.counts.lost
    whole = sum(counts)
    return [count / whole if whole else 0.0 for count in counts]


def _band(band: int, *, is_rest: bool) -> str:
    if band == len(BANDS) + 1:
        return "lost"
    text = us_to_text(BANDS[min(band, len(BANDS) - 1)]).replace(".00", "").replace(".0", "")
    return f"> {text}" if band == len(BANDS) else f"≤ {text}" if is_rest else text


def _shade(share: float) -> str:
    return SHADES[bisect_left(_SHARES, share)] if share else " "


def _style(band: int) -> str:
    if band == len(BANDS) + 1:
        return "red"
    return "cyan" if band < 4 else "blue" if band < 7 else "yellow" if band < 10 else "red"
