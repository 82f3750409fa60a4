"""What the command line accepts, for completion and manual pages; read from the class of each command.

Path: cli/completion.py and cli/man.py -> here -> the flags, words and help of each command.
Rule: a new flag or command is completed and described without a change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hsdns.cli import SUBCOMMANDS, find_command
from hsdns.cli.flags import Flag
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
        found.append(Description(name, headline, _usage(of.help_text()), of.flags(), words))
    return found


def takes_file(flag: Flag) -> bool:
    """Whether values of the flag may be paths."""
    return flag.argument in ("FILE", "PATH", SOURCE)


def values(flag: Flag) -> tuple[str, ...]:
    """The words to suggest for the flag's first value."""
    return tuple(SOURCES) if flag.argument == SOURCE else ()


def _usage(help_text: str) -> tuple[str, ...]:
    forms = help_text.partition("Usage: ")[2].partition("\n\n")[0]
    # Text after two spaces is a remark.
    return tuple(line.strip().partition("  ")[0] for line in forms.splitlines())
