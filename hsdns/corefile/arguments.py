"""Readers for the arguments on a directive's own line that several plugins share.

Path: a plugin's setup, beside read_properties().
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

from hsdns.corefile.tree import Directive, Token

_HOST_PORT = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::([0-9]{1,5}))?")


class HostPort(NamedTuple):
    """A host, often an address, and a port; to listen on, an empty host means all addresses of both families."""

    host: str
    port: int

    def __str__(self) -> str:
        """Format it with the port: `10.0.0.2:53`, `[2001:db8::1]:53`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def optional_argument(directive: Directive) -> Token | None:
    """Return the directive's only argument, or None; raise CorefileError if there are more."""
    if len(directive.args) > 1:
        extra = directive.args[1]
        raise extra.error(
            f'"{directive.name.text}" takes at most 1 argument, found {len(directive.args)}'
        )
    return directive.args[0] if directive.args else None


def split_host_port(text: str, default: int | None = None) -> HostPort | None:
    """Split `:8080`, `127.0.0.1:8080`, `[::1]:8080` or `localhost:9153`; return None for anything else.

    With a default port also `127.0.0.1`, `::1` and `[::1]`; any text that has no port is a host then.
    """
    found = _HOST_PORT.fullmatch(text)
    host, port = (found[1] or found[2] or "", found[3]) if found is not None else (text, None)
    number = default if port is None else int(port)
    return None if number is None or number > 65535 else HostPort(host, number)


def split_ip_port(text: str, default: int) -> HostPort | None:
    """Split an IP address and a port other than 0, by default `default`; return None for anything else."""
    found = split_host_port(text, default)
    try:
        return HostPort(str(ip_address(found.host)), found.port) if found and found.port else None
    except ValueError:
        return None


def listen_address(directive: Directive, default: str) -> str:
    """Return the directive's only argument, an address to listen on, or the default; raise CorefileError."""
    token = optional_argument(directive)
    if token is None:
        return default
    if split_host_port(token.text) is None:
        raise token.error(
            f'"{token.text}" is not an address and port; write it as ":8080", "127.0.0.1:8080" or "[::1]:8080"'
        )
    return token.text
