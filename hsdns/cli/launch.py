"""Start of the process from a Corefile; shared by both command lines.

Path: cli/coredns.py and cli/serve.py -> here -> assemble, server/lifecycle.py.
Rule 1: errors of the start go to standard error, one sentence each; the log goes to standard output, as in CoreDNS.
Rule 2: while it serves, a thread writes to both (server/query_log.py), so that no reader can stop the server.
Rule 3: before the server is imported, the Corefile is parsed and the first requests of its watches are sent
        (docs/decisions/0031).  So this module initially imports only what that needs.

The source of the Corefile, and its text as a tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TextIO

from hsdns import memory
from hsdns.cli.command import complain, say
from hsdns.corefile.lexer import Files, Source
from hsdns.corefile.parser import CorefileFiles, parse, read_text
from hsdns.corefile.tree import Corefile, CorefileError, Errors, Position, Token
from hsdns.metrics import Registry
from hsdns.plugins import NOT_YET, ORDER
from hsdns.wire import counted, printable

if TYPE_CHECKING:
    from hsdns.assemble import Configuration, ListenAddress
    from hsdns.chain import Endpoint
    from hsdns.server.query_log import LogWriter
    from hsdns.server.watch_thread import WatchThread
    from hsdns.sources.ahead import Ahead


# What UTF-16 with its mark and gzip, both as UTF-8, begin with; without a mark, one of the first two octets is 0.
_ENCODED: Final = ("\ufffd", "\x1f")
# The beginning of a manifest, in YAML or JSON, which no server block has.
_MANIFEST: Final = re.compile(
    r"""\ufeff?(?:\s|\#[^\n]*\n|---[^\n]*\n)*(?:["']?(?:apiVersion|kind|metadata|data|items|immutable|binaryData)["']?:\s|\{\s*")"""
)


class CorefileSource(NamedTuple):
    """The source of the Corefile: a path, or text already read; `fallback` is used if it has no server block."""

    path: str
    fallback: str
    text: str | None = None

    @classmethod
    def from_flag(cls, conf: str | None, fallback: str) -> Self:
        """Interpret `-conf`; if it is absent or empty, use ./Corefile, and the fallback if that does not exist."""
        if conf == "stdin":
            return cls("stdin", fallback, sys.stdin.read())
        if not conf:
            return cls("Corefile", fallback, None if Path("Corefile").exists() else "")
        return cls(conf, fallback)

    def load(self, files: CorefileFiles | None = None, errors: Errors | None = None) -> Corefile:
        """Parse the Corefile; record in `files` what was read; raise CorefileError, or collect all in `errors`."""
        files = CorefileFiles() if files is None else files
        files.start()
        corefile = self._parse(self.text, files, errors)
        if not corefile.blocks and not errors:
            missing = self.text == "" and self.path != "stdin"
            warning = (
                f"{self.path} {'does not exist' if missing else 'has no server block'}, "
                "so the default is served; choose another file with --conf"
            )
            corefile = replace(
                self._parse(self.fallback, files), warnings=(*corefile.warnings, warning)
            )
        return corefile

    def _parse(
        self, text: str | None, files: CorefileFiles, errors: Errors | None = None
    ) -> Corefile:
        content = str(read_text(self.path, files)) if text is None else text
        if text is None and (content[:1] in _ENCODED or "\0" in content[:2]):
            from hsdns.sources.file_text import NOT_UTF8, is_encoded, read_file

            decoded = read_file(self.path).decode("utf-8", "replace")
            if is_encoded(self.path) and not _MANIFEST.match(decoded):
                raise Position(self.path, 1, 1).error(NOT_UTF8)
            content = decoded
        if not _MANIFEST.match(content):
            source = Source(content, self.path)
            return parse_corefile(source, files, errors)
        from hsdns.rules.judging import corefile_in

        mounted = corefile_in(self.path, content.encode("utf-8", "surrogatepass"))
        mounted.beside = files
        return parse_corefile(mounted.source, mounted, errors)


def parse_corefile(source: Source, files: Files, errors: Errors | None = None) -> Corefile:
    """Parse a Corefile with the environment and the plugins of this process; raise CorefileError."""
    return parse(
        source.file,
        text=source,
        environ=os.environ,
        known_directives=ORDER,
        not_yet=NOT_YET,
        files=files,
        errors=errors,
    )


Addresses = Mapping["ListenAddress", "Endpoint"]  # including ports chosen by the kernel

# LOGGER and LINES of plugins/log.py, which takes time to import.
QUERY_LOG: Final = "hsdns.plugin.log"
QUERY_LINES: Final = "lines"


class LevelFormatter(logging.Formatter):
    """`[LEVEL] message`, as in CoreDNS; without a timestamp, because the container runtime adds one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        """Format a message as one line."""
        level = "FATAL" if record.levelno == logging.CRITICAL else record.levelname
        return f"[{level}] {printable(record.message)}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of the base class
        """Format a traceback, whose last lines are a message."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


