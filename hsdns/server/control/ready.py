"""Whether the server is ready, for clients that wait until it answers: /ready.

Path: routes.py -> here -> readiness.py.
Rule: this page needs no token, because probes have none; so it contains only names of plugins.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from hsdns.http_page import Asked, HttpRefusal
from hsdns.readiness import Readiness
from hsdns.server.control.door import Door


async def ready(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Write OK; raise HttpRefusal with status 503 while the server starts, stops, or waits for a source."""
    unready = Readiness.of(door.serving().configuration.plugins).unready
    if unready:
        raise HttpRefusal(503, f"not ready yet: {', '.join(sorted(unready))}")
    yield b"OK\n"
