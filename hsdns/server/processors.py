"""Makes the query processors of a configuration: chains, block choice and answer table of each listener.

Path: lifecycle.py makes them when a configuration starts, and again when the names that handlers answer first change.

Exports as a metric which plugins each server block has.
"""

from __future__ import annotations

from hsdns.assemble import AssembledBlock, Configuration, ServedAddress
from hsdns.chain import Request
from hsdns.fastpath import Versions
from hsdns.metrics import Registry
from hsdns.plugins.prometheus import Prometheus, QueryCounts, enable, panics
from hsdns.query import QueryProcessor
from hsdns.server.answer_tables import SHED_REASONS, make_writer, shed_drops
from hsdns.server.query_tap import QueryTap
from hsdns.server.runtime import ServerRuntime
from hsdns.wire.message import Reply
from hsdns.wire.name import Name


def show_enabled(metrics: Registry, configuration: Configuration) -> None:
    """Export the handlers of each block that has `prometheus`, by server, zone and view."""
    enable(
        metrics,
        {
            (listener.listen.server, zone.to_text(), block.view): [
                handler.name for handler in block.handlers
            ]
            for listener in configuration.listeners
            for zone, blocks in listener.served.items()
            for block in blocks
            if _is_first(block, listener, zone)
            if any(isinstance(plugin, Prometheus) for plugin in block.plugins)
        },
    )


def _is_first(block: AssembledBlock, listener: ServedAddress, zone: Name) -> bool:
    """Return whether a zone is that of a block's first key: as in CoreDNS, only that one is shown as enabled."""
    key = block.keys[0]
    return (key.zone, key.port, key.scheme) == (zone, listener.listen.port, listener.listen.scheme)


def make_processors(
    configuration: Configuration,
    runtime: ServerRuntime,
    counters: Versions,
    counts: QueryCounts,
    queries: QueryTap | None = None,
) -> dict[str, QueryProcessor]:
    """Make the processor of each listener, by the listener's name in metrics.

    `runtime.queries` has the tasks of handlers that wait; `queries` records the answered queries.
    """
    chains = {id(block): runtime.chain_of(block) for block in configuration.blocks}

    def on_refused(request: Request, reply: Reply) -> None:
        counts.count_dropped(request, reply, runtime.clock() - request.now)

    panicked = panics(runtime.metrics)
    debugs = has_debug(configuration)

    _begin_counting_drops(configuration, runtime)
    return {
        listener.listen.server: QueryProcessor(
            listener.listen.server,
            listener.block_choice(chains),
            any_class=listener.any_class,
            on_refused=on_refused,
            on_panic=panicked.inc,
            writer=make_writer(
                listener.listen.server,
                {zone: block.policy for zone, block in listener.zones.items()},
                counters,
                queries,
            ),
            tap=queries,
            late_watch=runtime.late_watch
            if any(each.is_read_by_filters for each in listener.plugins)
            else None,
            stacktrace=debugs
            or any(block.logs_stacks for blocks in listener.served.values() for block in blocks),
        )
        for listener in configuration.listeners
    }


def has_debug(configuration: Configuration) -> bool:
    """Whether any block has `debug`, which applies to the whole process."""
    return any(plugin.debug_mode for plugin in configuration.plugins)


def _begin_counting_drops(configuration: Configuration, runtime: ServerRuntime) -> None:
    """Create a value in the counter of `shed` for each address with a block that has it."""
    drops = shed_drops(runtime.metrics)
    for listener in configuration.listeners:
        if any(plugin.counts_drops for plugin in listener.plugins):
            for reason in SHED_REASONS:
                drops.inc((listener.listen.server, reason), 0)