def set_up_logging(
    refuses: Callable[[int], bool] = lambda lines: False, stream: TextIO | None = None
) -> None:
    """Send the log of everything under `hsdns` to a stream, None for standard output.

    `refuses` is called with the number of lines about queries before they are made.
    """
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(LevelFormatter())
    logger = logging.getLogger("hsdns")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.getLogger(QUERY_LOG).filters = [
        lambda record: not refuses(getattr(record, QUERY_LINES, 1))
    ]
    logging.raiseExceptions = False  # writing to a closed standard output must not stop the server


class _Start:
    """What exists before the server: the Corefile, and the first requests of its watches."""

    def __init__(self, source: CorefileSource) -> None:
        self.metrics = Registry()
        self.files = CorefileFiles()
        self.thread: WatchThread | None = None
        self._source = source
        self._first: Corefile | None = None
        self._ahead: Ahead | None = None

    def load(self) -> Corefile:
        """Return the Corefile, parsed now or by send_ahead(); raise CorefileError."""
        first, self._first = self._first, None
        return first or self._source.load(self.files)

    def send_ahead(self) -> None:
        """Send the first requests to the API servers that the Corefile watches."""
        try:
            with memory.growing():
                self._first = self._source.load(self.files)
        except CorefileError:
            return  # load() raises it again
        if not any(
            directive.name.text == "kubernetes"
            for block in self._first.blocks
            for directive in block.directives
        ):
            return
        from hsdns.server.watch_thread import WatchThread
        from hsdns.sources.ahead import Ahead, wanted_of

        wanted = wanted_of(self._first)
        if wanted:
            self.thread = WatchThread()
            self.thread.start()
            self._ahead = Ahead(self.metrics, self.thread.call)
            self.thread.at_end.append(self._ahead.close)
            self._ahead.send(wanted)

    def drop(self) -> None:
        """Close the unused requests that were sent ahead."""
        if self._ahead is not None:
            self._ahead.drop()


@dataclass(frozen=True)
class ServeOptions:
    """How a process serves, apart from its Corefile."""

    port: int
    quiet: bool = False
    pidfile: str | None = None
    banner: str = ""
    # Replaces the `source` of the kubernetes blocks.
    objects: tuple[Token, ...] | None = None
    # Gets each configuration before it starts, also at reloads, and raises OSError if it must not start.
    check: Callable[[Configuration], None] | None = None
    # Returns the lines to print once it serves.
    greet: Callable[[Configuration, Addresses], list[str]] | None = None
    # The number of threads for each UDP address if the fast path supports them (None: the usable CPUs).
    workers: int | None = None
    # Prints for each block whether its answers are cached in the answer table.
    verbose: bool = False
    # Describes the version; then the start prints only one line of JSON, and the log goes to standard error.
    as_json: Mapping[str, str] | None = None
    # The path of a control socket, or with `control_token` an address.
    control: str | None = None
    control_token: str | None = None
    # The address of the web page.
    dashboard: str | None = None
    # The pages of the control API have the last queries from the start.
    keeps_queries: bool = False
    # The control API accepts rules of faults.
    faults: bool = False
    # Other servers of this user may have the same ports.
    reuseport: bool = False
    # The exit status if it cannot start.
    bad: int = 1


def serve(source: CorefileSource, options: ServeOptions) -> int:
    """Serve until the process is told to stop; return the exit status."""
    from hsdns.limits import raise_limit
    from hsdns.server.query_log import queued_output

    raise_limit()
    memory.set_up_allocator()
    memory.set_up_collector()
    with queued_output() as output:
        set_up_logging(output.refuses, sys.stderr if options.as_json else None)
        start = _Start(source)
        if options.objects is None:
            start.send_ahead()
        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_serve(start, options, output))
        except (
            Exception
        ):  # shown here, because later no thread writes, and an unread pipe would block forever
            logging.getLogger("hsdns.server").critical("the server ended", exc_info=True)
            return 1


