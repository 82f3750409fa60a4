"""Draws a picture of /v1/top on a terminal.

Path: top.py -> here -> rich, which draws for the terminal's width.
Rule 1: names are shown completely, wrapped if they are too long; text from clients is never read as markup.
Rule 2: if the height is known, each list is shortened so that all are visible; failing names come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from hsdns.wire import printable

NARROW: Final = 64  # columns below which only names and the most important values are shown
HEADER: Final = 4  # lines
Picture = dict[str, Any]


class _Column(NamedTuple):
    """A column to the right of the names: its title, width and style; `minor` ones are omitted on a narrow terminal."""

    title: str
    width: int
    style: str = ""
    minor: bool = False
    right: bool = True


class _Row(NamedTuple):
    """A name, the values in the columns to the right of it, and a sentence below."""

    name: str
    cells: tuple[str, ...]
    sentence: str = ""


class _Section(NamedTuple):
    """A list; one without rows is shown only if it has a text `empty`."""

    title: str
    columns: tuple[_Column, ...]
    rows: list[_Row]
    empty: str = ""


def view(picture: Picture, place: str, width: int, height: int | None = None) -> RenderableType:
    """Draw a picture for a terminal of `width` columns and `height` lines; `place` is a line about the server."""
    picture, place = _printable(picture), printable(place)
    sections = [each for each in _sections(picture) if each.rows or each.empty]
    parts = list(_header(picture, place))
    most = _rows(sections, None if height is None else height - HEADER)
    for section, count in zip(sections, most, strict=True):
        if count is None or count > 0 or not section.rows:
            parts += _drawn(section, count, is_narrow=width < NARROW)
    return Group(*parts)


def _printable(value: Any) -> Any:
    """A value of a picture in which every text is printable."""
    if isinstance(value, dict):
        return {printable(key): _printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return printable(value) if isinstance(value, str) else value


def _header(picture: Picture, place: str) -> Iterable[RenderableType]:
    rates = picture["rates"]
    share = rates["table_share"]
    first = Text(f"{_count(rates['queries_per_second'])} queries/s", style="bold")
    if share is not None:
        first.append(f", {share * 100:.0f} % from the answer table", style="not bold")
    first.append(f", up {_duration(picture['uptime_seconds'])}", style="not bold")
    yield first
    yield _shares(rates["by_type"])
    line = _shares(rates["by_rcode"])
    if not rates["exact"]:
        line.append("of a fair share", style="dim")
    yield line
    yield Text(place, style="dim", no_wrap=True, overflow="ellipsis")


def _shares(rates: dict[str, float]) -> Text:
    """Types or rcodes with their rates, as many as fit on a line."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for name, rate in rates.items():
        line.append(f"{name} ", style="" if name == "NOERROR" else _style(name))
        line.append(f"{_count(rate)}/s  ", style="dim")
    return line if rates else Text("no queries", style="dim")


def _sections(picture: Picture) -> Iterable[_Section]:
    rate, duration = _Column("/s", 7), _Column("ms", 9)
    rrtype = _Column("type", 8, right=False)
    yield _Section(
        "Names that fail, and why",
        (rrtype, _Column("rcode", 9, "red", right=False), rate),
        _failing(picture["failing"]),
        "nothing fails",
    )
    yield _Section(
        "Changes, and the time from writing to serving them",
        (_Column("record", 26, "green", right=False), _Column("ago", 8, minor=True), duration),
        [
            _Row(
                each["name"],
                (
                    _signed(each),
                    _ago(picture["time"], each["time"]),
                    _milliseconds(each["served_ms"]),
                ),
            )
            for each in reversed(picture["changes"])
        ],
        "nothing has changed since this command began",
    )
    yield _Section(
        "Slowest answers of the last minute",
        (rrtype, duration),
        [
            _Row(each["name"], (each["type"], _milliseconds(each["duration_ms"])))
            for each in picture["slowest"]
        ],
    )
    yield _Section(
        "Askers whose search list sends queries in vain",
        (_Column("in vain", 8, "yellow"), _Column("of", 8)),
        [
            _Row(
                each["client"],
                (_count(each["wasted"]), _count(each["queries"])),
                f"such as {each['example']}",
            )
            for each in picture["search_waste"]
        ],
    )
    yield _Section(
        "Upstreams, with the median time of their replies",
        (rate, _Column("failures", 8, "red"), duration),
        [
            _Row(
                each["address"],
                (
                    _count(each["per_second"]),
                    str(each["failures"] or ""),
                    _milliseconds(each["p50_ms"]),
                ),
            )
            for each in picture["upstreams"]
        ],
    )


