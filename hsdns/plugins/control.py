"""Opens the control API, the HTTP API for inspecting the running server.

Path: beside the queries; server/control/ creates the pages, server/http/pages.py serves them.
Rule 1: access is limited to the owner of a Unix socket, or on a loopback address to clients with the token.  Only
        `hsdns serve`, which is for tests, may use other addresses (cli/control_path.py).
Rule 2: the token is read at setup, so that each reload reads it again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self

from hsdns.corefile.keys import split_host_port
from hsdns.corefile.properties import read_properties
from hsdns.corefile.tree import Directive, Token
from hsdns.plugin import Block, Plugin, Runtime

MIN_TOKEN: Final = 16  # characters
TOKEN_SYNTAX: Final = (
    f"one word of at least {MIN_TOKEN} ASCII characters, such as that of: openssl rand -hex 32"
)
SYNTAX: Final = 'write "control PATH", or "control 127.0.0.1:PORT TOKENFILE"'


class Control(Plugin):
    """One address of the control API; `address` is as in Runtime.serve_control()."""

    def __init__(self, addresses: Sequence[tuple[str, str | None]]) -> None:
        self.addresses = tuple(addresses)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `control PATH` and `control ADDRESS TOKENFILE`; all directives of a block take effect."""
        read_properties(directives, cls.PROPERTIES)
        return cls([_read(directive, block) for directive in directives])

    async def start(self, runtime: Runtime) -> None:
        """Open the door."""
        for address, token in self.addresses:
            runtime.serve_control(address, token)


def _read(directive: Directive, block: Block) -> tuple[str, str | None]:
    if not 1 <= len(directive.args) <= 2:
        raise directive.error(f'"control" takes 1 or 2 arguments; {SYNTAX}')
    first = directive.args[0]
    host_port = None if "/" in first.text else split_host_port(first.text)
    if len(directive.args) == 1:
        if host_port is not None:
            raise first.error(
                f"any user of this host can connect to {first.text}, so it needs a file with a token; {SYNTAX}"
            )
        return f"unix:{block.path(first.text)}", None
    if host_port is None or not is_loopback(host_port.host):
        raise first.error(
            f'"{first.text}" is not a loopback address and a port; '
            "others must not reach the control API, so write 127.0.0.1:PORT or [::1]:PORT"
        )
    return first.text, _read_token(directive.args[1], block)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_token(text: str) -> bool:
    """Whether a text can be a token: one word of ASCII that nobody guesses by trying."""
    is_word = text.isascii() and text.isprintable() and " " not in text
    return is_word and len(text) >= MIN_TOKEN


def _read_token(word: Token, block: Block) -> str:
    """Read the token of a file that only its owner can access; raise CorefileError."""
    path = Path(block.path(word.text))
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            found = os.fstat(file.fileno())
            text = file.read(4096).strip()
    except OSError as error:
        raise word.error(f"cannot read the token file {path}: {error.strerror}") from None
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or found.st_uid not in (os.geteuid(), 0):
        raise word.error(
            f"the token file {path} must belong to its reader alone; chown it, or chmod 600 {path}"
        )
    if not is_token(text):
        raise word.error(f"the token file {path} needs {TOKEN_SYNTAX}")
    return text
