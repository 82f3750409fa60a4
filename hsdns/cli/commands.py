"""What the command line accepts, for completion and manual pages; read from the class of each command.

Path: argv -> here -> the flags, words and help of each command.
Rule: a new flag or command is completed and described without a change here.

`hsdns completion SHELL`: the script that completes hsdns's command line in bash, zsh or fish:
Rule: the script starts no process while it completes; it contains all words of the version that printed it.

`hsdns man [COMMAND]`: the manual page of hsdns, or of one of its commands, in the format of man:
Source: man(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hsdns import __version__
from hsdns.cli import SUBCOMMANDS, find_command
from hsdns.cli.command import Command, Flag, FlagError, dashed, say_text
from hsdns.corefile.tree import did_you_mean
from hsdns.sources import SOURCES

HEADLINE: Final = "a DNS server for Kubernetes clusters"
SOURCE: Final = "NAME [ARGUMENT...]"  # the argument of a flag that takes a source of the cluster


class Description(NamedTuple):
    """One command; `name` is empty for the one without a subcommand.

    `usage` has a line for each form; `words` are suggestions in places without a flag.
    """

    name: str
    headline: str
    usage: tuple[str, ...]
    flags: Mapping[str, Flag]
    words: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name of its manual page: `hsdns`, or `hsdns-serve`."""
        return f"hsdns-{self.name}" if self.name else "hsdns"


def described_commands() -> list[Description]:
    """All commands, the one without a subcommand first."""
    found = []
    for name, headline in {"": HEADLINE, **SUBCOMMANDS}.items():
        of = find_command(name or "coredns")
        words = tuple(of.suggested)
        forms = of.help_text().partition("Usage: ")[2].partition("\n\n")[0].splitlines()
        # Text after two spaces is a remark.
        usage = tuple(line.strip().partition("  ")[0] for line in forms)
        found.append(Description(name, headline, usage, of.flags(), words))
    return found


def takes_file(flag: Flag) -> bool:
    """Whether values of the flag may be paths."""
    return flag.argument in ("FILE", "PATH", SOURCE)


def values(flag: Flag) -> tuple[str, ...]:
    """The words to suggest for the flag's first value."""
    return (*SOURCES, "demo") if flag.argument == SOURCE else flag.choices


class Completion(Command):
    """Prints the script for a shell."""

    name = "completion"
    forms = "SHELL"
    epilog = """
To have it in every shell:
  bash  hsdns completion bash > ~/.local/share/bash-completion/completions/hsdns
  zsh   hsdns completion zsh > DIR/_hsdns, where DIR is in $fpath
  fish  hsdns completion fish > ~/.config/fish/completions/hsdns.fish"""
    suggested = ("bash", "zsh", "fish")
    most_words = 1

    def run(self) -> int:
        """Print it."""
        shell, known = "".join(self.words), self.suggested
        if shell not in known:
            problem = f'"{shell}" is not a supported shell' if shell else "SHELL is missing"
            raise FlagError(f"{problem}{did_you_mean(shell, known) or '; use bash, zsh or fish'}")
        say_text({"bash": bash, "zsh": zsh, "fish": fish}[shell](described_commands()))
        return 0


def bash(found: Sequence[Description]) -> str:
    """The script for bash."""
    names = "|".join(command.name for command in found if command.name)
    cases, lists, words = [], [], []
    for command in found:
        for name, flag in command.flags.items():
            if not flag.takes_word:
                continue
            files = " files=yes" if takes_file(flag) and not values(flag) else ""
            pattern = f'"{command.name} -{name}" | "{command.name} --{name}"'
            cases.append(f"    {pattern}) offer={_quoted(' '.join(values(flag)))}{files} ;;")
            if flag.kind is list and takes_file(flag):
                lists.append(f"    {pattern}) files=yes ;;")
        offered = " ".join(f"-{name}" for name in command.flags)
        words.append(
            f'    "{command.name}") flags={_quoted(offered)} words={_quoted(" ".join(command.words))} ;;'
        )
    return _BASH.format(
        names=names, values="\n".join(cases), lists="\n".join(lists), words="\n".join(words)
    )


_BASH: Final = """\
# Completion of hsdns for bash, printed by `hsdns completion bash`.
_hsdns() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} at=$((COMP_CWORD - 1)) command= offer= files= flags= words=
    if ((COMP_CWORD > 1)); then
        case ${{COMP_WORDS[1]}} in {names}) command=${{COMP_WORDS[1]}} ;; esac
    fi
    COMPREPLY=()
    # The value of a flag.
    case "$command ${{COMP_WORDS[at]}}" in
{values}
    *)
        # One of the words after a flag that takes several, or a flag, a command or a word of the command.
        while ((at > 1)) && [[ ${{COMP_WORDS[at]}} != -* ]]; do ((at--)); done
        case "$command ${{COMP_WORDS[at]}}" in
{lists}
        esac
        case $command in
{words}
        esac
        if [[ $word == --* ]]; then
            offer=" $flags" files=
            offer=${{offer// -/ --}}
        elif [[ $word == -* ]]; then
            offer=$flags files=
        elif [[ -z $files ]] && ((COMP_CWORD == 1 || (COMP_CWORD == 2 && ${{#command}}))); then
            offer=$words
        fi
        ;;
    esac
    if [[ $files ]]; then
        compopt -o default 2>/dev/null
    else
        COMPREPLY=($(compgen -W "$offer" -- "$word"))
    fi
}}
complete -F _hsdns hsdns
"""


