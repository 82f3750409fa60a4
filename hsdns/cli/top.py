"""`hsdns top`: the activity of a running server.

Path: argv -> here -> running_server.py (/v1/top) -> top_view.py -> the terminal, or JSON on standard output.
Rule 1: a thread reads pictures, so that keys and a new size of the terminal are handled at once.
Rule 2: the terminal is restored, regardless of how the command ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import sys
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode

from hsdns.cli.command import FORMATS, flag, say
from hsdns.cli.running_server import RunningServer, ServerCommand, ServerError
from hsdns.errors import OperatorError
from hsdns.wire import printable

if TYPE_CHECKING:
    from rich.console import Console

Picture = dict[str, Any]
LIBRARY: Final = "rich"
NO_LIBRARY: Final = (
    'hsdns top draws with the library rich, which is not installed: run pip install "hsdns-server[top]", '
    "or use -o json"
)
ENDED: Final = "the server at {path} has ended, or its control socket was closed"
LOOK: Final = 0.1  # seconds between two checks of the keys and the size of the terminal
QUIT: Final = b"qQ\x04"  # includes Ctrl-D; Ctrl-C is a signal


class Top(ServerCommand):
    """Shows pictures of the server until it is ended, or one."""

    name = "top"
    interrupted = ("", 0)

    namespace: Annotated[str, flag("show only names of this namespace", "NAMESPACE", alias="n")] = (
        ""
    )
    below: Annotated[str, flag("show only this name and those below it", "NAME", name="name")] = ""
    once: Annotated[bool, flag("print one picture and exit, as without a terminal")] = False
    o: Annotated[
        str,
        flag("format: text (default), or json, a line for each picture", "FORMAT", choices=FORMATS),
    ] = "text"

    def run(self) -> int:
        """Show them; raise ServerError once the server ends."""
        if self.o == "text" and importlib.util.find_spec(LIBRARY) is None:
            raise OperatorError(NO_LIBRARY)
        is_live = self.o == "text" and not self.once and sys.stdout.isatty()
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
    from hsdns.cli.top_view import view

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
    """The console; without a terminal, or with NO_COLOR, it has no colours, and COLUMNS is its width."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def _show(server: RunningServer, page: str, namespace: str) -> None:
    """Show pictures until a key ends it; raise ServerError if the server ends."""
    from rich.live import Live

    from hsdns.cli.top_view import view

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
