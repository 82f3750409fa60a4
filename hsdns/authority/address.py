"""Addresses of primaries and secondaries, as the Corefile writes them.

Path: plugins/transfer.py and secondary.py read their arguments here.
Source: CoreDNS 1.14.7 plugin/pkg/parse host.go HostPort.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from hsdns.chain import Endpoint
from hsdns.corefile.tree import CorefileError, Token

DNS_PORT: Final = 53
_BRACKETED: Final = re.compile(r"\[([^\[\]]+)\](?::([0-9]{1,5}))?")
_WITH_PORT: Final = re.compile(r"([^:]+):([0-9]{1,5})")


def read_endpoint(token: Token) -> Endpoint:
    """Read `IP`, `IP:PORT` or `[IPV6]:PORT`; raise CorefileError.  The port is 53 where there is none."""
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
        raise CorefileError(
            token.position,
            f'"{token.text}" is no IP address; write it as 192.0.2.1, 192.0.2.1:5300 or [2001:db8::1]:5300',
        )
    return Endpoint(address, number)


def endpoint_to_text(endpoint: Endpoint) -> str:
    """The form that read_endpoint() reads, always with the port."""
    address, port = endpoint
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def is_from(client: Endpoint, addresses: list[str]) -> bool:
    """Tell whether a client has one of some addresses; the scope of a link-local one does not count."""
    host = client.address.partition("%")[0]
    return any(host == address.partition("%")[0] for address in addresses)
