"""Parser for command line flags in Go's syntax: one dash or two, a space or `=` before the value.

Path: cli/coredns.py and the subcommands parse their arguments with it.
Source: Go's package flag, which CoreDNS uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.corefile.properties import parse_duration
from hsdns.corefile.tree import did_you_mean
from hsdns.errors import OperatorError

FORMATS: Final = ("text", "json")
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class FlagError(OperatorError):
    """An error in the command line, as a sentence for the operator."""


class Flag(NamedTuple):
    """One flag: `kind` is str, int, bool, or list (all words up to the next flag).

    `what` describes the numbers that an int flag accepts, from `low` to `high`.  `adds`: each occurrence of a list adds
    its words to those before.  `time` is an example of the values of a flag that takes a time, 0 only if `is_zero`;
    `choices` are all values of a flag that takes one of some words.  `name` is that of the flag where the field of a
    command (command.py) has another one, and `alias` a second name.
    """

    kind: type
    help: str
    argument: str = ""
    alias_of: str = ""
    what: str = "port number"
    low: int = 0
    high: int = 65535
    adds: bool = False
    time: str = ""
    is_zero: bool = False
    choices: tuple[str, ...] = ()
    name: str = ""
    alias: str = ""


def parse_flags(
    words: Sequence[str],
    known: Mapping[str, Flag],
    *,
    command: str = "hsdns",
    commands: Iterable[str] = (),
) -> dict[str, str | int | bool | list[str]]:
    """Parse flags; raise FlagError for unknown flags, missing or invalid values and words without a flag.

    The last occurrence of a flag wins, unless it adds; an alias is stored under the name of its flag.  Error
    messages refer to `command`; `commands` are suggested for a misspelt first word.
    """
    found: dict[str, str | int | bool | list[str]] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        name = word.removeprefix("-").removeprefix("-")
        if not word.startswith("-") or not name or word == "--":
            near = (
                [*commands, *(f"-{each}" for each in known)] if at == 1 and word[:1] != "-" else []
            )
            hint = did_you_mean(word, near)
            raise FlagError(
                f'unexpected word "{word}"'
                f"{hint or f'; flags begin with a dash, {command} -h lists them'}"
            )
        name, assigned, value = name.partition("=")
        flag = known.get(name)
        if flag is None:
            meant = did_you_mean(f"-{name}", [f"-{each}" for each in known])
            raise FlagError(f"unknown flag -{name}{meant or f'; {command} -h lists the flags'}")
        target = flag.alias_of or name
        if flag.kind is bool:
            if assigned and value not in _BOOLEANS:
                raise FlagError(f'-{name} is a switch, "{value}" is neither true nor false')
            found[target] = _BOOLEANS[value] if assigned else True
        elif flag.kind is list:
            end = at
            while end < len(words) and not (words[end] != "-" and words[end].startswith("-")):
                end += 1
            given = ([value] if assigned else []) + list(words[at:end])
            at = end
            if not given:
                raise FlagError(f"-{name} needs {flag.argument}")
            before = found.get(target, []) if flag.adds else []
            assert isinstance(before, list)
            found[target] = before + given
        else:
            if not assigned:
                if at == len(words):
                    raise FlagError(f"-{name} needs {flag.argument}")
                value = words[at]
                at += 1
            found[target] = _number(name, value, flag) if flag.kind is int else value
    return found


def leading_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words before the first flag from the rest."""
    at = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:at], words[at:]


def usage(known: Mapping[str, Flag]) -> str:
    """Return the help text of the flags, two lines each."""
    lines = []
    for name, flag in sorted(known.items()):
        lines.append(f"  -{name} {flag.argument}".rstrip())
        lines.append(f"        {flag.help}")
    return "\n".join(lines)


def _number(name: str, value: str, flag: Flag) -> int:
    digits = value.isascii() and value.isdigit() and len(value) < 10
    if digits and flag.low <= int(value) <= flag.high:
        return int(value)
    raise FlagError(f'-{name} needs a {flag.what} from {flag.low} to {flag.high}, found "{value}"')


def read_time(name: str, text: str, example: str, *, is_zero: bool = False) -> float:
    """Read the value of the flag `name` as seconds; raise FlagError.  0 only where `is_zero` allows it."""
    seconds = parse_duration(text)
    if seconds is None or seconds < 0 or not (seconds or is_zero):
        raise FlagError(f'-{name} needs a time such as {example}, found "{text}"')
    return seconds
