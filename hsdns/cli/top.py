"""`hsdns top`: the activity of a running server.

Path: argv -> here -> running_server.py (/v1/top) -> rich, which draws for the width of the terminal, or JSON on
standard output.
Rule 1: a thread reads pictures, so that keys and a new size of the terminal are handled at once.
Rule 2: the terminal is restored, regardless of how the command ends.
Rule 3: names are shown completely, wrapped if they are too long; text from clients is never read as markup.
Rule 4: if the height is known, each list is shortened so that all are visible; failing names come first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from queue import Empty, SimpleQueue
from textwrap import TextWrapper, wrap
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from hsdns import colours
from hsdns.cli.command import OUTPUT, flag, say
from hsdns.cli.running_server import RunningServer, ServerCommand, ServerError
from hsdns.wire import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

Picture = dict[str, Any]
ENDED: Final = "the server at {path} has ended, or its control socket was closed"
LOOK: Final = 0.1  # seconds between two checks of the keys and the size of the terminal
QUIT: Final = b"qQ\x04"  # includes Ctrl-D; Ctrl-C is a signal


class Top(ServerCommand):
    """Shows pictures of the server until it is ended, or one."""

    name = "top"
    interrupted = ("", 0)

    namespace: str = flag("", "show only names of this namespace", "NAMESPACE", alias="n")
    below: str = flag("", "show only this name and those below it", "NAME", name="name")
    once: bool = flag(False, "print one snapshot and exit, as without a terminal")
    o: str = flag("text", OUTPUT, help="format: text (default), or json, one line per snapshot")

    def run(self) -> int:
        """Show them; raise ServerError once the server ends."""
        is_live = self.o == "text" and not self.once and colours.is_screen(sys.stdout)
        is_once = self.once or (self.o == "text" and not is_live)
        filters = {"namespace": self.namespace, "name": self.below}
        query = {name: value for name, value in filters.items() if name in self.given}
        if is_once:
            query["once"] = "1"
        page = f"/v1/top?{urlencode(query, errors='surrogateescape')}" if query else "/v1/top"
        server = self.server()
        if is_live:
            _show(server, page, self.namespace)
            return 0
        for picture in server.lines(page):
            _print(server, picture, self.o, self.namespace)
        if not is_once:
            raise ServerError(ENDED.format(path=server.path))
        return 0


def _print(server: RunningServer, picture: Picture, output: str, namespace: str) -> None:
    if output == "json":
        say(json.dumps(picture), flush=True)
        return
    console = _console()
    with console.capture() as drawn:
        console.print(view(picture, _place(server, namespace), console.width))
    # A terminal gets colours, and reads no commands at the begin of a line.
    say(
        *drawn.get().removesuffix("\n").split("\n"),
        shown=str if console.is_terminal else printable,
        flush=True,
    )


def _place(server: RunningServer, namespace: str) -> str:
    shown = f", names of namespace {namespace}" if namespace else ""
    return f"the server with process ID {server.pid}, at {server.path}{shown}"


def _console() -> Console:
    """The console; COLUMNS is its width without a terminal."""
    from rich.console import Console

    shown = colours.are_shown(sys.stdout)
    return Console(highlight=False, soft_wrap=False, color_system="auto" if shown else None)


def _show(server: RunningServer, page: str, namespace: str) -> None:
    """Show pictures until a key ends it; raise ServerError if the server ends."""
    from rich.live import Live

    pictures: SimpleQueue[Picture | ServerError] = SimpleQueue()
    Thread(target=_read, args=(server, page, pictures), daemon=True).start()
    console = _console()
    current: Picture | None = None
    size = console.size
    with (
        _keys() as keys,
        Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
    ):
        while not _is_quit(keys):
            changed = size != console.size
            size = console.size
            with contextlib.suppress(Empty):
                found = pictures.get_nowait()
                if isinstance(found, ServerError):
                    raise found
                current, changed = found, True
            if changed and current is not None:
                place = f"q quits, {_place(server, namespace)}"
                live.update(view(current, place, size.width, size.height), refresh=True)


def _read(server: RunningServer, page: str, pictures: SimpleQueue[Picture | ServerError]) -> None:
    try:
        for picture in server.lines(page):
            pictures.put(picture)
        pictures.put(ServerError(ENDED.format(path=server.path)))
    except ServerError as error:
        pictures.put(error)


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Read keys as they are pressed; None if standard input is not a terminal."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield None
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield number
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _is_quit(keys: int | None) -> bool:
    """Wait a moment for a key; return whether it ends the command."""
    ready, _, _ = select.select([] if keys is None else [keys], [], [], LOOK)
    if not ready or keys is None:
        return False
    pressed = os.read(keys, 64)
    return not pressed or any(key in QUIT for key in pressed)


_AFTER_DOT: Final = re.compile(r"(?<=\.)")


class _Column(NamedTuple):
    """A column to the right of the names: its title, width and style."""

    title: str
    width: int
    style: str = ""
    right: bool = True


class _Row(NamedTuple):
    """A name, the values in the columns to the right of it, and below a sentence and what to do."""

    name: str
    cells: tuple[str, ...]
    sentence: str = ""
    todo: str = ""


class _Section(NamedTuple):
    """A list; one without rows is shown only if it has a text `empty`."""

    title: str
    columns: tuple[_Column, ...]
    rows: list[_Row]
    empty: str = ""


def view(picture: Picture, place: str, width: int, height: int | None = None) -> RenderableType:
    """Draw a picture for a terminal of `width` columns and `height` lines; `place` is a line about the server."""
    from rich.console import Group

    picture, place = _printable(picture), printable(place)
    sections = [each for each in _sections(picture) if each.rows or each.empty]
    parts = list(_header(picture, place))
    most = _rows(sections, None if height is None else height - len(parts), width)
    for section, count in zip(sections, most, strict=True):
        if count is None or count > 0 or not section.rows:
            parts += _drawn(section, count, width)
    return Group(*parts)


def _printable(value: Any) -> Any:
    """A value of a picture in which every text is printable."""
    if isinstance(value, dict):
        return {printable(key): _printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return printable(value) if isinstance(value, str) else value


def _header(picture: Picture, place: str) -> Iterable[RenderableType]:
    from rich.text import Text

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
    if picture.get("past"):
        yield _of_past(picture["past"])
    yield Text(place, style="dim", no_wrap=True, overflow="ellipsis")


_BARS: Final = "▁▂▃▄▅▆▇█"
_BARS_SHOWN: Final = 20


def _of_past(past: Sequence[Picture]) -> Text:
    """The rates of up to 15 minutes as bars, each for the highest one of a part of them."""
    from rich.text import Text

    first, last = (datetime.fromisoformat(each["time"]) for each in (past[0], past[-1]))
    minutes = max(round((last - first).total_seconds() / 60), 1)
    line = Text(f"last {minutes} min ", style="dim", no_wrap=True, overflow="ellipsis")
    for title, key in (("", "queries_per_second"), ("  failing ", "failing_per_second")):
        rates = [each[key] for each in past]
        size, most = -(-len(rates) // _BARS_SHOWN), max(rates)
        parts = [max(rates[at : at + size]) for at in range(0, len(rates), size)]
        bars = "".join(_BARS[round(rate / most * 7) if most else 0] for rate in parts)
        line.append(title, style="dim")
        line.append(bars, style="red" if title else "")
        line.append(f" ≤ {_count(most)}/s", style="dim")
    return line


def _shares(rates: dict[str, float]) -> Text:
    """Types or rcodes with their rates, as many as fit on a line."""
    from rich.text import Text

    line = Text(no_wrap=True, overflow="ellipsis")
    for name, rate in rates.items():
        line.append(f"{name} ", style="" if name == "NOERROR" else _style(name))
        line.append(f"{_count(rate)}/s  ", style="dim")
    return line if rates else Text("no queries", style="dim")


def _sections(picture: Picture) -> Iterable[_Section]:
    rate, duration = _Column("/s", 7), _Column("ms", 9)
    rrtype = _Column("type", 10, right=False)
    yield _Section(
        "Failing names, and why",
        (rrtype, _Column("rcode", 9, "red", right=False), rate, _Column("ago", 8)),
        _failing(picture["failing"], picture["time"]),
        "no name has failed in the last 15 minutes",
    )
    yield _Section(
        "Active faults, and what they hit",
        (_Column("hits", 8, "yellow"), _Column("left", 11)),
        [
            _Row(
                each["name"],
                (
                    _count(each["hits"]),
                    "" if each["seconds_left"] is None else _duration(each["seconds_left"]),
                ),
                each["what"],
            )
            for each in picture["faults"]
        ],
    )
    yield _Section(
        "Changes, and the time from write to serving",
        (_Column("record", 26, "green", right=False), _Column("ago", 8), duration),
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
        "nothing has changed since the server has read the cluster",
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
        "Clients wasting queries (search list)",
        (_Column("wasted", 8, "yellow"), _Column("of", 8)),
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


def _failing(found: Iterable[Picture], now: str) -> list[_Row]:
    """The rows of failing names; types of a name that fail for the same reason share a row."""
    alike: dict[tuple[str, ...], list[Picture]] = {}
    for each in found:
        todo = f"-> {each['todo']}" if each.get("todo") else ""
        alike.setdefault((each["name"], each["rcode"], each["cause"], todo), []).append(each)
    return [
        _Row(
            name,
            (
                " ".join(each["type"] for each in rows),
                rcode,
                _count(rate) if (rate := sum(each["per_second"] for each in rows)) else "",
                _ago(now, max(each["last"] for each in rows)),
            ),
            *why,
        )
        for (name, rcode, *why), rows in alike.items()
    ]


def _drawn(section: _Section, count: int | None, width: int) -> Iterable[RenderableType]:
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.text import Text

    columns = section.columns
    rows = section.rows if count is None else section.rows[:count]
    left_out = "" if len(rows) == len(section.rows) else f" ({len(rows)} of {len(section.rows)})"
    yield Rule(Text(f"{section.title}{left_out}", style="bold"), align="left", style="dim")
    if not rows:
        yield Text(section.empty, style="dim")
        return
    yield _line("", [each.title for each in columns], columns, is_title=True)
    for name, cells, *below in rows:
        *above, last = _broken(name, columns, width)
        yield from map(Text, above)
        yield _line(last, cells, columns)
        for sentence, style in zip(below, ("cyan", "bold"), strict=True):
            if sentence:
                yield Padding(Text(sentence, style=style), (0, 0, 0, 2))


def _broken(name: str, columns: Sequence[_Column], width: int) -> list[str]:
    """The lines of a name: it is beside its values, or, if it is too long, above them and broken after dots."""
    if len(name) <= width - sum(each.width + 1 for each in columns):
        return [name]
    wrapper = TextWrapper(max(width, 1))
    wrapper.wordsep_re = _AFTER_DOT
    return [*wrapper.wrap(name), ""]


def _line(
    name: str, cells: Sequence[str], columns: Sequence[_Column], *, is_title: bool = False
) -> Table:
    from rich.table import Table
    from rich.text import Text

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


def _rows(sections: Sequence[_Section], lines: int | None, width: int) -> list[int | None]:
    """How many rows of each list are shown in `lines` lines; None for all."""
    if lines is None:
        return [None] * len(sections)
    counts = [0] * len(sections)
    left = lines - sum(1 + len(wrap(each.empty, width)) for each in sections if not each.rows)
    for is_first in (True, False):
        while True:
            before = left
            for at, section in enumerate(sections):
                if counts[at] >= len(section.rows) or (is_first and counts[at]):
                    continue
                # The first row also needs lines for the rule and the titles.
                row = section.rows[counts[at]]
                below = sum(len(wrap(text, max(width - 2, 1))) for text in (row.sentence, row.todo))
                need = (
                    len(_broken(row.name, section.columns, width))
                    + below
                    + (0 if counts[at] else 2)
                )
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
    return " ".join(_duration(max(passed.total_seconds(), 0)).split()[:2])


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
