"""`hsdns man [COMMAND]`: the manual page of hsdns, or of one of its commands, in the format of man.

Path: argv -> here -> cli/commands.py.
Source: man(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hsdns import __version__
from hsdns.cli import SUBCOMMANDS
from hsdns.cli.command import Command
from hsdns.cli.commands import Description, described_commands
from hsdns.cli.flags import FlagError
from hsdns.cli.output import say_text
from hsdns.corefile.tree import did_you_mean


class Man(Command):
    """Prints the page of a command."""

    name = "man"
    forms = "[COMMAND]"
    epilog = """
To read a page, and to install one:
  hsdns man serve | man -l -
  hsdns man serve > ~/.local/share/man/man1/hsdns-serve.1"""
    suggested = tuple(SUBCOMMANDS)
    most_words = 1
    bad = 1

    def run(self) -> int:
        """Print it; without a command that of hsdns."""
        name = "".join(self.words)
        if name and name not in SUBCOMMANDS:
            hint = did_you_mean(name, SUBCOMMANDS) or "; hsdns -h lists them"
            raise FlagError(f'hsdns has no command "{name}"{hint}')
        found = described_commands()
        say_text(page(next(each for each in found if each.name == name), found))
        return 0


def page(command: Description, found: Sequence[Description]) -> str:
    """The page of a command; `found` are all commands, which pages refer to."""
    return "\n".join(_lines(command, found)) + "\n"


def _lines(command: Description, found: Sequence[Description]) -> Iterator[str]:
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
