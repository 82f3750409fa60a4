"""Command line: runs a subcommand, or CoreDNS's own command line without one, and returns the exit status.

Path: argv -> main() -> the class of a subcommand (command.py), or cli/coredns.py for CoreDNS's own flags.
Rule 1: no logic here; each subcommand imports its dependencies when it runs.
Rule 2: without words it serves, as CoreDNS does; only who looks for a way in is shown the commands instead.
Rule 3: the class has the name of the command: `hsdns names` is Names, in cli/names.py or the module of MODULES.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from errno import EPIPE
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

    from hsdns.cli.command import Command

# By what a person wants to do: the name of a command -> what it does, and the words after it in an example.
COMMANDS: Final = {
    "Serve": {"serve": ("Serve the demo cluster, or your manifests", "")},
    "Look": {
        "names": ("List a cluster's names with their records", "-n shop"),
        "explain": ("Explain why a name resolves, or does not", "web.shop"),
        "resolve": ("Show every query of a program's lookup", "web.shop"),
        "dashboard": ("Print the URL of a server's web page", ""),
        "top": ("Watch a server's failing names and changes", ""),
        "lookup": ("Query a DNS server", "web.shop A"),
    },
    "Check": {
        "lint": ("Find DNS errors in manifests and Corefiles", "manifests/"),
        "doctor": ("Find DNS failures in a cluster, with causes", ""),
        "audit": ("Check every answer of DNS servers", ""),
        "wait": ("Wait until DNS gives the right answer", "web.shop"),
        "rule": ("Show the page of a lint rule, or list them", "HS103"),
    },
    "Test": {
        "fault": ("Make DNS misbehave on purpose", "add drop type AAAA"),
        "record": ("Record a cluster's changes in a file", "shop.rec"),
        "replay": ("Control the replay of a recording", "pause"),
        "load": ("Load-test a DNS server and check its answers", "--queries names.txt"),
    },
    "Other": {
        "ask": ("Query DNS servers; print the answers as JSON", "web.shop/A"),
        "interface": ("Create the interface of a node-local server", "--address ADDRESS"),
        "completion": ("Print the completion for bash, zsh or fish", "bash"),
        "man": ("Print a manual page", "serve"),
    },
}
MORE: Final = "Run hsdns help COMMAND for the flags of a command, hsdns help for those of CoreDNS."
SUBCOMMANDS: Final = {
    name: headline for group in COMMANDS.values() for name, (headline, _) in group.items()
}
# The modules of commands that share one, or have a package of their own.
MODULES: Final = {
    "ask": "hsdns.ask.cli",
    "audit": "hsdns.audit.cli",
    "completion": "hsdns.cli.commands",
    "dashboard": "hsdns.cli.running_server",
    "doctor": "hsdns.doctor.cli",
    "explain": "hsdns.explanation.cli",
    "fault": "hsdns.faults.cli",
    "lint": "hsdns.lint.cli",
    "load": "hsdns.load.cli.load",
    "lookup": "hsdns.ask.cli",
    "man": "hsdns.cli.commands",
    "record": "hsdns.recording.cli",
    "replay": "hsdns.recording.cli",
    "resolve": "hsdns.resolver.cli",
    "rule": "hsdns.lint.rule",
}


def find_command(name: str) -> type[Command]:
    """The class of a subcommand, imported when it is needed."""
    module = import_module(MODULES.get(name, f"hsdns.cli.{name}"))
    found: type[Command] = getattr(module, name.capitalize())
    return found


def commands_by_purpose() -> str:
    """The commands by what they are for, an example of each with what it does."""
    lines = []
    for group, commands in COMMANDS.items():
        lines.append(f"\n{group}")
        for name, (headline, words) in commands.items():
            lines.append(f"  {f'hsdns {name} {words}'.rstrip():<32}  {headline}".rstrip())
    return "\n".join(lines).removeprefix("\n")


def _is_a_person() -> bool:
    """Whether somebody looks for a way in: at a terminal, under our own name, and without a Corefile to serve."""
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.path.basename(sys.argv[0]) != "coredns"
        and not os.path.exists("Corefile")
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End what runs at once: asyncio would put its own handler in place of Python's, which waits for the next await."""
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    for stream, mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
        if getattr(sys, stream) is None:  # `>&-`: no socket must have its number
            setattr(sys, stream, open(os.devnull, mode))  # noqa: SIM115 - it is open until the end
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        of = words[1:]  # an unknown one is refused as without "help"
        words = of if of and of[0] not in SUBCOMMANDS else [*of, "-h"]
    elif words[:1] in (["version"], ["-V"]):
        words[0] = "--version"
    name = words.pop(0) if words and words[0] in SUBCOMMANDS else "coredns"
    try:
        if not words and name == "coredns" and _is_a_person():
            from hsdns.cli.command import say

            say(*commands_by_purpose().split("\n"), "", *MORE.split("\n"), fits=True)
            return 0
        status = find_command(name).main(words)
        sys.stdout.flush()
        return status
    except OSError as error:  # of standard output; a running server handles it itself
        # At exit Python flushes standard output, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == EPIPE:  # as in `hsdns -h | head -1`
            return 1
        from hsdns.cli.command import complain

        complain(f"cannot write to standard output: {error.strerror}; redirect it to another file")
        return 2
    except KeyboardInterrupt:  # a shell that sees the signal ends its loop too
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
        return 1


if __name__ == "__main__":
    sys.exit(main())
