"""CoreDNS's command line: the same flags, so that a Deployment's `args` work unchanged.

Path: argv -> here -> server/lifecycle.py.
Source: CoreDNS 1.14.7 coremain/run.go.  hsdns adds `-validate`, `-v`, `-workers`, `-control`, `-faults`, `-reuseport`.

`hsdns -validate`: the errors and probable mistakes in a Corefile, as text or as JSON; nothing is started:
Rule 1: all errors are shown, not only the first; only errors make the exit status 1.
Rule 2: text goes to standard error except its last line, JSON only to standard output.
Rule 3: hints are what the rules HS203, HS210 and HS249 of `hsdns lint` find.
"""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns import __version__, memory
from hsdns.cli import SUBCOMMANDS, commands_by_purpose, control_path
from hsdns.cli.command import OUTPUT, Command, Flag, FlagError, complain, flag, say, say_text, usage

if TYPE_CHECKING:
    from hsdns.cli.launch import CorefileSource
    from hsdns.corefile.tree import Position

PEER_VERSION: Final = "1.14.7"
# The default Corefile of CoreDNS.
FALLBACK: Final = ". {\n    whoami\n    log\n}\n"
MAX_WORKERS: Final = 256
WORKERS: Final = Flag.of(
    "threads that answer UDP queries (default: one per usable CPU)", "N", low=1, high=MAX_WORKERS
)


class Coredns(Command):
    """Serves a Corefile, checks it, or shows what this hsdns is."""

    name = ""
    suggested = (*SUBCOMMANDS, "help", "version")
    bad = 1

    conf: str | None = flag(
        None, 'Corefile to load, "stdin" for standard input (default "Corefile")', "FILE"
    )
    port: int = flag(
        53,
        "port of Corefile keys without one (default 53)",
        "PORT",
        name="dns.port",
        alias="p",
    )
    plugins: bool = flag(False, "list the plugins that hsdns has")
    version: bool = flag(False, "show the version")
    quiet: bool = flag(False, "do not show the version and the zones at startup")
    workers: int | None = flag(None, WORKERS)
    control: str | None = flag(None, control_path.FLAG)
    faults: bool = flag(False, "accept fault rules through the control API (default: refuse them)")
    reuseport: bool = flag(
        False,
        "share the ports with another server of this user, so that one can replace the other",
    )
    v: bool = flag(False, "show at startup which fast path runs and which server blocks it caches")
    pidfile: str | None = flag(None, "write the process ID to a file", "FILE")
    validate: bool = flag(
        False,
        "check the Corefile and load its python modules, but do not serve; exit with 0 or 1",
    )
    o: str = flag(
        "text",
        OUTPUT,
        help="output format of --validate, --version, --plugins and -v: text (default) or json",
    )
    no_code: bool = flag(False, "with --validate: do not load the modules of the plugin python")

    @classmethod
    def help_text(cls) -> str:
        """What `hsdns -h` shows."""
        return (
            f"hsdns {__version__}, a DNS server for Kubernetes clusters\n\n"
            f"Usage: hsdns COMMAND [FLAG...]  (hsdns help COMMAND lists its flags)\n"
            f"       hsdns [FLAG...]          serve a Corefile, as CoreDNS does\n\n"
            f"{commands_by_purpose()}\n\n"
            f"Flags without a command:\n{usage(cls.flags())}"
        )

    def run(self) -> int:
        """Serve, check, or show."""
        as_json = self._wants_json()
        control = control_path.path_of(self.control)
        if self.no_code and not self.validate:
            raise FlagError(
                "--no-code is for --validate; a server runs the code that its Corefile names"
            )
        if self.version:
            say_text(json.dumps(version(), indent=2) if as_json else version_text())
            return 0
        if self.plugins:
            from hsdns.plugins import ORDER

            found = sorted(ORDER)
            say_text(json.dumps(found, indent=2) if as_json else "\n".join(found))
            return 0

        if not self.validate:
            memory.begin()
        from hsdns.cli import launch
        from hsdns.cli.launch import CorefileSource

        corefile = CorefileSource.from_flag(self.conf, FALLBACK)
        if self.validate:
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
                control=control,
                faults=self.faults,
                reuseport=self.reuseport,
            ),
        )

    def _wants_json(self) -> bool:
        """Return whether -o json is given; raise FlagError where -o has no effect."""
        if "o" in self.given and not (self.validate or self.version or self.plugins or self.v):
            raise FlagError(
                "-o has no meaning alone; use it with --validate, --version, --plugins or -v"
            )
        return self.o == "json"


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


class Remark(NamedTuple):
    """A sentence, and its position, if any."""

    position: Position | None
    message: str

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.position}: {self.message}"

    def as_json(self) -> dict[str, object]:
        """Return the object for `-o json`; without a position only the message."""
        place = {} if self.position is None else self.position._asdict()
        return {**place, "message": self.message}


class Findings(NamedTuple):
    """The results of a check; `server_blocks` counts those that could be read."""

    server_blocks: int
    errors: list[Remark]
    warnings: list[Remark]
    hints: list[Remark]


def validate(
    source: CorefileSource, port: int, *, as_json: bool = False, runs_code: bool = True
) -> int:
    """Set up the configuration without starting it; print the findings, and return 1 if there are errors, else 0."""
    found = check(source, port, runs_code=runs_code)
    if as_json:
        say_text(_json(source.path, found))
    else:
        _show(source.path, found)
    return 1 if found.errors else 0


def check(source: CorefileSource, port: int, *, runs_code: bool = True) -> Findings:
    """Find all errors, warnings and hints of a Corefile."""
    from hsdns.cli.launch import build
    from hsdns.corefile.tree import CorefileError, Errors
    from hsdns.rules.checks.corefile_hints import hints
    from hsdns.rules.corefile_text import split_position

    errors = Errors(collecting=True)
    warnings: dict[str, None] = {}  # a setup repeated after an error warns again
    try:
        corefile = source.load(errors=errors)
        configuration = build(
            corefile,
            port,
            warn=warnings.setdefault,
            validating=True,
            errors=errors,
            runs_code=runs_code,
        )
    except CorefileError as error:  # the file cannot be read
        return Findings(0, [Remark(error.position, error.message)], [], [])
    except OSError as error:
        return Findings(0, [Remark(None, str(error))], [], [])
    remarks = [Remark(*split_position(sentence)) for sentence in warnings]
    wrong = [Remark(error.position, error.message) for error in errors.in_order()]
    told = {each.position for each in wrong}
    return Findings(
        len(corefile.blocks),
        wrong,
        remarks,
        [
            Remark(position, message)
            for position, message in hints(corefile, configuration)
            if position not in told
        ],
    )


def _show(path: str, found: Findings) -> None:
    for kind, remarks in (
        ("[WARNING] ", found.warnings),
        ("[HINT] ", found.hints),
        ("", found.errors),
    ):
        for remark in remarks:
            complain(f"{kind}{remark}")
    if found.errors:
        if len(found.errors) > 1:
            complain(f"{path}: {len(found.errors)} errors")
        return
    from hsdns.wire import counted

    blocks = found.server_blocks
    say(f"{path}: valid, {counted(blocks, 'server block')}")


def _json(path: str, found: Findings) -> str:
    value = {
        "corefile": path,
        "valid": not found.errors,
        "server_blocks": found.server_blocks,
        "errors": [each.as_json() for each in found.errors],
        "warnings": [each.as_json() for each in found.warnings],
        "hints": [each.as_json() for each in found.hints],
    }
    return json.dumps(value, indent=2, ensure_ascii=False)
