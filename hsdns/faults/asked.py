"""What a rule looks at: a query, and where it came from.

Path: handler.py makes it of a request -> rule.py -> selector.py.
Rule: of a connection, and of a query that has not been read, the name is that of the root, and the type 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hsdns.chain import Endpoint, Request
from hsdns.wire.name import ROOT, Name

PodOf = Callable[[str], tuple[bytes, str] | None]  # address -> namespace in lower case, and name
TRANSPORTS: Final = ("udp", "tcp", "dot", "doh")
UNKNOWN: Final = "?"  # a transport, or an asked address, that an explanation does not know
_SCHEMES: Final = {"tls": "dot", "https": "doh"}


class Asked(NamedTuple):
    """A query; `local` is the address that was asked, `server` the listener in the form of metric labels."""

    qname: Name
    qtype: int
    transport: str
    client: Endpoint
    local: str
    server: str
    pod_of: PodOf

    @classmethod
    def unread(
        cls, server: str, protocol: str, client: Endpoint, local: Endpoint, pod_of: PodOf
    ) -> Asked:
        """What is known before a query is read; the protocol is udp or tcp."""
        over = transport_of(server, protocol)
        return cls(ROOT, 0, over, client, local.address, server, pod_of)

    @classmethod
    def of(cls, request: Request, pod_of: PodOf) -> Asked:
        """What a request asks."""
        query = request.query
        return cls(
            query.qname,
            query.qtype,
            transport_of(request.server, request.protocol),
            request.client,
            request.local.address,
            request.server,
            pod_of,
        )


# In place of a query, for conditions that look at none.
NO_QUERY: Final = Asked(ROOT, 0, UNKNOWN, Endpoint("", 0), UNKNOWN, "", lambda address: None)


def transport_of(server: str, protocol: str) -> str:
    """One of TRANSPORTS."""
    return _SCHEMES.get(server.partition(":")[0], protocol)
