"""A configuration that a command inspects, without serving it.

Path: cli/names.py, explanation/cli.py, resolver/cli.py -> here -> launch.build() and the runtime of its plugins.
Rule 1: no port is opened and no snapshot is written.
Rule 2: errors of a source go to standard error; standard output belongs to the command.
Rule 3: the Corefile of a cluster is that of its DNS servers, from the ConfigMap.  Where it cannot be read or set up
        here, a warning says so, and the built-in one is used in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from hsdns.assemble import Configuration
from hsdns.cli import launch, source
from hsdns.cli.command import FlagError, complain
from hsdns.cli.source import check_sources, is_cluster, recorded_header
from hsdns.cluster.freshness import NoCounters
from hsdns.corefile.lexer import Source
from hsdns.corefile.mounted import COREFILE, ConfigMap, corefiles
from hsdns.corefile.tree import CorefileError, Token
from hsdns.errors import OperatorError
from hsdns.metrics import Registry
from hsdns.plugin import Plugin
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.runtime import ServerRuntime
from hsdns.sources.api_access import ApiAccess, ConnectionOptions
from hsdns.sources.api_server import ApiServer
from hsdns.sources.replay import Replay

if TYPE_CHECKING:
    from hsdns.apiserver.transport import Transport

WAIT: Final = 10.0  # seconds for the cluster
PORT: Final = 53  # for server blocks that specify none; nothing listens


class CannotTell(OperatorError):
    """A configuration has no result; the message is a sentence for the operator."""


class Problems(logging.Handler):
    """Writes the log of plugins to standard error, and counts the errors."""

    def __init__(self) -> None:
        super().__init__()
        self.errors = 0
        self.sentences: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.errors += record.levelno >= logging.ERROR
        self.sentences.append(record.getMessage())
        complain(self.sentences[-1])


def configure(
    conf: object,
    objects: tuple[Token, ...] | None,
    forward: Sequence[str] = (),
    text: str | None = None,
    *,
    runs_code: bool = True,
) -> tuple[Configuration, Problems]:
    """Set up the Corefile of --conf, or the built-in one, and keep its tree; raise CorefileError or OSError.

    `objects` are the words of --source, `forward` those of --forward; `text` replaces the built-in Corefile.
    """
    problems = Problems()
    log = logging.getLogger("hsdns")
    log.handlers, log.propagate = [problems], False
    log.setLevel(logging.WARNING)
    header = recorded_header(objects)
    if conf is None and text is None and is_cluster(objects):
        found = _of_cluster(objects, runs_code=runs_code)
        if found is not None:
            return found, problems
    default = text or source.corefile(source.LOOPBACK[:1], forward=forward, header=header)
    corefile = source.corefile_source(conf, default).load()
    configuration = launch.build(
        corefile, PORT, warn=log.warning, objects=objects, runs_code=runs_code
    )
    check_sources(configuration)
    return replace(configuration, corefile=corefile), problems


def _of_cluster(objects: tuple[Token, ...], *, runs_code: bool) -> Configuration | None:
    """The Corefile of a cluster's DNS servers, set up; None if there is none, which standard error says.

    Raise CannotTell if the API server accepts no connections.
    """
    from hsdns.apiserver.transport import Away, Unreachable
    from hsdns.sources.cluster_dump import config_maps

    async def read() -> list[dict[str, Any]]:
        transport = connect([each.text for each in objects[1:]], runs_code=runs_code)
        try:
            return await config_maps(transport)
        finally:
            await transport.close()

    try:
        mounted = next(corefiles(list(map(config_map_of, asyncio.run(read())))), None)
        if mounted is None:
            raise Unreachable("no ConfigMap has one")
        corefile = launch.parse_corefile(mounted.source, mounted)
        plugins = {each.name.text for block in corefile.blocks for each in block.directives}
        if "python" in plugins:
            raise Unreachable("it names code, in python")  # others wrote it, for another machine
        if "kubernetes" not in plugins:
            raise Unreachable("it has no kubernetes block")
        return launch.build(
            corefile, PORT, warn=lambda sentence: None, objects=objects, runs_code=runs_code
        )
    except Away as error:
        raise CannotTell(f"the cluster could not be read: {error}") from None
    except (Unreachable, CorefileError) as error:
        complain(f"the Corefile of the cluster's DNS is not used, but a built-in one: {error}")
    return None


def config_map_of(item: Mapping[str, Any]) -> ConfigMap:
    """A ConfigMap of the API, whose values are files called after it."""
    data, metadata = item.get("data"), item.get("metadata")
    values = data.items() if isinstance(data, dict) else ()
    known = metadata if isinstance(metadata, dict) else {}
    space, name = str(known.get("namespace", "")), str(known.get("name", ""))
    sources = {
        key: Source(str(text), f"ConfigMap {space}/{name}{'' if key == COREFILE else f'[{key}]'}")
        for key, text in values
    }
    return ConfigMap(space, name, sources)


def connect(access: Sequence[str], *, runs_code: bool) -> Transport:
    """The client of the API server of FILE and CONTEXT of a kubeconfig, or of this pod's cluster; raise FlagError."""
    made = ApiAccess(ConnectionOptions(kubeconfig=tuple(access), runs_code=runs_code))
    missing = made.check()
    if missing:
        raise FlagError("; ".join(missing))

    def report(level: int, message: str) -> None:
        if level >= logging.WARNING:
            complain(message)

    around: Any = SimpleNamespace(
        random=random.Random(), metrics=Registry(), clock=time.monotonic, wall=time.time
    )
    return made(around, report)


