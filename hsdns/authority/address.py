"""Parser for the addresses of primaries and secondaries in the Corefile.

Path: plugins/transfer.py and secondary.py parse their arguments at setup.
Source: CoreDNS 1.14.7 plugin/pkg/parse host.go HostPort.
"""

from __future__ import annotations

from typing import Final

from hsdns.chain import Endpoint
from hsdns.corefile.keys import split_ip_port
from hsdns.corefile.tree import Token

DNS_PORT: Final = 53


def read_endpoint(token: Token) -> Endpoint:
    """Parse `IP`, `IP:PORT` or `[IPV6]:PORT`, with default port 53; raise CorefileError."""
    found = split_ip_port(token.text, DNS_PORT)
    if found is None:
        raise token.error(
            f'"{token.text}" is not an IP address; write it as 192.0.2.1, 192.0.2.1:5300 or [2001:db8::1]:5300'
        )
    return Endpoint(*found)


def is_from(client: Endpoint, addresses: list[str]) -> bool:
    """Whether a client has one of these addresses; the zone of a link-local address is ignored."""
    host = client.address.partition("%")[0]
    return any(host == address.partition("%")[0] for address in addresses)
