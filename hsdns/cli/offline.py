"""A configuration that a command looks into, without serving it.

Path: cli/names.py, cli/explain.py, cli/resolve.py -> here -> launch.build() and the runtime of its plugins.
Rule 1: no port is opened and no snapshot is written.
Rule 2: what is wrong with a source goes to standard error; standard output is the command's own.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hsdns.assemble import Configuration
from hsdns.cli import builtin, launch
from hsdns.cli.source_flag import check_sources, recorded_header
from hsdns.cluster.freshness import NoCounters
from hsdns.corefile.tree import Token
from hsdns.metrics import Registry
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.runtime import ServerRuntime
from hsdns.sources.replay import Replay

WAIT: Final = 10.0  # seconds for the cluster
PORT: Final = 53  # of server blocks that specify none; nothing listens
DENIED: Final = "the server denies access (403)"  # apiserver/reflector.py


class CannotTell(Exception):
    """Why a configuration has nothing to tell, as a sentence for the operator."""


class Problems(logging.Handler):
    """Writes what plugins log to standard error, and counts the errors."""

    def __init__(self) -> None:
        super().__init__()
        self.errors = 0
        self.sentences: list[str] = []

    @property
    def is_denied(self) -> bool:
        """Whether an API server has denied access, which waiting does not change."""
        return any(DENIED in sentence for sentence in self.sentences)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.errors += record.levelno >= logging.ERROR
        self.sentences.append(record.getMessage())
        print(self.sentences[-1], file=sys.stderr)


def configure(
    conf: object,
    objects: tuple[Token, ...] | None,
    forward: Sequence[str] = (),
    text: str | None = None,
) -> tuple[Configuration, Problems]:
    """Set up the Corefile that -conf names, or the built-in one; raise CorefileError or OSError.

    `objects` are the words of -source, `forward` those of -forward; `text` replaces the built-in Corefile.
    """
    problems = Problems()
    log = logging.getLogger("hsdns")
    log.handlers, log.propagate = [problems], False
    log.setLevel(logging.WARNING)
    header = recorded_header(objects)
    default = text or builtin.corefile(builtin.LOOPBACK[:1], forward=forward, header=header)
    corefile = builtin.corefile_source(conf, default).load()
    configuration = launch.build(corefile, PORT, warn=log.warning, objects=objects)
    check_sources(configuration)
    return configuration, problems


def kubernetes_blocks(configuration: Configuration) -> list[Kubernetes]:
    """The kubernetes plugins, which from now on write no snapshots; recordings are at their end."""
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    for block in blocks:
        block.watch.reads_only = True
        if isinstance(block.source, Replay):
            block.source.at_its_end()
    return blocks


def make_runtime(configuration: Configuration) -> ServerRuntime:
    """What the plugins of the configuration get."""
    runtime = ServerRuntime(
        Registry(),
        NoCounters(),
        reload_if_changed=lambda: asyncio.sleep(0),
        fail=logging.getLogger("hsdns").critical,
    )
    runtime.configuration = configuration
    return runtime


async def read_clusters(
    runtime: ServerRuntime, blocks: Sequence[Kubernetes], is_denied: Callable[[], bool]
) -> bool:
    """Wait until the clusters of blocks that have started are read, or cannot be; return False after WAIT."""

    def is_over() -> (
        bool
    ):  # what files have was read when their block started; waiting does not mend it
        unread = [each for each in blocks if not each.store.synced]
        return is_denied() or all(each.source.silence(runtime.clock()) == 0.0 for each in unread)

    return await runtime.wait_until(is_over, WAIT)


async def wait_for_clusters(
    runtime: ServerRuntime,
    blocks: Sequence[Kubernetes],
    is_denied: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until the clusters of blocks that have started are read, or are denied; raise CannotTell."""
    is_over = await read_clusters(runtime, blocks, is_denied)
    for block in blocks:
        if not block.store.serves:
            limit = "" if is_over else f" within {WAIT:g} seconds"
            raise CannotTell(f"the cluster could not be read{limit}, from {block.source}")
