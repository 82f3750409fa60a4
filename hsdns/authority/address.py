"""Parser for the addresses of primaries and secondaries in the Corefile.

Path: plugins/transfer.py and secondary.py parse their arguments at setup.
Source: CoreDNS 1.14.7 plugin/pkg/parse host.go HostPort.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from hsdns.chain import Endpoint
from hsdns.corefile.tree import Token

DNS_PORT: Final = 53
_BRACKETED: Final = re.compile(r"\[([^\[\]]+)\](?::([0-9]{1,5}))?")
_WITH_PORT: Final = re.compile(r"([^:]+):([0-9]{1,5})")


def read_endpoint(token: Token) -> Endpoint:
    """Parse `IP`, `IP:PORT` or `[IPV6]:PORT`, with default port 53; raise CorefileError."""
    host, port = token.text, None
    match = _BRACKETED.fullmatch(host) or _WITH_PORT.fullmatch(host)
    if match is not None:
        host, port = match[1], match[2]
    number = DNS_PORT if port is None else int(port)
    try:
        address = str(ip_address(host))
    except ValueError:
        address = ""
    if not address or not 0 < number <= 65535:
        raise token.error(
            f'"{token.text}" is not an IP address; write it as 192.0.2.1, 192.0.2.1:5300 or [2001:db8::1]:5300'
        )
    return Endpoint(address, number)


def endpoint_to_text(endpoint: Endpoint) -> str:
    """Format an endpoint for read_endpoint(), always with the port."""
    address, port = endpoint
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def is_from(client: Endpoint, addresses: list[str]) -> bool:
    """Whether a client has one of these addresses; the zone of a link-local address is ignored."""
    host = client.address.partition("%")[0]
    return any(host == address.partition("%")[0] for address in addresses)
