"""The version, process and configuration of the server: /version and /v1/server.

Path: routes.py -> here -> the serving instance.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, Final

from hsdns import __version__
from hsdns.http_page import Asked
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.door import Door, kubernetes_blocks, to_line
from hsdns.server.instance import Instance
from hsdns.server.runtime import Turn

API: Final = ("v1",)  # all API versions in ROUTES


async def version(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Report program and version; this page is the same in all versions of the API."""
    yield to_line({"server": "hsdns", "version": __version__, "pid": os.getpid(), "api": API})


async def state(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Describe the process and the serving configuration."""
    instance, turn = door.serving(), Turn(door.clock)
    plugins = kubernetes_blocks(instance)
    corefile = instance.configuration.corefile
    found: dict[str, Any] = {
        "version": __version__,
        "pid": os.getpid(),
        "uptime_seconds": round(door.clock() - door.began, 3),
        "corefile": {"path": corefile.path, "digest": corefile.digest},
        "listeners": [],
        "server_blocks": [],
        "kubernetes": [],
    }
    await _describe(instance, found, turn)
    for plugin in plugins:
        found["kubernetes"].append(_source(plugin))
        await turn.end_if_long()
    yield to_line(found)


async def _describe(instance: Instance, found: dict[str, Any], turn: Turn) -> None:
    known = instance.listeners.addresses
    for served in tuple(instance.configuration.listeners):
        listen = served.listen
        found["listeners"].append(
            {
                "server": listen.server,
                "scheme": listen.scheme,
                "host": listen.host,
                "port": known[listen].port if listen in known else listen.port,
                "zones": sorted(zone.to_text() for zone in served.served),
            }
        )
        await turn.end_if_long()
    for block in instance.configuration.blocks:
        found["server_blocks"].append(
            {
                "keys": [key.token.text for key in block.keys],
                "zones": list(dict.fromkeys(key.zone.to_text() for key in block.keys)),
                "listeners": [listen.server for listen in block.listens],
                "plugins": [plugin.name for plugin in block.plugins],
            }
        )
        await turn.end_if_long()


def _source(plugin: Kubernetes) -> dict[str, Any]:
    """A kubernetes block; its last change is the time in its SOA serial, in whole seconds."""
    serial = plugin.store.serial
    changed = datetime.fromtimestamp(serial, UTC).isoformat() if serial else None
    return {
        "zones": [zone.to_text() for zone in plugin.zones],
        "source": str(plugin.source),
        "ready": plugin.ready(),
        "remark": plugin.remark(),
        "services": len(plugin.store.services.values),
        "last_change": changed,
    }
