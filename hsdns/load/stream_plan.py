"""The plan of a load over connections, for the process that sends.

Path: load_flags.py reads the flags -> here, in plan.py -> stream_process.py.
Rule: without -tls-name, the certificate is verified for the server's address.
"""

from __future__ import annotations

from typing import Final

import msgspec

UDP: Final = "udp"
TCP: Final = "tcp"
DOT: Final = "dot"
DOH: Final = "doh"
TRANSPORTS: Final = {UDP: "UDP", TCP: "TCP", DOT: "DNS over TLS", DOH: "DNS over HTTPS"}
PORTS: Final = {UDP: 53, TCP: 53, DOT: 853, DOH: 443}
GET: Final = "get"
POST: Final = "post"
PATH: Final = "/dns-query"
STAYS: Final = -1  # an idle connection stays open


class StreamPlan(msgspec.Struct, frozen=True):
    """Connections over `transport`.

    At most `connections` at once, `pipeline` queries in flight on each, `queries` on each in all (0: any number), and
    `idle` nanoseconds until one without a query in flight is closed (STAYS: it stays open; with `queries`, 0).
    `for_truncated`: only UDP queries with a truncated answer are sent over them.
    """

    transport: str = TCP
    connections: int = 20
    pipeline: int = 100
    queries: int = 0
    idle: int = STAYS
    tls_ca: str = ""
    tls_name: str = ""
    tls_insecure: bool = False
    path: str = PATH
    method: str = POST
    for_truncated: bool = False

    @property
    def is_encrypted(self) -> bool:
        """Whether the connections use TLS."""
        return self.transport in (DOT, DOH)


def transport_words(streams: StreamPlan | None) -> str:
    """The transport of a load, as text."""
    if streams is None:
        return TRANSPORTS[UDP]
    if streams.for_truncated:
        return f"{TRANSPORTS[UDP]} (TCP for what is truncated)"
    return TRANSPORTS[streams.transport]


def authority(host: str, port: int) -> str:
    """The authority of a URL: host, and the port unless it is that of HTTPS."""
    name = f"[{host}]" if ":" in host else host
    return name if port == PORTS[DOH] else f"{name}:{port}"
