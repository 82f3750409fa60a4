"""From a configuration's blocks to what answers at each listener.

Path: lifecycle.py makes a processor for each listener when a configuration starts, and anew when claims change.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hsdns.assemble import Configuration, ServedAddress
from hsdns.chain import Request, fold
from hsdns.fastpath import Versions
from hsdns.keeper import Policy
from hsdns.plugins.debug import Debug
from hsdns.plugins.errors import Errors
from hsdns.plugins.prometheus import Prometheus, QueryCounts, panics
from hsdns.query import QueryProcessor
from hsdns.server.answer_tables import make_keeper
from hsdns.server.runtime import ServerRuntime
from hsdns.wire.message import Reply
from hsdns.zones import Zones


def make_processors(
    configuration: Configuration,
    runtime: ServerRuntime,
    counters: Versions,
    counts: QueryCounts,
    fail: Callable[[str], None],
) -> dict[str, QueryProcessor]:
    """Make what answers at each listener, by its name in metrics; `fail` ends the process.

    Handlers that wait do so in `runtime.queries`.
    """
    chains = {}
    for block in configuration.blocks:
        handlers = block.handlers
        for handler, following in pairwise(handlers):
            if isinstance(handler, Prometheus):
                handler.following = following.name
        chains[id(block)] = fold(handlers, runtime.queries.spawn) if handlers else None

    def on_refused(request: Request, reply: Reply) -> None:
        counts.count_dropped(request, reply, runtime.clock() - request.now)

    policies = {id(block): Policy(block.handlers) for block in configuration.blocks}
    panicked = panics(runtime.metrics)

    def on_panic() -> None:
        panicked.inc()
        if has_debug(configuration):
            fail(
                "a handler raised an error and debug is on: ending; remove debug to survive such errors"
            )

    return {
        listener.listen.server: QueryProcessor(
            listener.listen.server,
            Zones({zone: chains[id(block)] for zone, block in listener.zones.items()}),
            any_class=listener.any_class,
            on_refused=on_refused,
            on_panic=on_panic,
            keeper=make_keeper(
                listener.listen.server,
                {zone: policies[id(block)] for zone, block in listener.zones.items()},
                counters,
                counts,
            ),
            entrances=listener.entrances(chains),
            stacktrace=_logs_stacks(listener),
        )
        for listener in configuration.listeners
    }


def has_debug(configuration: Configuration) -> bool:
    """Whether any block has `debug`, which counts for the process."""
    return any(isinstance(plugin, Debug) for plugin in configuration.plugins)


def _logs_stacks(listener: ServedAddress) -> bool:
    return any(
        isinstance(plugin, Errors) and plugin.stacktrace
        for blocks in listener.served.values()
        for block in blocks
        for plugin in block.plugins
    )
