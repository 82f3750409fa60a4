"""Flags as Go writes them: one dash or two, a space or `=` before the value.

Path: cli/coredns.py and the subcommands read their words with it.
Source: Go's package flag, which CoreDNS uses; a Deployment's `args` must work unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hsdns.corefile.tree import did_you_mean

_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class FlagError(Exception):
    """A sentence for the operator about a word of the command line."""


class Flag(NamedTuple):
    """One flag: `kind` is str, int, bool, or list (takes all words up to the next flag).

    `what` names the numbers that an int may be, from `low` to `high`.
    """

    kind: type
    help: str
    argument: str = ""
    alias_of: str = ""
    what: str = "port number"
    low: int = 0
    high: int = 65535


def parse_flags(
    words: Sequence[str],
    known: Mapping[str, Flag],
    *,
    command: str = "hsdns",
    commands: Iterable[str] = (),
) -> dict[str, str | int | bool | list[str]]:
    """Read flags; raise FlagError for unknown ones, missing or wrong values and words that belong to none.

    The last of several wins, also between a flag and its alias, which stands under the other's name.  `command` is what
    errors point to, and `commands` are words that may have been meant in the first place.
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
            while end < len(words) and not words[end].startswith("-"):
                end += 1
            found[target] = ([value] if assigned else []) + list(words[at:end])
            at = end
            if not found[target]:
                raise FlagError(f"-{name} needs {flag.argument}")
        else:
            if not assigned:
                if at == len(words):
                    raise FlagError(f"-{name} needs {flag.argument}")
                value = words[at]
                at += 1
            found[target] = _number(name, value, flag) if flag.kind is int else value
    return found


def usage(known: Mapping[str, Flag]) -> str:
    """The flags and what they do, one a line or two."""
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
