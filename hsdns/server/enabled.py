"""Exports as a metric which plugins each server block has.

Path: lifecycle.py calls it after a configuration has started to serve.
"""

from __future__ import annotations

from hsdns.assemble import AssembledBlock, Configuration, ServedAddress
from hsdns.metrics import Registry
from hsdns.plugins.prometheus import Prometheus, enable
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