async def _serve(start: _Start, options: ServeOptions, output: LogWriter) -> int:
    from hsdns.limits import usable_cpus
    from hsdns.server.host import PREFIX, ServiceManager
    from hsdns.server.instance import StartError
    from hsdns.server.lifecycle import Server, ServerOptions, handle_signals

    log = logging.getLogger("hsdns.server")
    doors = list[tuple[str, str | None]]()
    if options.dashboard is not None:
        from secrets import token_urlsafe

        doors.append((options.dashboard, token_urlsafe(24)))
    if options.control is not None:
        place = options.control if options.control_token else f"{PREFIX}{options.control}"
        doors.append((place, options.control_token))

    def configure(corefile: Corefile) -> Configuration:
        if options.check is None:
            return build(corefile, options.port, warn=log.warning, objects=options.objects)
        warnings: list[str] = []
        configuration = build(corefile, options.port, warn=warnings.append, objects=options.objects)
        options.check(configuration)  # its error is the only line, and may repeat a warning
        for sentence in warnings:
            log.warning(sentence)
        return configuration

    server = Server(
        start.load,
        configure,
        ServerOptions(
            options.workers or usable_cpus(),
            watches_apart=True,
            control=tuple(doors),
            keeps_queries=options.keeps_queries,
            faults=options.faults,
            reuseport=options.reuseport,
        ),
        has_changed=start.files.have_changed,
        manager=ServiceManager.of(os.environ),
        metrics=start.metrics,
        watch_thread=start.thread,
    )
    output.count_in(server.metrics)
    handle_signals(server)
    try:
        with memory.growing():
            await server.start()
        start.drop()
    except (CorefileError, StartError) as error:
        complain(error)
        return options.bad
    if not server.is_serving:
        return await server.run()
    memory.keep()
    try:
        if options.pidfile is not None:
            _write_pid(options.pidfile, log)
        if not (options.quiet or options.as_json):
            say(*zone_lines(server.configuration, server.addresses))
        server.show_running()
        if not options.quiet and options.as_json:
            from hsdns.fastpath import IMPLEMENTATION
            from hsdns.server.control.routes import describe

            path = {"fast_path": IMPLEMENTATION, "workers": server.workers}
            own = {**options.as_json, "control": options.control, **path}
            say(json.dumps({**own, **await describe(server.door)}))
        elif not options.quiet:
            lines = options.banner.split("\n")
            if options.verbose and options.greet is None:
                lines.append(fast_path_line(server.workers))
            if options.verbose:
                lines += table_lines(server.configuration)
            if options.greet is not None:
                lines += options.greet(server.configuration, server.addresses)
            if options.dashboard is not None:
                lines += ["", f"dashboard: {server.door.page()}"]
            say(*lines)
    except BaseException:
        # If the runner did this, the threads of a serving server would wait for each other forever.
        await server.close()
        if options.pidfile is not None:
            _remove_pid(options.pidfile)
        raise
    status = await server.run()
    if options.pidfile is not None:
        _remove_pid(options.pidfile)
    return status


def _write_pid(pidfile: str, log: logging.Logger) -> None:
    try:
        Path(pidfile).write_text(f"{os.getpid()}\n")
    except OSError as error:
        log.warning("cannot write the pidfile %s: %s", pidfile, error.strerror)


def _remove_pid(pidfile: str) -> None:
    with contextlib.suppress(OSError):
        Path(pidfile).unlink()


def zone_lines(configuration: Configuration, addresses: Addresses | None = None) -> list[str]:
    """Return one line `[scheme://]zone:port` for each zone of each listener, with ` on ADDRESS` if it is bound to one.

    `addresses` has the port that the kernel chose for port 0 in the Corefile.
    """
    known = addresses or {}
    return [
        ("" if listener.listen.scheme == "dns" else f"{listener.listen.scheme}://")
        + f"{zone}:{known.get(listener.listen, listener.listen).port}"
        + (f" on {listener.listen.host}" if listener.listen.host else "")
        for listener in configuration.listeners
        for zone in sorted(zone.to_text() for zone in listener.zones)
    ]


def fast_path_line(workers: int) -> str:
    """Return a line that names the fast path's implementation and its number of threads."""
    from hsdns.fastpath import IMPLEMENTATION

    if IMPLEMENTATION == "rust":
        return f"fast path: rust, {counted(workers, 'worker')}"
    if os.environ.get("HSDNS_NO_EXTENSIONS") == "1":
        return "fast path: python (HSDNS_NO_EXTENSIONS=1)"
    return (
        "fast path: python (the compiled part was not built; install with cargo on PATH to have it)"
    )


def table_lines(configuration: Configuration) -> list[str]:
    """Return a line for each server block: whether its answers are cached in the answer table, and why not."""
    lines = []
    for block in configuration.blocks:
        keys = " ".join(key.token.text for key in block.keys)
        policy = block.policy
        result = "are cached in the answer table"
        if policy.reason and policy.stores_cached:
            result = f"from cache are cached in the answer table, others are not: {policy.reason}"
        elif policy.reason:
            result = f"are not cached, {policy.reason}"
        lines.append(f"{keys}: answers {result}")
    return lines


def build(
    corefile: Corefile,
    port: int,
    *,
    warn: Callable[[str], None],
    validating: bool = False,
    runs_code: bool = True,
    objects: tuple[Token, ...] | None = None,
    errors: Errors | None = None,
) -> Configuration:
    """Set up a Corefile; raise CorefileError, or collect all errors in `errors`."""
    from hsdns.assemble import assemble
    from hsdns.server.host import interface_addresses

    configuration = assemble(
        corefile,
        default_port=port,
        interfaces=interface_addresses,
        source=objects,
        validating=validating,
        runs_code=runs_code,
        warn=warn,
        errors=errors,
    )
    if objects is not None and all(plugin.name != "kubernetes" for plugin in configuration.plugins):
        raise objects[0].error(
            f"it needs a kubernetes block, and {corefile.path} has none; "
            f'add "kubernetes cluster.local" or leave {objects[0].position} out'
        )
    return configuration
