"""`hsdns man [COMMAND]`: the manual page of hsdns, or of one of its commands, in the format of man.

Path: argv -> here -> cli/commands.py.
Source: man(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hsdns import __version__
from hsdns.cli import SUBCOMMANDS
from hsdns.cli.commands import Command, commands
from hsdns.cli.flags import Flag, FlagError, parse_flags, usage
from hsdns.cli.output import complain, say_text
from hsdns.corefile.tree import did_you_mean

WORDS: Final = tuple(SUBCOMMANDS)
FLAGS: Final = {
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}
EXAMPLES: Final = """
To read a page, and to install one:
  hsdns man serve | man -l -
  hsdns man serve > ~/.local/share/man/man1/hsdns-serve.1"""


def run(words: list[str]) -> int:
    """Run `hsdns man`; return the exit status."""
    name = words[0] if words and not words[0].startswith("-") else ""
    try:
        flags = parse_flags(words[1:] if name else words, FLAGS, command="hsdns man")
        if flags.get("h"):
            say_text(f"Usage: hsdns man [COMMAND]\n\nFlags:\n{usage(FLAGS)}\n{EXAMPLES}")
            return 0
        if name and name not in WORDS:
            hint = did_you_mean(name, WORDS) or "; hsdns -h lists them"
            raise FlagError(f'hsdns has no command "{name}"{hint}')
    except FlagError as error:
        complain(error)
        return 1
    found = commands()
    say_text(page(next(each for each in found if each.name == name), found))
    return 0


def page(command: Command, found: Sequence[Command]) -> str:
    """The page of a command; `found` are all commands, which pages refer to."""
    return "\n".join(_lines(command, found)) + "\n"


def _lines(command: Command, found: Sequence[Command]) -> Iterator[str]:
    yield f'.TH {command.title.upper()} 1 "" "hsdns {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"{_text(command.title)} \\- {_text(command.headline)}"
    yield ".SH SYNOPSIS"
    for at, form in enumerate(command.usage):
        yield from (".br",) if at else ()
        yield _marked(form)
    if not command.name:
        yield ".SH COMMANDS"
        for each in found:
            if each.name:
                yield f".TP\n.B {_text(each.name)}\n{_text(each.headline)}."
    yield ".SH OPTIONS"
    yield "A flag has one dash or two, and a space or an equals sign before its value."
    for name, flag in sorted(command.flags.items()):
        yield f".TP\n{_marked(f'-{name} {flag.argument}'.rstrip())}\n{_text(flag.help)}"
    yield ".SH SEE ALSO"
    others = [f".BR {_text(each.title)} (1)" for each in found if each.name != command.name]
    yield ",\n".join(others).replace("(1),", "(1),")


def _marked(form: str) -> str:
    r"""A form of a command: literal words in bold, placeholders in italics."""
    parts = re.split(r"\b([A-Z]+)\b", form)  # every second one is a placeholder
    return "".join(f"\\f{'BI'[at % 2]}{_text(each)}\\fR" for at, each in enumerate(parts) if each)


def _text(text: str) -> str:
    """Text without requests, and with dashes that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
