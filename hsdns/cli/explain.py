"""`hsdns explain NAME [TYPE]`: why a name has its answer, or none.

Path: argv -> here -> explain_running.py, or with -source or -conf explain_offline.py -> standard output.
Rule 1: the running server explains, unless a source or a Corefile is given.
Rule 2: the exit status is 0 for a name that resolves, 1 for one that does not, 2 if that is unknown.
Rule 3: standard output has only the explanation; errors of a source go to standard error.
"""

from __future__ import annotations

import os
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final

from hsdns.cli import builtin, control_path
from hsdns.cli.asker_flags import FLAGS, AskerCommand
from hsdns.cli.command import ANY, flag
from hsdns.cli.flags import (
    FORMATS,
    FlagError,
)
from hsdns.cli.output import say, say_json
from hsdns.cli.running_server import NotRunning, find
from hsdns.wire.iana import type_to_text

if TYPE_CHECKING:
    from hsdns.explanation.question import LookupQuestion
    from hsdns.explanation.report import Explanation
    from hsdns.wire.name import Name

UNKNOWN: Final = 2  # the exit status if the answer is unknown, also for bad input
STATUSES: Final = {"resolves": 0, "does not resolve": 1, "could not tell": UNKNOWN}
NO_HISTORY: Final = (
    "-history is what a running server remembers; leave out -source and -conf to ask it"
)


class Explain(AskerCommand):
    """Explains the answer."""

    name = "explain"
    forms = "NAME [TYPE] [FLAG...]"
    most_words = ANY
    bad = UNKNOWN

    conf: Annotated[
        str | None,
        builtin.CONF._replace(
            help='Corefile whose server blocks answer, "stdin" for standard input'
        ),
    ] = None
    control: Annotated[str | None, control_path.CHOICE] = None
    history: Annotated[
        bool, flag("show the last changes behind the name, which a running server remembers")
    ] = False
    server: Annotated[
        str | None, flag("ask this server too, and say where it differs", "ADDRESS")
    ] = None
    port: Annotated[int, flag("port of -server (default 53)", "PORT", name="p", low=1)] = 53
    o: Annotated[
        str,
        flag("format: text, a tree for a terminal (default), or json", "FORMAT", choices=FORMATS),
    ] = "text"

    def run(self) -> int:
        """Explain it; a name that does not resolve is a status of its own."""
        from hsdns.explanation.question import read_question

        asks = self._asks()
        qname, qtype = self.question() if asks is None else read_question(asks.name)
        self.exclusive("control", "conf", "source")
        objects = self.objects()
        server = self._server()
        is_offline = self.conf is not None or objects is not None
        if self.history and is_offline:
            raise FlagError(NO_HISTORY)
        is_whole = True
        if is_offline:
            from hsdns.cli.explain_offline import explain_offline

            found, is_whole = explain_offline(
                self.conf, objects, qname, qtype, asks, runs_code=self.runs_code
            )
        else:
            from hsdns.cli.explain_running import explain_running

            question = {"name": qname.to_text(), "type": type_to_text(qtype)}
            try:
                running = find(self.control)
                found = explain_running(running, question if asks is None else asks.parameters())
            except NotRunning as error:
                raise FlagError(f"{error}, or read a source with -source or -conf") from None
        if server is not None:
            found = _compared(found, qname, qtype, server, self.port)
        _write(found, self.o, with_history=self.history)
        if not is_whole and found.outcome != "resolves":
            return UNKNOWN  # what could not be read may be the missing object
        return STATUSES[found.outcome]

    def _asks(self) -> LookupQuestion | None:
        """The lookup of a program, if flags describe one; raise FlagError."""
        given = next((each for each in FLAGS if each in self.given), None)
        if given is None:
            return None
        for other in ("server", "history"):
            if other in self.given:
                raise FlagError(
                    f"-{other} is for one question, and -{given} for a whole lookup; leave one of them out"
                )
        return self.asking()

    def _server(self) -> str | None:
        """The address of -server; raise FlagError."""
        if self.server is None:
            if "p" in self.given:
                raise FlagError("-p is the port of -server; add -server ADDRESS, or leave -p out")
            return None
        try:
            return str(ip_address(self.server))
        except ValueError:
            raise FlagError(f'-server needs an IP address, found "{self.server}"') from None


def _write(found: Explanation, output: str, *, with_history: bool) -> None:
    if output == "json":
        say_json(found)
    else:
        from hsdns.explanation.text import lines

        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        say(*lines(found, colour=colour, with_history=with_history), shown=str)


def _compared(found: Explanation, qname: Name, qtype: int, address: str, port: int) -> Explanation:
    from msgspec import structs

    from hsdns.cli.explain_server import ask_server
    from hsdns.explanation.report import compare

    answer = ask_server(address, port, qname, qtype)
    return structs.replace(found, asked=compare(found, f"{address} port {port}", answer))
