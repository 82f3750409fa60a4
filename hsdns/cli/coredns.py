"""CoreDNS's command line: the same flags, so that a Deployment's `args` work unchanged.

Path: argv -> here -> server/lifecycle.py.
Source: CoreDNS 1.14.7 coremain/run.go.  `-validate`, `-v`, `-workers`, `-control` and `-faults` are additions of hsdns.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from typing import Final

from hsdns import __version__
from hsdns.cli import SUBCOMMANDS, control_path
from hsdns.cli.flags import Flag, FlagError, parse_flags, runs_code, usage
from hsdns.cli.output import complain, say, say_text

PEER_VERSION: Final = "1.14.7"
# The default Corefile of CoreDNS.
FALLBACK: Final = ". {\n    whoami\n    log\n}\n"
MAX_WORKERS: Final = 256
WORKERS: Final = Flag(
    int,
    "threads that answer UDP queries (default: the CPUs that may be used)",
    "N",
    what="number",
    low=1,
    high=MAX_WORKERS,
)
FLAGS: Final = {
    "conf": Flag(str, 'Corefile to load, "stdin" for standard input (default "Corefile")', "FILE"),
    "dns.port": Flag(int, "port for keys of the Corefile that name none (default 53)", "PORT"),
    "p": Flag(int, "the same as -dns.port", "PORT", alias_of="dns.port"),
    "plugins": Flag(bool, "list the plugins that hsdns has"),
    "version": Flag(bool, "show the version"),
    "quiet": Flag(bool, "do not show the version and the zones at the start"),
    "workers": WORKERS,
    "control": control_path.FLAG,
    "faults": Flag(
        bool, "let rules of faults come through the control door (default: they are refused)"
    ),
    "v": Flag(bool, "show at the start which fast path runs and which blocks' answers it caches"),
    "pidfile": Flag(str, "write the process ID to a file", "FILE"),
    "validate": Flag(
        bool,
        "set up everything in the Corefile, which runs the modules of python, start nothing, and exit with 0 or 1",
    ),
    "o": Flag(str, "json: print what -validate, -version and -v show as JSON", "FORMAT"),
    "no-code": Flag(bool, "with -validate: do not load the modules that python names"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run CoreDNS's command line; return the exit status."""
    try:
        flags = parse_flags(words, FLAGS, commands=SUBCOMMANDS)
        as_json = _wants_json(flags)
        control = None if flags.get("control") is None else str(flags["control"])
        control_path.check_path(control)
        if flags.get("no-code") and not flags.get("validate"):
            raise FlagError("-no-code is for -validate; a server runs what its Corefile names")
    except FlagError as error:
        complain(error)
        return 1
    if flags.get("h"):
        say_text(help_text())
        return 0
    if flags.get("version"):
        say_text(json.dumps(version(), indent=2) if as_json else version_text())
        return 0
    if flags.get("plugins"):
        from hsdns.plugins import ORDER

        say(*sorted(ORDER))
        return 0

    from hsdns.cli import launch
    from hsdns.cli.corefile_source import CorefileSource

    port = flags.get("dns.port", 53)
    assert isinstance(port, int)
    conf = flags.get("conf")
    corefile = CorefileSource.from_flag(None if conf is None else str(conf), FALLBACK)
    if flags.get("validate"):
        from hsdns.cli.validate import validate

        return validate(corefile, port, as_json=as_json, runs_code=runs_code(flags))
    pidfile = flags.get("pidfile")
    return launch.serve(
        corefile,
        port,
        quiet=bool(flags.get("quiet")),
        pidfile=None if pidfile is None else str(pidfile),
        banner=version_text(),
        workers=workers_of(flags),
        verbose=bool(flags.get("v")),
        as_json=version() if as_json else None,
        control=control,
        faults=bool(flags.get("faults")),
    )


def _wants_json(flags: Mapping[str, object]) -> bool:
    """Return whether -o json is given; raise FlagError where -o has no effect."""
    wanted = flags.get("o")
    if wanted is None:
        return False
    if wanted != "json":
        raise FlagError(f'-o needs json, found "{wanted}"')
    if not any(flags.get(name) for name in ("validate", "version", "v")):
        raise FlagError("-o has no meaning alone; use it with -validate, -version or -v")
    return True


def workers_of(flags: Mapping[str, object]) -> int | None:
    """Return the value of -workers, None if it is not given."""
    found = flags.get("workers")
    assert found is None or isinstance(found, int)
    return found


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


def help_text() -> str:
    """Return the text of `hsdns -h`."""
    commands = "\n".join(f"  hsdns {name:<10} {headline}" for name, headline in SUBCOMMANDS.items())
    return (
        f"hsdns {__version__}, a DNS server for Kubernetes clusters\n\n"
        f"Usage: hsdns [FLAG...]         serve a Corefile, as CoreDNS does\n"
        f"       hsdns COMMAND [FLAG...]\n\n"
        f"Commands (-h after one shows its flags):\n{commands}\n\n"
        f"Flags:\n{usage(FLAGS)}"
    )
