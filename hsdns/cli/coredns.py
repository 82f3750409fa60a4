"""CoreDNS's command line: the same flags, so that a Deployment's `args` work unchanged.

Path: argv -> here -> server/lifecycle.py.
Source: CoreDNS 1.14.7 coremain/run.go.  `-validate`, `-v`, `-workers`, `-control` and `-faults` are additions of hsdns.
"""

from __future__ import annotations

import json
import platform
import sys
from typing import Annotated, Final

from hsdns import __version__
from hsdns.cli import SUBCOMMANDS, control_path
from hsdns.cli.command import Command, FlagError, flag, say, say_text, usage

PEER_VERSION: Final = "1.14.7"
# The default Corefile of CoreDNS.
FALLBACK: Final = ". {\n    whoami\n    log\n}\n"
MAX_WORKERS: Final = 256
WORKERS: Final = flag(
    "threads that answer UDP queries (default: the CPUs that may be used)",
    "N",
    what="number",
    low=1,
    high=MAX_WORKERS,
)


class Coredns(Command):
    """Serves a Corefile, checks it, or shows what this hsdns is."""

    name = ""
    suggested = tuple(SUBCOMMANDS)
    bad = 1

    conf: Annotated[
        str | None,
        flag('Corefile to load, "stdin" for standard input (default "Corefile")', "FILE"),
    ] = None
    port: Annotated[
        int,
        flag(
            "port for keys of the Corefile that name none (default 53)",
            "PORT",
            name="dns.port",
            alias="p",
        ),
    ] = 53
    plugins: Annotated[bool, flag("list the plugins that hsdns has")] = False
    version: Annotated[bool, flag("show the version")] = False
    quiet: Annotated[bool, flag("do not show the version and the zones at the start")] = False
    workers: Annotated[int | None, WORKERS] = None
    control: Annotated[str | None, control_path.FLAG] = None
    faults: Annotated[
        bool,
        flag("let rules of faults come through the control door (default: they are refused)"),
    ] = False
    v: Annotated[
        bool,
        flag("show at the start which fast path runs and which blocks' answers it caches"),
    ] = False
    pidfile: Annotated[str | None, flag("write the process ID to a file", "FILE")] = None
    validate: Annotated[
        bool,
        flag(
            "set up everything in the Corefile, which runs the modules of python, start nothing, and exit with 0 or 1"
        ),
    ] = False
    o: Annotated[
        str | None, flag("json: print what -validate, -version and -v show as JSON", "FORMAT")
    ] = None
    no_code: Annotated[bool, flag("with -validate: do not load the modules that python names")] = (
        False
    )

    @classmethod
    def help_text(cls) -> str:
        """What `hsdns -h` shows."""
        commands = "\n".join(f"  hsdns {name:<10} {line}" for name, line in SUBCOMMANDS.items())
        return (
            f"hsdns {__version__}, a DNS server for Kubernetes clusters\n\n"
            f"Usage: hsdns [FLAG...]         serve a Corefile, as CoreDNS does\n"
            f"       hsdns COMMAND [FLAG...]\n\n"
            f"Commands (-h after one shows its flags):\n{commands}\n\n"
            f"Flags:\n{usage(cls.flags())}"
        )

    def run(self) -> int:
        """Serve, check, or show."""
        as_json = self._wants_json()
        control_path.check_path(self.control)
        if self.no_code and not self.validate:
            raise FlagError("-no-code is for -validate; a server runs what its Corefile names")
        if self.version:
            say_text(json.dumps(version(), indent=2) if as_json else version_text())
            return 0
        if self.plugins:
            from hsdns.plugins import ORDER

            say(*sorted(ORDER))
            return 0

        from hsdns.cli import launch
        from hsdns.cli.launch import CorefileSource

        corefile = CorefileSource.from_flag(self.conf, FALLBACK)
        if self.validate:
            from hsdns.cli.validate import validate

            return validate(corefile, self.port, as_json=as_json, runs_code=not self.no_code)
        return launch.serve(
            corefile,
            launch.ServeOptions(
                self.port,
                quiet=self.quiet,
                pidfile=self.pidfile,
                banner=version_text(),
                workers=self.workers,
                verbose=self.v,
                as_json=version() if as_json else None,
                control=self.control,
                faults=self.faults,
            ),
        )

    def _wants_json(self) -> bool:
        """Return whether -o json is given; raise FlagError where -o has no effect."""
        if self.o is None:
            return False
        if self.o != "json":
            raise FlagError(f'-o needs json, found "{self.o}"')
        if not (self.validate or self.version or self.v):
            raise FlagError("-o has no meaning alone; use it with -validate, -version or -v")
        return True


def version() -> dict[str, str]:
    """Return the output of `-version -o json`."""
    return {
        "name": "hsdns",
        "version": __version__,
        "answers_as": f"CoreDNS-{PEER_VERSION}",
        "platform": f"{sys.platform}/{platform.machine()}",
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
    }


def version_text() -> str:
    """Return two lines, as CoreDNS prints: name and version, then platform and interpreter."""
    of = version()
    return (
        f"{of['name']}-{of['version']} (answers as {of['answers_as']})\n"
        f"{of['platform']}, {of['interpreter']}"
    )