def zsh(found: Sequence[Description]) -> str:
    """The script for zsh."""
    cases = []
    for command in sorted(found, key=lambda each: not each.name):  # the one without a name last
        specs = []
        for name, flag in command.flags.items():
            spec = f"-{name}[{_escaped(flag.help, '[]:')}]"
            if flag.takes_word:
                action = "_files" if takes_file(flag) else " "
                action = f"({' '.join(values(flag))})" if values(flag) else action
                spec += f":{_escaped(flag.argument, ':')}:{action}"
            specs.append(_quoted(spec))
        if not command.name:
            specs.append("'1:command:_hsdns_commands'")
        elif command.words:
            specs.append(_quoted(f"1:word:({' '.join(command.words)})"))
        if any(flag.kind is list and takes_file(flag) for flag in command.flags.values()):
            specs.append("'*:file:_files'")
        shift = "shift words; ((CURRENT--))\n        " if command.name else ""
        body = " \\\n            ".join(["_hsdns_arguments", *specs])
        cases.append(f"    {command.name or '*'})\n        {shift}{body}\n        ;;")
    named = [f"{name}:{_escaped(headline, ':')}" for name, headline in _first_words(found)]
    described = "\n".join(f"        {_quoted(each)}" for each in named)
    return _ZSH.format(described=described, cases="\n".join(cases))


_ZSH: Final = """\
#compdef hsdns
# Completion of hsdns for zsh, printed by `hsdns completion zsh`.
_hsdns_commands() {{
    local -a commands
    commands=(
{described}
    )
    _describe command commands
}}

# A line that has one flag with two dashes is completed with two everywhere.
_hsdns_arguments() {{
    (( ${{words[(I)--*]}} )) && set -- "$@" "${{(@)${{(@M)@:#-*}}/#-/--}}"
    _arguments "$@"
}}

_hsdns() {{
    case $words[2] in
{cases}
    esac
}}

if [[ $funcstack[1] == _hsdns ]]; then _hsdns "$@"; else compdef _hsdns hsdns; fi
"""


def fish(found: Sequence[Description]) -> str:
    """The script for fish."""
    names = " ".join(command.name for command in found if command.name)
    lines = [
        "# Completion of hsdns for fish, printed by `hsdns completion fish`.",
        "complete -c hsdns -f",
        "function __hsdns_long; string match -qr '^--' -- (commandline -op); end",
    ]
    for name, headline in _first_words(found):
        lines.append(f"complete -c hsdns -n __fish_use_subcommand -a {name} -d {_fished(headline)}")
    for command in found:
        seen = "" if command.name else "not "
        seen = f"{seen}__fish_seen_subcommand_from {command.name or names}"
        where, long = _fished(seen), _fished(f"__hsdns_long; and {seen}")
        for name, flag in command.flags.items():
            option = f"-s {name}" if len(name) == 1 else f"-o {name}"
            value = ""
            if flag.takes_word:
                value = " -r -F" if takes_file(flag) else " -x"
            if values(flag):
                value += f" -a {_fished(' '.join(values(flag)))}"
            value += f" -d {_fished(flag.help)}"
            lines.append(f"complete -c hsdns -n {where} {option}{value}")
            lines.append(f"complete -c hsdns -n {long} -l {name}{value}")
            if flag.kind is list and takes_file(flag):
                after = _fished(f"{seen}; and __fish_seen_argument {option} -l {name}")
                lines.append(f"complete -c hsdns -n {after} -F")
        if command.name and command.words:
            lines.append(f"complete -c hsdns -n {where} -a {_fished(' '.join(command.words))}")
    return "\n".join(lines) + "\n"


def _first_words(found: Sequence[Description]) -> Iterator[tuple[str, str]]:
    """What may follow `hsdns`, with its headline: the commands, and the flags that work without dashes."""
    for command in found:
        yield from (
            [(command.name, command.headline)]
            if command.name
            else [
                (word, command.flags[word].help) for word in command.words if word in command.flags
            ]
        )


def _escaped(text: str, special: str) -> str:
    for each in "\\" + special:
        text = text.replace(each, f"\\{each}")
    return text


def _quoted(text: str) -> str:
    """A word for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fished(text: str) -> str:
    """A word for fish."""
    return "'" + _escaped(text, "'") + "'"


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
        yield f".TP\n{_marked(f'{dashed(name)} {flag.argument}'.rstrip())}\n{_text(flag.help)}"
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
