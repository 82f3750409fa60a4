"""Where an upstream is: the TO words of `forward`, read.

Path: plugins/forward.py reads its arguments here at setup; upstream/exchange.py connects to what comes out.
Source: CoreDNS 1.14.7 plugin/pkg/parse host.go and transport.go, plugin/forward setup.go.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final, NamedTuple

from hsdns.corefile.tree import CorefileError, Token
from hsdns.upstream.resolv_conf import nameservers

PORTS: Final = {"dns": 53, "tls": 853}
_SCHEME: Final = re.compile(r"([a-z0-9]+)://(.*)")
_BRACKETED: Final = re.compile(r"\[([^\[\]]+)\](?::([0-9]+))?")
_WITH_PORT: Final = re.compile(r"([^:]+):([0-9]+)")


class Target(NamedTuple):
    """An upstream's address; `server_name` is whom its certificate must name, where the Corefile says so."""

    transport: str  # "dns" or "tls"
    address: str
    port: int
    server_name: str | None = None

    def __str__(self) -> str:
        """The form of metric labels and error sentences: `10.0.0.2:53`, `[2001:db8::1]:53`."""
        return (
            f"[{self.address}]:{self.port}"
            if ":" in self.address
            else f"{self.address}:{self.port}"
        )


def read_targets(token: Token) -> list[Target]:
    """Read `IP`, `IP:PORT`, `[IPV6]:PORT`, with `dns://` or `tls://` in front, or a resolv.conf(5) file.

    A file without nameservers gives none; raise CorefileError for what is neither an address nor a file.
    """
    scheme, rest = "dns", token.text
    with_scheme = _SCHEME.fullmatch(rest)
    if with_scheme is not None:
        scheme, rest = with_scheme[1], with_scheme[2]
        if scheme not in PORTS:
            raise CorefileError(
                token.position,
                f'"{token.text}": hsdns forwards over dns:// and tls://, not {scheme}://; change the scheme',
            )
    target = _parse(scheme, rest)
    if target is not None:
        return [target]
    if with_scheme is not None:
        raise CorefileError(
            token.position, f'"{token.text}" holds no IP address; host names are not looked up here'
        )
    return [_from_line(token, server) for server in _read_file(token)]


def _from_line(token: Token, server: str) -> Target:
    try:
        return Target("dns", str(ip_address(server)), PORTS["dns"])
    except ValueError:
        raise CorefileError(
            token.position,
            f'nameserver "{server}" in {token.text} is not an IP address; correct the file',
        ) from None


def _read_file(token: Token) -> list[str]:
    try:
        with open(token.text, encoding="utf-8", errors="replace") as file:
            return nameservers(file.read())
    except FileNotFoundError:
        raise CorefileError(
            token.position,
            f'"{token.text}" is neither an IP address nor a file; name an address such as "10.0.0.2:53"',
        ) from None
    except OSError as error:
        raise CorefileError(
            token.position, f'cannot read "{token.text}" for its nameservers: {error.strerror}'
        ) from None


def _parse(scheme: str, text: str) -> Target | None:
    """Take address, scope or server name, and port apart; None where there is no address."""
    port: str | None = None
    host = text
    bracketed, with_port = _BRACKETED.fullmatch(text), _WITH_PORT.fullmatch(text)
    if bracketed is not None:
        host, port = bracketed[1], bracketed[2]
    elif with_port is not None:
        host, port = with_port[1], with_port[2]
    server_name = None
    if scheme == "tls" and "%" in host:
        # CoreDNS writes the name that the certificate must bear where others write the scope of an address.
        host, _, server_name = host.partition("%")
    try:
        address = str(ip_address(host))
    except ValueError:
        return None
    number = PORTS[scheme] if port is None else int(port)
    if not 0 < number <= 65535:
        return None
    return Target(scheme, address, number, server_name)