def kubernetes_blocks(configuration: Configuration, within: Sequence[str] = ()) -> list[Kubernetes]:
    """The kubernetes plugins, set to write no snapshots, and with recordings at their end.

    `within` are the namespaces to read of a cluster whose user may not list all of it.
    """
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    for block in blocks:
        block.watch.reads_only = True
        if isinstance(block.source, Replay):
            block.source.at_its_end()
        elif isinstance(block.source, ApiServer):
            block.source.within = tuple(dict.fromkeys(within))
    return blocks


def make_runtime(configuration: Configuration) -> ServerRuntime:
    """The runtime for the plugins of the configuration."""
    return ServerRuntime(configuration, Registry(), NoCounters())


@contextlib.asynccontextmanager
async def started(
    configuration: Configuration, plugins: Sequence[Plugin]
) -> AsyncIterator[ServerRuntime]:
    """Start plugins of a configuration; at the end they stop, with their tasks."""
    runtime = make_runtime(configuration)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(runtime.tasks.cancel)
        stack.push_async_callback(runtime.queries.cancel)
        for plugin in plugins:
            stack.push_async_callback(plugin.stop)
            await plugin.start(runtime)
        yield runtime


@contextlib.asynccontextmanager
async def reading(
    configuration: Configuration, within: Sequence[str], without: Collection[str]
) -> AsyncIterator[tuple[ServerRuntime, list[Kubernetes]]]:
    """Start the plugins but some, and read the clusters as far as may be; `within` as in kubernetes_blocks()."""
    blocks = kubernetes_blocks(configuration, within)
    plugins = [each for each in configuration.plugins if each.name not in without]
    async with started(configuration, plugins) as runtime:
        await read_clusters(runtime, blocks, WAIT)
        say_unread(blocks)
        yield runtime, blocks


async def read_clusters(runtime: ServerRuntime, blocks: Sequence[Kubernetes], limit: float) -> bool:
    """Wait until the clusters of started blocks are read, or cannot be read; return False after `limit` seconds."""

    def is_over() -> bool:
        # The content of files was read when their block started, and a right does not come by waiting.
        unread = [each for each in blocks if not each.store.synced]
        return all(each.source.silence(runtime.clock()) == 0.0 for each in unread)

    return await runtime.wait_until(is_over, limit)


def say_unread(blocks: Sequence[Kubernetes]) -> None:
    """Say on standard error what is not known of clusters that have been read."""
    complain(*dict.fromkeys(filter(None, (each.unread() for each in blocks if each.store.serves))))


async def wait_for_clusters(
    runtime: ServerRuntime,
    blocks: Sequence[Kubernetes],
    *,
    is_whole: bool = True,
    limit: float | None = None,
) -> None:
    """Wait until the clusters of started blocks are read, the whole ones or what may be; raise CannotTell.

    `limit` is in seconds; without one it is WAIT, which tests shorten.
    """
    seconds = WAIT if limit is None else limit
    check_read(
        blocks,
        "" if await read_clusters(runtime, blocks, seconds) else f" within {seconds:g} seconds",
        is_whole=is_whole,
    )


def check_read(blocks: Sequence[Kubernetes], limit: str = "", *, is_whole: bool = False) -> None:
    """Raise CannotTell if a cluster has not been read, the whole one or what may be."""
    for block in blocks:
        rights = block.source.unread() if isinstance(block.source, ApiServer) else ""
        if not block.store.serves or (is_whole and rights):
            why = f": {rights}" if rights else f"{limit}, from {block.source}"
            raise CannotTell(f"the cluster could not be read{why}")
