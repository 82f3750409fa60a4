"""Queries as the tap tells them.

Path: tests only.
"""

from __future__ import annotations

from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

ZONES = (Name.from_text("cluster.local."),)
NOW = 5000.0
TURN = Turn(lambda: 0.0)  # one without an end


def seen(
    words: str,
    *,
    client: str = "10.0.0.1",
    time: float = NOW,
    seconds: float = 0.001,
    weight: float = 1.0,
    is_hit: bool = False,
) -> SeenQuery:
    """A query from its name, rcode and type: `web.shop NXDOMAIN AAAA`; A by default, "-" for no reply."""
    name, rcode, *rrtype = words.split()
    return SeenQuery(
        time,
        "dns://:53",
        client,
        "udp",
        Name.from_text(name),
        rrtype[0] if rrtype else "A",
        None if rcode == "-" else rcode,
        seconds,
        is_hit,
        False,
        100,
        weight,
    )
