"""A configuration that a command inspects, without serving it.

Path: cli/names.py, cli/explain.py, cli/resolve.py -> here -> launch.build() and the runtime of its plugins.
Rule 1: no port is opened and no snapshot is written.
Rule 2: errors of a source go to standard error; standard output belongs to the command.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from hsdns.assemble import Configuration
from hsdns.cli import launch, source
from hsdns.cli.command import complain
from hsdns.cli.source import check_sources, recorded_header
from hsdns.cluster.freshness import NoCounters
from hsdns.corefile.tree import Token
from hsdns.errors import OperatorError
from hsdns.metrics import Registry
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.runtime import ServerRuntime
from hsdns.sources.replay import Replay

WAIT: Final = 10.0  # seconds for the cluster
PORT: Final = 53  # for server blocks that specify none; nothing listens
DENIED: Final = "the server denies access (403)"  # apiserver/reflector.py


class CannotTell(OperatorError):
    """A configuration has no result; the message is a sentence for the operator."""


class Problems(logging.Handler):
    """Writes the log of plugins to standard error, and counts the errors."""

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
        complain(self.sentences[-1])


def configure(
    conf: object,
    objects: tuple[Token, ...] | None,
    forward: Sequence[str] = (),
    text: str | None = None,
    *,
    runs_code: bool = True,
) -> tuple[Configuration, Problems]:
    """Set up the Corefile of -conf, or the built-in one; raise CorefileError or OSError.

    `objects` are the words of -source, `forward` those of -forward; `text` replaces the built-in Corefile.
    """
    problems = Problems()
    log = logging.getLogger("hsdns")
    log.handlers, log.propagate = [problems], False
    log.setLevel(logging.WARNING)
    header = recorded_header(objects)
    default = text or source.corefile(source.LOOPBACK[:1], forward=forward, header=header)
    corefile = source.corefile_source(conf, default).load()
    configuration = launch.build(
        corefile, PORT, warn=log.warning, objects=objects, runs_code=runs_code
    )
    check_sources(configuration)
    return configuration, problems


def kubernetes_blocks(configuration: Configuration) -> list[Kubernetes]:
    """The kubernetes plugins, set to write no snapshots, and with recordings at their end."""
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    for block in blocks:
        block.watch.reads_only = True
        if isinstance(block.source, Replay):
            block.source.at_its_end()
    return blocks


def make_runtime(configuration: Configuration) -> ServerRuntime:
    """The runtime for the plugins of the configuration."""
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
    """Wait until the clusters of started blocks are read, or cannot be read; return False after WAIT."""

    def is_over() -> (
        bool
    ):  # the content of files was read when their block started; waiting does not help
        unread = [each for each in blocks if not each.store.synced]
        return is_denied() or all(each.source.silence(runtime.clock()) == 0.0 for each in unread)

    return await runtime.wait_until(is_over, WAIT)


async def wait_for_clusters(
    runtime: ServerRuntime,
    blocks: Sequence[Kubernetes],
    is_denied: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until the clusters of started blocks are read, or access is denied; raise CannotTell."""
    is_over = await read_clusters(runtime, blocks, is_denied)
    for block in blocks:
        if not block.store.serves:
            limit = "" if is_over else f" within {WAIT:g} seconds"
            raise CannotTell(f"the cluster could not be read{limit}, from {block.source}")