def _failing(found: Iterable[Picture]) -> list[_Row]:
    """The rows of failing names; types of a name that fail for the same reason share a row."""
    alike: dict[tuple[str, str, str], list[Picture]] = {}
    for each in found:
        alike.setdefault((each["name"], each["rcode"], each["cause"]), []).append(each)
    return [
        _Row(
            name,
            (
                " ".join(each["type"] for each in rows),
                rcode,
                _count(sum(each["per_second"] for each in rows)),
            ),
            cause,
        )
        for (name, rcode, cause), rows in alike.items()
    ]


def _drawn(section: _Section, count: int | None, *, is_narrow: bool) -> Iterable[RenderableType]:
    shown = [at for at, each in enumerate(section.columns) if not (is_narrow and each.minor)]
    columns = [section.columns[at] for at in shown]
    rows = section.rows if count is None else section.rows[:count]
    left_out = "" if len(rows) == len(section.rows) else f" ({len(rows)} of {len(section.rows)})"
    yield Rule(Text(f"{section.title}{left_out}", style="bold"), align="left", style="dim")
    if not rows:
        yield Text(section.empty, style="dim")
        return
    yield _line("", [each.title for each in columns], columns, is_title=True)
    for name, cells, sentence in rows:
        yield _line(name, [cells[at] for at in shown], columns)
        if sentence:
            yield Padding(Text(sentence, style="cyan"), (0, 0, 0, 2))


def _line(
    name: str, cells: Sequence[str], columns: Sequence[_Column], *, is_title: bool = False
) -> Table:
    line = Table.grid(expand=True, padding=(0, 1, 0, 0))
    line.add_column(ratio=1, overflow="fold")
    for column in columns:
        line.add_column(
            width=column.width, justify="right" if column.right else "left", overflow="fold"
        )
    styles = ["dim" if is_title else column.style for column in columns]
    texts = [Text(cell, style=style) for cell, style in zip(cells, styles, strict=True)]
    line.add_row(Text(name), *texts)
    return line


def _rows(sections: Sequence[_Section], lines: int | None) -> list[int | None]:
    """How many rows of each list are shown in `lines` lines; None for all."""
    if lines is None:
        return [None] * len(sections)
    counts = [0] * len(sections)
    left = lines - sum(2 if not each.rows else 0 for each in sections)
    for is_first in (True, False):
        while True:
            before = left
            for at, section in enumerate(sections):
                if counts[at] >= len(section.rows) or (is_first and counts[at]):
                    continue
                # The first row also needs lines for the rule and the titles.
                need = (2 if section.rows[counts[at]].sentence else 1) + (0 if counts[at] else 2)
                if need <= left:
                    counts[at] += 1
                    left -= need
            if left == before:
                break
    return list(counts)


def _style(word: str) -> str:
    return "red" if word in ("NXDOMAIN", "SERVFAIL", "REFUSED", "no reply") else ""


def _signed(change: Picture) -> str:
    return f"{'+' if change['change'] == 'added' else '-'} {change['record']}"


def _ago(now: str, then: str) -> str:
    passed = datetime.fromisoformat(now) - datetime.fromisoformat(then)
    return _duration(max(passed.total_seconds(), 0))


def _milliseconds(number: float | None) -> str:
    return "" if number is None else f"{number:,.3f}" if abs(number) < 10 else f"{number:,.0f}"


def _count(number: float) -> str:
    """A number of at most 7 characters."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if number >= size:
            return f"{number / (1000 if unit == 'k' else size):,.1f}{unit}"
    if number >= 10 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.2f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
