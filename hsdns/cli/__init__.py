"""Command line: runs a subcommand, or CoreDNS's own command line without one, and returns the exit status.

Path: argv -> main() -> the class of a subcommand (command.py), or cli/coredns.py for CoreDNS's own flags.
Rule 1: no logic here; each subcommand imports its dependencies when it runs.
Rule 2: the class has the name of the command: `hsdns names` is Names, in cli/names.py or the module of MODULES.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hsdns.cli.command import Command

SUBCOMMANDS: Final = {
    "serve": "Serve a cluster from files, a simulated one, or the built-in demo",
    "names": "List every name of a cluster, with its records",
    "explain": "Say why a name has the answer that it has, or none",
    "top": "Show what goes on in a running server: failing names with the reason, changes, rates",
    "doctor": "Find what makes names fail in a cluster, and what will",
    "lint": "Find what will fail in DNS, in manifests and Corefiles",
    "audit": "Ask DNS servers for every name of a cluster, and tell what is not right",
    "wait": "Wait until DNS answers what it should, for scripts and CI",
    "rule": "Show what a rule of lint is about, or list them",
    "fault": "Make DNS misbehave on purpose: add, list, watch and remove rules",
    "record": "Record what happens in a running server, with times, into a file",
    "replay": "Pause, continue or step a server that replays such a file",
    "lookup": "Query a DNS server, as the image has no other program that does",
    "ask": "Ask DNS servers several questions, and print the answers as JSON",
    "resolve": "Show a whole lookup as the resolver of glibc, musl, Go or c-ares does it",
    "load": "Load a DNS server, and tell whether its answers were right",
    "interface": "Create the network interface of a node-local server",
    "completion": "Print the completion of a shell: bash, zsh or fish",
    "man": "Print a manual page, for man",
}
# The modules of commands that share one, or have a package of their own.
MODULES: Final = {
    "ask": "hsdns.ask.cli",
    "audit": "hsdns.audit.cli",
    "completion": "hsdns.cli.commands",
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words.pop(0) if words and words[0] in SUBCOMMANDS else "coredns"
    try:
        return find_command(name).main(words)
    except BrokenPipeError:  # as in `hsdns -h | head -1`; a running server handles it itself
        # At exit Python flushes standard output, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
