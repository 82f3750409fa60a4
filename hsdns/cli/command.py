"""A command: its flags are the fields of a struct, and one runner parses, shows help, and ends it with its errors.

Path: cli/__init__.py -> main() of a command's class -> its run(); cli/flags.py parses.
Rule 1: the type of a field is that of its flag: `str`, `int`, `bool`, `list[str]`, or `float` for a time in seconds.
        A field is named like its flag, with `_` for `-`, and one after a word of Python.
Rule 2: help needs nothing but the class: what a command imports, it imports in run().
Rule 3: an OperatorError or OSError is printed, and the exit status is that of the class.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Self, get_args, get_origin, get_type_hints

import msgspec

from hsdns.cli.flags import Flag, FlagError, leading_words, parse_flags, read_time, usage
from hsdns.cli.output import complain, say_text
from hsdns.corefile.tree import did_you_mean
from hsdns.errors import OperatorError

ANY: Final = sys.maxsize  # for most_words of a command that counts them itself


def flag(help: str, argument: str = "", **more: Any) -> Flag:  # noqa: A002 - as in argparse
    """The flag of a field, whose type is that of the field; `more` are fields of Flag."""
    return Flag(object, help, argument, **more)


NO_CODE: Final = flag(
    "run nothing that the input names: no module of python, no program of a kubeconfig, no istioctl"
)


class Command(msgspec.Struct, kw_only=True):
    """One command with the values of its flags; `given` are the flags on the command line, `words` those before them.

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
    # What is said after Ctrl-C, and the exit status; without it, the interpreter ends as usual.
    interrupted: ClassVar[tuple[str, int] | None] = None

    words: list[str] = []
    given: frozenset[str] = frozenset()
    help: Annotated[bool, flag("show this help", name="h", alias="help")] = False

    def run(self) -> int:
        """Carry it out; return the exit status."""
        raise NotImplementedError

    @classmethod
    def main(cls, words: list[str]) -> int:
        """Carry it out with the words after its name; return the exit status."""
        try:
            command = cls.parse(words)
            if command is None:
                say_text(cls.help_text())
                return 0
            return command.run()
        except BrokenPipeError:
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
        """The exit status after an error."""
        return cls.bad

    @classmethod
    def parse(cls, words: list[str]) -> Self | None:
        """The command of these words, None if they ask for help; raise FlagError."""
        plain, rest = cls.split(words)
        flags = cls.flags()
        found = parse_flags(rest, flags, command=cls.program(), commands=cls.suggested)
        if found.get("h"):
            return None
        values: dict[str, Any] = {}
        for field, name in cls._fields().items():
            if name in found:
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
        for field, (of, kind) in sorted(
            _annotated(cls).items(), key=lambda each: each[0] == "help"
        ):
            name = _name(field, of)
            found[name] = of._replace(kind=str if kind is float else kind)
            if of.alias:
                text = of.help if of.alias == "help" else f"the same as -{name}"
                found[of.alias] = found[name]._replace(help=text, alias_of=name)
        return found

    @classmethod
    def _fields(cls) -> dict[str, str]:
        return {field: _name(field, of) for field, (of, _) in _annotated(cls).items()}

    def name_and_type(self) -> tuple[str, str]:
        """The words NAME [TYPE], where the type may be ""; raise FlagError."""
        if len(self.words) not in (1, 2):
            program = self.program()
            raise FlagError(f"{program} needs a name, and may have a type: {program} NAME [TYPE]")
        return self.words[0], "".join(self.words[1:])

    def exclusive(self, one: str, *others: str, why: str = "leave one out") -> None:
        """Refuse a flag with any of the others; raise FlagError."""
        for other in others:
            if one in self.given and other in self.given:
                raise FlagError(f"-{one} and -{other} exclude each other; {why}")


def no_command(program: str, word: str, known: Sequence[str]) -> FlagError:
    """The error of a command whose first word is none of the known ones."""
    problem = f'"{word}" is no command of {program}' if word else "a command is missing"
    hint = did_you_mean(word, known) or f"; there are {', '.join(known)}"
    return FlagError(f"{problem}{hint}")


class ReadingCommand(Command):
    """A command whose input may name code."""

    no_code: Annotated[bool, NO_CODE] = False

    @property
    def runs_code(self) -> bool:
        """Whether code that the input names may run."""
        return not self.no_code


def _annotated(cls: type[Command]) -> dict[str, tuple[Flag, type]]:
    """The flag and the type of each field that is one."""
    found = {}
    for field, hint in get_type_hints(cls, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, of = get_args(hint)
            if get_origin(kind) is UnionType:
                kind = get_args(kind)[0]
            found[field] = of, get_origin(kind) or kind
    return found


def _name(field: str, of: Flag) -> str:
    return of.name or field.rstrip("_").replace("_", "-")


def _value(name: str, of: Flag, found: Mapping[str, Any]) -> Any:
    if of.time:
        return read_time(name, found[name], of.time, is_zero=of.is_zero)
    if of.choices and found[name] not in of.choices:
        *others, last = of.choices
        hint = did_you_mean(found[name], of.choices)
        raise FlagError(f'-{name} needs {", ".join(others)} or {last}, found "{found[name]}"{hint}')
    return found[name]
