"""Whether the server is ready, for what waits until it may ask: /ready.

Path: routes.py -> here -> readiness.py.
Rule: without the token, since probes have none; so it says no more than names of plugins.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from hsdns.http_page import Asked, HttpRefusal
from hsdns.readiness import Readiness
from hsdns.server.control.door import Door


async def ready(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Write OK; raise HttpRefusal with status 503 while the server starts, ends, or waits for a source."""
    unready = Readiness.of(door.serving().configuration.plugins).unready
    if unready:
        raise HttpRefusal(503, f"not ready yet: {', '.join(sorted(unready))}")
    yield b"OK\n"
