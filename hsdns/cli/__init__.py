"""Words of the command line to one call, its answer printed, an exit status.

Path: argv -> main() -> a subcommand's module, or cli/coredns.py for CoreDNS's own flags.
Rule 1: no logic here; a subcommand imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

SUBCOMMANDS: Final = {
    "serve": "Serve a cluster from files, a made-up one, or the built-in demo",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in SUBCOMMANDS:
        run: Callable[[list[str]], int] = import_module(f"hsdns.cli.{words[0]}").run
        return run(words[1:])
    from hsdns.cli import coredns

    return coredns.run(words)


if __name__ == "__main__":
    sys.exit(main())
