"""The facts that a rule evaluates: a query and its origin.

Path: handler.py derives it from a request -> rule.py -> selector.py.
Rule: for a connection, and for a query that has not been decoded, the name is the root and the type is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hsdns.chain import Endpoint, Request
from hsdns.wire.name import ROOT, Name

PodOf = Callable[[str], tuple[bytes, str] | None]  # address -> namespace in lower case, and name
TRANSPORTS: Final = ("udp", "tcp", "dot", "doh")
UNKNOWN: Final = (
    "?"  # a transport or destination address that is not known, for example in an explanation
)
_SCHEMES: Final = {"tls": "dot", "https": "doh"}


class Asked(NamedTuple):
    """A query; `local` is its destination address, `server` the listener in the form of metric labels."""

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
        """Return the facts that are known before a query is decoded; the protocol is udp or tcp."""
        over = transport_of(server, protocol)
        return cls(ROOT, 0, over, client, local.address, server, pod_of)

    @classmethod
    def of(cls, request: Request, pod_of: PodOf) -> Asked:
        """Return the facts of a request."""
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


# Stands for a query where conditions need none.
NO_QUERY: Final = Asked(ROOT, 0, UNKNOWN, Endpoint("", 0), UNKNOWN, "", lambda address: None)


def transport_of(server: str, protocol: str) -> str:
    """One of TRANSPORTS."""
    return _SCHEMES.get(server.partition(":")[0], protocol)
