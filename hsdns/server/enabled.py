"""Show on /metrics which plugins each server block has.

Path: lifecycle.py calls it when a configuration serves.
"""

from __future__ import annotations

from hsdns.assemble import AssembledBlock, Configuration, ServedAddress
from hsdns.metrics import Registry
from hsdns.plugins.prometheus import Prometheus, enable
from hsdns.wire.name import Name


def show_enabled(metrics: Registry, configuration: Configuration) -> None:
    """Show the handlers of each block that has `prometheus`, by server, zone and view."""
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
    """Tell whether a block's first key names a zone there: as in CoreDNS, only that one is shown as enabled."""
    key = block.keys[0]
    return (key.zone, key.port, key.scheme) == (zone, listener.listen.port, listener.listen.scheme)
