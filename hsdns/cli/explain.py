"""`hsdns explain NAME [TYPE]`: why a name has its answer, or none.

Path: argv -> here -> explain_running.py, or with -source or -conf explain_offline.py -> standard output.
Rule 1: the running server explains, unless a source or a Corefile is given.
Rule 2: the exit status is 0 for a name that resolves, 1 for one that does not, 2 if that is unknown.
Rule 3: standard output has only the explanation; errors of a source go to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from hsdns.cli import asker_flags, builtin, control_path
from hsdns.cli.flags import (
    NO_CODE,
    Flag,
    FlagError,
    leading_words,
    output_format,
    parse_flags,
    runs_code,
    usage,
)
from hsdns.cli.output import complain, say, say_json, say_text
from hsdns.cli.running_server import NotRunning, ServerError, find_by
from hsdns.cli.source_flag import source_objects
from hsdns.corefile.tree import CorefileError
from hsdns.explanation.question import QuestionError
from hsdns.wire.iana import type_to_text

if TYPE_CHECKING:
    from hsdns.explanation.report import Explanation
    from hsdns.wire.name import Name

UNKNOWN: Final = 2  # the exit status if the answer is unknown, also for bad input
STATUSES: Final = {"resolves": 0, "does not resolve": 1, "could not tell": UNKNOWN}
NO_HISTORY: Final = (
    "-history is what a running server remembers; leave out -source and -conf to ask it"
)
FLAGS: Final = {
    "source": builtin.SOURCE,
    "conf": builtin.CONF._replace(
        help='Corefile whose server blocks answer, "stdin" for standard input'
    ),
    "control": control_path.CHOICE,
    "history": Flag(
        bool, "show the last changes behind the name, which a running server remembers"
    ),
    "server": Flag(str, "ask this server too, and say where it differs", "ADDRESS"),
    "p": Flag(int, "port of -server (default 53)", "PORT", low=1),
    **asker_flags.FLAGS,
    "o": Flag(str, "format: text, a tree for a terminal (default), or json", "FORMAT"),
    **NO_CODE,
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns explain`; return the exit status."""
    plain, rest = leading_words(words)
    try:
        flags = parse_flags(rest, FLAGS, command="hsdns explain")
        if flags.get("h"):
            say_text(f"Usage: hsdns explain NAME [TYPE] [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
            return 0
        output = output_format(flags)
        asks = asker_flags.asks(plain, flags) if asker_flags.are_in(flags) else None
        qname, qtype = _question(plain if asks is None else [asks.name])
        control_path.check_alone(flags)
        objects = source_objects(flags)
        server = _server(flags)
        if flags.get("history") and ("conf" in flags or objects is not None):
            raise FlagError(NO_HISTORY)
    except FlagError as error:
        complain(error)
        return UNKNOWN

    conf, is_whole = flags.get("conf"), True
    try:
        if conf is None and objects is None:
            from hsdns.cli.explain_running import explain_running

            running = find_by(flags)
            if asks is None:
                parameters = {"name": qname.to_text(), "type": type_to_text(qtype)}
            else:
                parameters = asks.parameters()
            found = explain_running(running, parameters)
        else:
            from hsdns.cli.explain_offline import explain_offline

            found, is_whole = explain_offline(
                conf, objects, qname, qtype, asks, runs_code=runs_code(flags)
            )
    except NotRunning as error:
        complain(f"{error}, or read a source with -source or -conf")
        return UNKNOWN
    except (QuestionError, ServerError, CorefileError, OSError) as error:
        complain(error)
        return UNKNOWN
    if server is not None:
        found = _compared(found, qname, qtype, *server)
    _write(found, output, with_history=bool(flags.get("history")))
    if not is_whole and found.outcome != "resolves":
        return UNKNOWN  # what could not be read may be the missing object
    return STATUSES[found.outcome]


def _write(found: Explanation, output: str, *, with_history: bool) -> None:
    if output == "json":
        say_json(found)
    else:
        from hsdns.explanation.text import lines

        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        say(*lines(found, colour=colour, with_history=with_history), shown=str)


def _server(flags: Mapping[str, object]) -> tuple[str, int] | None:
    """The address and the port of -server; raise FlagError."""
    address = flags.get("server")
    if address is None:
        if "p" in flags:
            raise FlagError("-p is the port of -server; add -server ADDRESS, or leave -p out")
        return None
    try:
        return str(ip_address(str(address))), int(str(flags.get("p", 53)))
    except ValueError:
        raise FlagError(f'-server needs an IP address, found "{address}"') from None


def _compared(found: Explanation, qname: Name, qtype: int, address: str, port: int) -> Explanation:
    from msgspec import structs

    from hsdns.cli.explain_server import ask_server
    from hsdns.explanation.report import compare

    answer = ask_server(address, port, qname, qtype)
    return structs.replace(found, asked=compare(found, f"{address} port {port}", answer))


def _question(plain: list[str]) -> tuple[Name, int]:
    """The name and the type of the words; raise FlagError."""
    from hsdns.explanation.question import read_question

    if len(plain) not in (1, 2):
        raise FlagError(
            "hsdns explain needs a name, and may have a type: hsdns explain NAME [TYPE]"
        )
    try:
        return read_question(*plain)
    except ValueError as error:
        raise FlagError(str(error)) from None
