"""`hsdns completion SHELL`: the script that completes hsdns's command line in bash, zsh or fish.

Path: argv -> here -> cli/commands.py.
Rule: the script starts no process while it completes; it contains all words of the version that printed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.cli.command import Command
from hsdns.cli.commands import Description, described_commands, takes_file, values
from hsdns.cli.flags import FlagError
from hsdns.cli.output import say_text
from hsdns.corefile.tree import did_you_mean


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
    bad = 1

    def run(self) -> int:
        """Print it."""
        shell, known = "".join(self.words), self.suggested
        if shell not in known:
            problem = f'"{shell}" is no shell that hsdns knows' if shell else "SHELL is missing"
            raise FlagError(f"{problem}{did_you_mean(shell, known) or '; use bash, zsh or fish'}")
        say_text({"bash": bash, "zsh": zsh, "fish": fish}[shell](described_commands()))
        return 0


def bash(found: Sequence[Description]) -> str:
    """The script for bash."""
    names = "|".join(command.name for command in found if command.name)
    cases, lists, words = [], [], []
    for command in found:
        for name, flag in command.flags.items():
            if flag.kind is bool:
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
        if [[ $word == -* ]]; then
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
            if flag.kind is not bool:
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
        body = " \\\n            ".join(["_arguments", *specs])
        cases.append(f"    {command.name or '*'})\n        {shift}{body}\n        ;;")
    named = [(each.name, _escaped(each.headline, ":")) for each in found if each.name]
    described = "\n".join(f"        {_quoted(f'{name}:{headline}')}" for name, headline in named)
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
    ]
    for command in found:
        if command.name:
            lines.append(
                f"complete -c hsdns -n __fish_use_subcommand -a {command.name} -d {_fished(command.headline)}"
            )
        seen = "" if command.name else "not "
        seen = f"{seen}__fish_seen_subcommand_from {command.name or names}"
        where = _fished(seen)
        for name, flag in command.flags.items():
            option = f"-s {name}" if len(name) == 1 else f"-o {name}"
            value = ""
            if flag.kind is not bool:
                value = " -r -F" if takes_file(flag) else " -x"
            if values(flag):
                value += f" -a {_fished(' '.join(values(flag)))}"
            lines.append(f"complete -c hsdns -n {where} {option}{value} -d {_fished(flag.help)}")
            if flag.kind is list and takes_file(flag):
                after = _fished(f"{seen}; and __fish_seen_argument {option}")
                lines.append(f"complete -c hsdns -n {after} -F")
        if command.name and command.words:
            lines.append(f"complete -c hsdns -n {where} -a {_fished(' '.join(command.words))}")
    return "\n".join(lines) + "\n"


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
