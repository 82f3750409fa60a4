"""Plugins: directives of the Corefile, and the interface that the server provides to them.

Path: assemble.py sets plugins up; server/lifecycle.py starts and stops them with a Runtime; those that have a method
handle() are the handlers of chain.py.
Rule 1: every plugin has setup(), start() and stop(); the base class only keeps the runtime.
Rule 2: what any plugin may say of itself is an attribute or a method of the base class, with the value of a plugin that
        does not care.
Rule 3: what only handlers have is an optional capability: a runtime-checkable protocol, declared by the module that
        uses it, which plugins implement by having its methods.  There are chain.Handler, WaitsInTask and
        RequestFilter; all of answer_table/capabilities.py; ServesTls in assemble.py; Transferer in
        plugins/transfer.py; MetadataProvider in plugins/metadata.py; SearchPaths in plugins/autopath.py.

Whether the plugins of a configuration are ready:
Source: CoreDNS 1.14.7 plugin/ready; remarks are hsdns's own.
Rule 1: a plugin that does not say otherwise is ready from the start.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

from hsdns.chain import Handler, Request
from hsdns.cluster.freshness import Counters
from hsdns.corefile.properties import Property, no_arguments, no_body, one_of
from hsdns.corefile.tree import Directive, Token
from hsdns.eager import Waiting
from hsdns.http_page import HttpPage
from hsdns.metrics import Registry
from hsdns.wire.message import Reply
from hsdns.wire.name import Name

MODULES: Final = "hsdns.plugins."  # each is named after a directive


class Readiness(NamedTuple):
    """The plugins' reports, all sorted by name.

    `unready` names those that are not ready, `relapsed` those of them for which having been ready once is not enough;
    `remarks` are lines for the operator: `kubernetes: serving a snapshot`.
    """

    unready: list[str]
    relapsed: list[str]
    remarks: list[str]

    @classmethod
    def of(cls, plugins: Iterable[Plugin]) -> Self:
        """Ask plugins; a name that several blocks have is in a list once."""
        unready, relapsed, remarks = set[str](), set[str](), set[str]()
        for plugin in plugins:
            if not plugin.ready():
                unready.add(plugin.name)
                if plugin.may_relapse:
                    relapsed.add(plugin.name)
            if remark := plugin.remark():
                remarks.add(f"{plugin.name}: {remark}")
        return cls(sorted(unready), sorted(relapsed), sorted(remarks))


class Running(Protocol):
    """A task that runs until it is cancelled."""

    def cancel(self) -> object:
        """End it, in one of the next iterations of its loop."""


class Runtime(Protocol):
    """The server's interface for running plugins: their only access to sockets, clocks, tasks and random numbers."""

    random: Random
    metrics: Registry
    counters: Counters  # of the answer tables' dependencies
    stopping: bool  # from SIGTERM on

    async def load(self, read: Callable[[], None]) -> None:
        """Let a plugin that starts read something long: at a reload in a thread, as another configuration serves."""

    @property
    def queries(self) -> Waiting:
        """The waits of the configuration's queries."""

    def clock(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Seconds since the epoch."""

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Awaitable[Any]:
        """Run a coroutine as a task that is cancelled when the configuration stops."""

    def spawn_watch(self, coro: Coroutine[Any, Any, Any], name: str) -> Running:
        """Run a coroutine in the watch thread; it continues when the configuration stops, for inherit().

        It is the only writer of its store, and it may call only functions that any thread may call.
        """

    def late_watch(self, now: float) -> Awaitable[None] | None:
        """Return what to wait for before a store is read, if the watch thread is blocked; `now` is clock()."""

    def look_every(
        self, seconds: float, look: Callable[[], Callable[[], Callable[[], None] | None] | None]
    ) -> None:
        """Call `look` in a thread every `seconds` until the configuration stops; it must not change anything itself.

        The function that it returns is called on the loop.  The function that this returns is called last, once if
        several return the same.
        """

    async def resolve(self, request: Request) -> Reply:
        """Answer a Request.nested() from the block that serves its name (CoreDNS upstream.Lookup)."""

    def serve_http(self, address: str, paths: dict[str, HttpPage]) -> None:
        """Answer GET requests for these paths on `host:port`; the socket outlives a reload that asks for it again."""

    def serve_control(self, address: str, token: str | None) -> None:
        """Open the control API at `host:port`, for requests with the token, or at `unix:PATH`."""

    def serve_dashboard(self, address: str) -> None:
        """Serve the web page at `host:port`, with its pages of the control API, to everyone who can connect."""

    def readiness(self) -> Readiness:
        """Ask all plugins whether they are ready."""

    def local_addresses(self, servers: Sequence[str]) -> list[str]:
        """The addresses of these servers: the bound ones, else all addresses of this host except loopback."""

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, for `seconds` at most; return whether it does."""

    def names_answered_first_changed(self) -> None:
        """Call names_answered_first() of all handlers again."""

    def fail(self, reason: str) -> None:
        """End the process with status 1, after logging the reason as fatal."""

    async def reload_if_changed(self) -> None:
        """Read the Corefile; load it if its digest is new, or log and count why that fails.  Never raises."""


async def catch_up(runtime: Runtime, now: float) -> bool:
    """Wait, before what depends on a store is read, if the watch thread is blocked; return whether it was."""
    late = runtime.late_watch(now)
    if late is not None:
        await late
    return late is not None


class Block(NamedTuple):
    """The facts about its server block that a plugin's setup may use."""

    zones: tuple[Name, ...]
    servers: tuple[str, ...]  # one `dns://:53` for each key
    plugins: frozenset[str]  # names of all directives in the block
    # Relative paths in the file are relative to the working directory, imports to this.
    corefile_dir: str
    validating: bool  # -validate: open only files that the Corefile names
    warn: Callable[[str], None]  # takes a warning for the operator, as a sentence
    root: str = ""  # the folder of relative paths, from `root`; "" is the working directory
    # The words of --source, instead of the block's own `source`.
    source: tuple[Token, ...] | None = None
    runs_code: bool = True  # whether a directive may run a module or a program that it names

    def path(self, text: str) -> str:
        """Resolve a path of a directive: relative paths are relative to the block's `root`."""
        return os.path.join(self.root, text)


@contextmanager
def extra(name: str, directive: Directive) -> Iterator[None]:
    """Import packages that only an extra of hsdns installs; raise CorefileError if they are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise directive.name.error(
            f'"{directive.name.text}" needs the Python package {error.name}, which is not installed; install '
            f'hsdns with the extra that has it: pip install "hsdns-server[{name}]"'
        ) from None


class Plugin:
    """A directive of the Corefile.  Each subclass is in hsdns/plugins, in a module named after the directive."""

    name: ClassVar[str]  # that of the module
    _runtime: Runtime  # from start() on
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {}
    # The name of its block's view (CoreDNS: Viewer).
    view: str = ""
    # /ready goes on asking after it was ready once.
    may_relapse: bool = False
    # The folder in which the files of its block are; set up before all that name files (`root`).
    root_folder: str = ""
    # The stack of an error that a handler of its block raises is logged (`errors`).
    stacktrace: bool = False
    # The whole process is in debug mode (`debug`).
    debug_mode: bool = False
    # The dropped queries of its UDP addresses are counted (`shed`).
    counts_drops: bool = False
    # Its store is read before the chain (`kubernetes` with Pods, in a block with `metadata`).
    is_read_by_filters: bool = False

    def __init_subclass__(cls) -> None:
        """Name it after its module."""
        super().__init_subclass__()
        if cls.__module__.startswith(MODULES):
            cls.name = cls.__module__.removeprefix(MODULES)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all of a block's occurrences of the directive; raise CorefileError.  No sockets, no waiting.

        The base class accepts neither arguments nor properties, and uses the first of several occurrences.
        """
        directive = one_of(directives, block.warn)
        no_arguments(directive)
        no_body(directive)
        return cls()

    async def start(self, runtime: Runtime) -> None:
        """Start background work; called once, in ORDER, before the block's sockets are read."""
        self._runtime = runtime

    async def stop(self) -> None:
        """End background work; called once, in ORDER, also when a later plugin's start failed."""

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find those that it works with in the chain; called once, when all blocks are set up; raise CorefileError."""

    def find_peers(self, earlier: Sequence[Plugin]) -> None:
        """Find plugins that it works with among those before it; called in file order, when all blocks are set up."""

    def ready(self) -> bool:
        """Whether /ready may say yes for this plugin (CoreDNS: Readiness)."""
        return True

    def remark(self) -> str:
        """One line for the operator, though it is ready; "" for nothing."""
        return ""

    def inherit(self, old: Plugin) -> bool:
        """Share the running parts of a plugin of the old configuration; True if they are what this plugin would start.

        Called at a reload, before start(), for each pair of plugins with the same name until one returns True.  Either
        may continue: the old plugin if the new configuration fails to start, else the new one; stop() of each gives up
        its share.
        """
        return False

    def files_changed(self) -> bool:
        """Whether a file that only a reload reads has changed since setup; True once for each change.  In a thread."""
        return False


def files_changed(plugins: Iterable[Plugin]) -> bool:
    """Whether files of plugins require a reload, though the Corefile has not changed."""
    # All plugins are called, because each reports a change only once.
    changed = {plugin.files_changed() for plugin in plugins}
    return True in changed


def inherit_plugins(old: Iterable[Plugin], new: Iterable[Plugin]) -> None:
    """Let the plugins of a new configuration, which are not started, inherit from the running ones."""
    running: dict[str, list[Plugin]] = {}
    for known in old:
        running.setdefault(known.name, []).append(known)
    for plugin in new:
        any(plugin.inherit(known) for known in running.get(plugin.name, ()))
