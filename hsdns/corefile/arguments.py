"""Readers for the arguments on a directive's own line that several plugins share.

Path: a plugin's setup, beside read_properties().
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hsdns.corefile.tree import Directive, Token

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[^\[\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")


class HostPort(NamedTuple):
    """An address to listen on; an empty host means all addresses of both families."""

    host: str
    port: int


def optional_argument(directive: Directive) -> Token | None:
    """Return the directive's only argument, or None; raise CorefileError if there are more."""
    if len(directive.args) > 1:
        extra = directive.args[1]
        raise extra.error(
            f'"{directive.name.text}" takes at most 1 argument, found {len(directive.args)}'
        )
    return directive.args[0] if directive.args else None


def split_host_port(text: str) -> HostPort | None:
    """Split `:8080`, `127.0.0.1:8080`, `[::1]:8080` or `localhost:9153`; return None for anything else."""
    found = _HOST_PORT.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        return None
    return HostPort(found["v6"] or found["host"] or "", int(found["port"]))


def listen_address(token: Token) -> str:
    """Check that a word is an address to listen on and return it; raise CorefileError."""
    if split_host_port(token.text) is None:
        raise token.error(
            f'"{token.text}" is not an address and port; write it as ":8080", "127.0.0.1:8080" or "[::1]:8080"'
        )
    return token.text
