r"""A command: its flags are the fields of a struct, and one runner parses, shows help, and ends it with its errors.

Path: cli/__init__.py -> main() of a command's class -> its run().
Rule 1: the type of a field is that of its flag: `str`, `int`, `bool`, `list[str]`, `float` for a time in seconds, or
        that of what its `read` returns.
        A field is named like its flag, with `_` for `-`, and one after a word of Python.
Rule 2: help needs nothing but the class: what a command imports, it imports in run().
Rule 3: an OperatorError or OSError is printed, and the exit status is that of the class.

Parser for command line flags in Go's syntax: one dash or two, a space or `=` before the value:
Source: Go's package flag, which CoreDNS uses.

The lines that the commands print: nothing in them but our own colours controls a terminal or a CI system:
Rule 1: a line is given as a line: an end of line in it came with a name, and is shown as `\n` (wire/__init__.py).
Rule 2: colours are added to what has been escaped.
Rule 3: what the encoding of the stream lacks is escaped too, so no name ends a command with an exception.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    TextIO,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from hsdns import colours
from hsdns.corefile.properties import parse_duration
from hsdns.corefile.tree import did_you_mean
from hsdns.errors import OperatorError
from hsdns.wire import printable

T = TypeVar("T")
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class FlagError(OperatorError):
    """An error in the command line, as a sentence for the operator."""

    status = 2


class Contradiction(FlagError):
    """Two answers to one question, in flags or by what runs; the message has both."""


class OutputError(OSError):
    """Standard output or standard error cannot be written; main() of hsdns.cli ends every command with it."""


class Flag(NamedTuple):
    """One flag: `kind` is str, int, bool, or list (all words up to the next flag).

    An int flag accepts numbers from `low` to `high`.  `adds`: each occurrence of a list adds
    its words to those before.  `time` is an example of the values of a flag that takes a time, 0 only if `is_zero`;
    `choices` are all values of a flag that takes one of some words.  `name` is that of the flag where the field of a
    command (command.py) has another one, and `alias` a second name.  A flag without `=` has the value
    `bare`, if there is one.  `read` makes the value of the field from the words of the flag, and raises OperatorError.
    """

    kind: type
    help: str
    argument: str = ""
    alias_of: str = ""
    low: int = 0
    high: int = 65535
    adds: bool = False
    time: str = ""
    is_zero: bool = False
    choices: tuple[str, ...] = ()
    name: str = ""
    alias: str = ""
    bare: str = ""
    read: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, help: str, argument: str = "", **more: Any) -> Self:  # noqa: A002 - as in argparse
        """A flag whose type is that of the field that declares it."""
        return cls(object, help, argument, **more)

    @property
    def takes_word(self) -> bool:
        """Whether its value may be the next word."""
        return self.kind is not bool and not self.bare


def dashed(name: str) -> str:
    """A flag as help, messages and docs show it: one dash before a letter, two before a word."""
    return f"-{name}" if len(name) == 1 else f"--{name}"


def parse_flags(
    words: Sequence[str],
    known: Mapping[str, Flag],
    *,
    command: str = "hsdns",
    commands: Iterable[str] = (),
    plain: list[str] | None = None,
    most: int = 0,
) -> dict[str, str | int | bool | list[str]]:
    """Parse flags; raise FlagError for unknown flags, missing or invalid values and words without a flag.

    The last occurrence of a flag wins, unless it adds; an alias is stored under the name of its flag.  Error
    messages refer to `command`; `commands` are suggested for a misspelt first word.  Words without a flag are added to
    `plain` while it has fewer than `most`, and so are all words after `--`.
    """
    found: dict[str, str | int | bool | list[str]] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        name = word.removeprefix("-").removeprefix("-")
        if plain is not None and len(plain) < most and not word.startswith("-"):
            plain.append(word)
            continue
        if word == "--" and plain is not None:
            # Nothing after it is a flag, whatever it begins with.
            room = max(0, most - len(plain))
            plain += words[at : at + room]
            at += room
            if at < len(words):
                raise FlagError(f'unexpected word "{words[at]}"; {command} -h shows the usage')
            break
        if not word.startswith("-") or not name or word == "--":
            near = [*commands, *map(dashed, known)] if at == 1 and word[:1] != "-" else []
            hint = did_you_mean(word, near) if word not in near else ""
            raise FlagError(
                f'unexpected word "{word}"'
                f"{hint or f'; flags begin with a dash, {command} -h lists them'}"
            )
        name, assigned, value = name.partition("=")
        flag = known.get(name)
        if flag is None:
            meant = did_you_mean(dashed(name), list(map(dashed, known)))
            typed = word.partition("=")[0]
            raise FlagError(f"unknown flag {typed}{meant or f'; {command} -h lists the flags'}")
        target = flag.alias_of or name
        if flag.kind is bool:
            if assigned and value not in _BOOLEANS:
                raise FlagError(f'{dashed(name)} is a switch, "{value}" is neither true nor false')
            found[target] = _BOOLEANS[value] if assigned else True
        elif flag.kind is list:
            end = at
            while end < len(words) and not (words[end] != "-" and words[end].startswith("-")):
                end += 1
            given = ([value] if assigned else []) + list(words[at:end])
            at = end
            if not given:
                raise FlagError(f"{dashed(name)} needs {flag.argument}")
            before = found.get(target, []) if flag.adds else []
            assert isinstance(before, list)
            found[target] = before + given
        else:
            if not assigned and flag.bare:
                value = flag.bare
            elif not assigned:
                if at == len(words):
                    raise FlagError(f"{dashed(name)} needs {flag.argument}")
                value = words[at]
                at += 1
            if not value and flag.argument in ("ADDRESS", "PATH"):
                raise FlagError(f'{dashed(name)} needs {flag.argument}, found ""')
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
        lines.append(f"  {dashed(name)} {flag.argument}".rstrip())
        lines.append(f"        {flag.help}")
    return "\n".join(lines)


def _number(name: str, value: str, flag: Flag) -> int:
    digits = value.isascii() and value.isdigit() and len(value) < 10
    if digits and flag.low <= int(value) <= flag.high:
        return int(value)
    what = "port number" if flag.argument == "PORT" else "number"
    raise FlagError(
        f'{dashed(name)} needs a {what} from {flag.low} to {flag.high}, found "{value}"'
    )


def read_time(name: str, text: str, example: str, *, is_zero: bool = False) -> float:
    """Read the value of the flag `name` as seconds; raise FlagError.  0 only where `is_zero` allows it."""
    seconds = parse_duration(text)
    if seconds is None or seconds < 0 or not (seconds or is_zero):
        raise FlagError(f'{dashed(name)} needs a time such as {example}, found "{text}"')
    return seconds


def say(
    *lines: object,
    shown: Callable[[str], str] = printable,
    flush: bool = False,
    words: Mapping[str, str] = {},
    fits: bool = False,
) -> None:
    """Print lines to standard output; `shown` escapes a line, `str` takes one that is escaped.

    `words` are painted in their colours; with `fits` no line is longer than those of a terminal.
    """
    width = columns() if fits else 0
    text = "".join(f"{part}\n" for each in lines for part in _fitted(shown(str(each)), width))
    if words and colours.are_shown(sys.stdout):
        known = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, words))})(?![\w.-])")
        text = known.sub(lambda found: colours.painted(found[0], words[found[0]]), text)
    _write(sys.stdout, text, flush=flush)


def columns(stream: TextIO | None = None) -> int:
    """The columns of the terminal; 0 in a pipe, where no line is wrapped."""
    from shutil import get_terminal_size

    return get_terminal_size().columns if (stream or sys.stdout).isatty() else 0


def _fitted(line: str, width: int) -> list[str]:
    """A line in lines of so many columns, 0 for any; the rest begins below its second column.  No name is broken."""
    from textwrap import wrap

    if not 0 < width < len(line):
        return [line]
    [(indent, first)] = re.findall(r"^( *)((?:\S+(?: \S+)* {2,})?)", line)
    below = indent + " " * (len(first) if len(indent + first) < width / 2 else 4)
    return wrap(
        line, width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )


def say_text(text: str) -> None:
    """Print a text of our own, such as a help or a document of JSON, in which an end of line is one."""
    say(*text.removesuffix("\n").split("\n"))


def say_json(value: object) -> None:
    """Print a value as JSON, also with octets of a path that are no UTF-8, which msgspec does not write."""
    say_text(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False))


def complain(*lines: object) -> None:
    """Print lines to standard error; of the error of a file its path, and what the system says."""
    width = columns(sys.stderr)
    shown = (part for each in lines for part in _fitted(printable(_text(each)), width))
    with suppress(OSError):  # nowhere else to say it
        _write(sys.stderr, "".join(f"{each}\n" for each in shown))


def _text(line: object) -> str:
    if isinstance(line, OSError) and line.filename:
        return f"{line.filename}: {line.strerror}"
    return str(line)


class Progress:
    """Lines on standard error that are replaced by the next ones; nothing without a terminal, or with a dumb one."""

    def __init__(self) -> None:
        self._is_shown = colours.is_screen(sys.stderr)
        self._height = 1

    def show(self, *lines: str) -> None:
        """Replace the lines; without any they are removed."""
        if self._is_shown:
            up = f"\x1b[{self._height - 1}F" if self._height > 1 else "\r"
            self._height = len(lines) or 1
            width = os.get_terminal_size(sys.stderr.fileno()).columns or None
            _write(sys.stderr, f"{up}\x1b[J" + "\n".join(printable(each)[:width] for each in lines))

    def keep(self) -> None:
        """End the last line, so that it stays."""
        if self._is_shown:
            complain("")


def _write(stream: TextIO, text: str, *, flush: bool = True) -> None:
    if not text.isascii():
        encoding = stream.encoding or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(text)
        if flush:
            stream.flush()
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from error


ANY: Final = sys.maxsize  # for most_words of a command that counts them itself


def flag(default: T, of: str | Flag, argument: str = "", **more: Any) -> T:
    """The default of a field and its flag: `of` is its help, or a flag of several commands; `more` are fields of it."""
    found = of._replace(**more) if isinstance(of, Flag) else Flag.of(of, argument, **more)
    return cast("T", _Declared(default, found))


class _Declared(NamedTuple):
    """Stands for a default until the command is made."""

    default: Any
    of: Flag


NO_CODE: Final = Flag.of(
    "do not run code that the input names: python modules, exec plugins of a kubeconfig, istioctl"
)

KUBECONFIG: Final = Flag.of(
    "kubeconfig of the cluster (default: KUBECONFIG, or ~/.kube/config)", "FILE"
)
CONTEXT: Final = Flag.of("kubeconfig context (default: the current one)", "NAME")


OUTPUT: Final = Flag.of(
    "format of standard output: text (default) or json", "FORMAT", choices=("text", "json")
)
CONTROL: Final = Flag.of(
    "control socket or ADDRESS:PORT of the server (default: the running one)", "PATH"
)
IN_NAMESPACE: Final = Flag.of(
    "namespace of a short name (default: default)", "NAMESPACE", name="namespace", alias="n"
)


class Command(msgspec.Struct, kw_only=True):
    """One command with the values of its flags; `given` are the flags on the command line, `words` all other words.

    The docstring of a subclass is its headline.
    """

    name: ClassVar[str]
    # After "Usage: hsdns NAME ", or all of it from "hsdns" on if there are several forms.
    forms: ClassVar[str] = "[FLAG...]"
    # Shown after the flags.
    epilog: ClassVar[str] = ""
    # How many words without a flag it takes; more are refused like a word after flags.
    most_words: ClassVar[int] = 0
    # Suggestions for the words.
    suggested: ClassVar[Sequence[str]] = ()
    # The exit status for bad input, and for all other errors but those of a server that has an own one.
    bad: ClassVar[int] = 2
    # What is said after Ctrl-C, and the exit status; without it, the signal ends the process.
    interrupted: ClassVar[tuple[str, int] | None] = None

    words: list[str] = []
    given: frozenset[str] = frozenset()
    help: bool = flag(False, "show this help", name="h", alias="help")

    def __post_init__(self) -> None:
        """Put the defaults in the place of what declares them."""
        for field in self.__struct_fields__:
            if isinstance(declared := getattr(self, field), _Declared):
                setattr(self, field, copy(declared.default))

    dashed = staticmethod(dashed)

    def run(self) -> int:
        """Carry it out; return the exit status."""
        raise NotImplementedError

    @classmethod
    def main(cls, words: list[str]) -> int:
        """Carry it out with the words after its name; return the exit status."""
        try:
            command = cls.parse(words)
            if command is None:
                say(*cls.help_text().split("\n"), fits=True)
                return 0
            return command.run()
        except OutputError:
            raise
        except (OperatorError, OSError) as error:
            complain(error)
            return cls.status_of(error)
        except KeyboardInterrupt:
            if cls.interrupted is None:
                raise
            sentence, status = cls.interrupted
            complain(*filter(None, [sentence]))
            return status

    @classmethod
    def status_of(cls, error: Exception) -> int:
        """The exit status after an error: that of the error, or of bad input."""
        return getattr(error, "status", cls.bad)

    @classmethod
    def parse(cls, words: list[str]) -> Self | None:
        """The command of these words, None if they ask for help; raise FlagError."""
        plain, rest = cls.split(words)
        flags = cls.flags()
        found = parse_flags(
            rest,
            flags,
            command=cls.program(),
            commands=cls.suggested,
            plain=plain,
            most=cls.most_words,
        )
        if found.get("h"):
            return None
        values: dict[str, Any] = {}
        for field, (of, _) in _declared(cls).items():
            if (name := _name(field, of)) in found:
                values[field] = _value(name, flags[name], found)
        return cls(words=plain, given=frozenset(found), **values)

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], list[str]]:
        """The words that are no flags, and the rest."""
        plain, rest = leading_words(words)
        return plain[: cls.most_words], [*plain[cls.most_words :], *rest]

    @classmethod
    def program(cls) -> str:
        """The command as it is called: `hsdns lookup`."""
        return f"hsdns {cls.name}".rstrip()

    @classmethod
    def help_text(cls) -> str:
        """What -h shows."""
        forms = cls.forms if cls.forms.startswith("hsdns ") else f"{cls.program()} {cls.forms}"
        epilog = f"\n{cls.epilog}" if cls.epilog else ""
        return f"Usage: {forms}\n\nFlags:\n{usage(cls.flags())}{epilog}"

    @classmethod
    def flags(cls) -> Mapping[str, Flag]:
        """The flags by name, with aliases; that of help is the last."""
        found: dict[str, Flag] = {}
        for field, (of, kind) in sorted(_declared(cls).items(), key=lambda each: each[0] == "help"):
            name = _name(field, of)
            found[name] = of._replace(kind=kind if kind in (int, bool, list) else str)
            if of.alias:
                text = of.help if of.alias == "help" else f"the same as {dashed(name)}"
                found[of.alias] = found[name]._replace(help=text, alias_of=name)
        return found

    def name_and_type(self) -> tuple[str, str]:
        """The words NAME [TYPE], where the type may be ""; raise FlagError."""
        if len(self.words) not in (1, 2):
            raise FlagError(f"{self.program()} takes a name and an optional type: NAME [TYPE]")
        return self.words[0], "".join(self.words[1:])

    @property
    def runs_code(self) -> bool:
        """Whether code that the input names may run, as without -no-code."""
        return not getattr(self, "no_code", False)

    def exclusive(self, one: str, *others: str, why: str = "use only one") -> None:
        """Refuse a flag with any of the others; raise FlagError."""
        for other in others:
            if one in self.given and other in self.given:
                raise Contradiction(f"{dashed(one)} and {dashed(other)} cannot be combined; {why}")


def no_command(program: str, word: str, known: Sequence[str]) -> FlagError:
    """The error of a command whose first word is none of the known ones."""
    problem = f'"{word}" is not a command of {program}' if word else "a command is missing"
    hint = did_you_mean(word, known) or f"; use {', '.join(known)}"
    return FlagError(f"{problem}{hint}")


class ReadingCommand(Command):
    """A command that reads what may name code, and runs none of it if told so."""

    no_code: bool = flag(False, NO_CODE)


def _declared(cls: type[Command]) -> dict[str, tuple[Flag, type]]:
    """The flag and the type of each field that is one."""
    defaults = dict(zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True))
    found = {}
    for field, kind in get_type_hints(cls).items():
        if isinstance(declared := defaults.get(field), _Declared):
            kind = get_args(kind)[0] if get_origin(kind) is UnionType else kind
            found[field] = declared.of, get_origin(kind) or kind
    return found


def _name(field: str, of: Flag) -> str:
    return of.name or field.rstrip("_").replace("_", "-")


def _value(name: str, of: Flag, found: Mapping[str, Any]) -> Any:
    if of.time:
        return read_time(name, found[name], of.time, is_zero=of.is_zero)
    if of.choices and found[name] not in of.choices:
        *others, last = of.choices
        hint = did_you_mean(found[name], of.choices)
        raise FlagError(
            f'{dashed(name)} needs {", ".join(others)} or {last}, found "{found[name]}"{hint}'
        )
    return found[name] if of.read is None else of.read(found[name])
