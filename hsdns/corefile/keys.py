"""Parser for the keys of server blocks and the zone arguments of plugins.

Path: parser (checks, warnings), assemble (listeners and zones), every plugin that takes zones.
Rule 1: a zone is a lower-case absolute Name; `10.0.0.0/22` stands for the reverse zones that cover it.
Rule 2: every zone that CoreDNS accepts is accepted; zone_warning() reports probable mistakes.
Source: SplitHostPort in plugin/normalize.go, core/dnsserver/register.go and onstartup.go, plugin/pkg/cidr/cidr.go of
CoreDNS 1.14.7.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from hsdns.corefile.tree import Directive, Line, Token, did_you_mean
from hsdns.wire.name import ROOT, Name

# Default port of each scheme; None: the port of the command line (-dns.port).
SCHEMES: Final[dict[str, int | None]] = {
    "dns": None,
    "tls": 853,
    "quic": 853,
    "grpc": 443,
    "https": 443,
    "https3": 443,
}
MAX_ZONE_TEXT: Final = 255  # characters, as plugin/normalize.go counts them

_SCHEME: Final = re.compile(r"(dns|tls|quic|grpc|https3|https|unix)://")
_PORT: Final = re.compile(r"[+-]?[0-9]+")
_PREFERRED: Final = re.compile(r"([A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+")


class Key(NamedTuple):
    """A zone that a server block serves, with scheme and port."""

    scheme: str
    zone: Name
    port: int
    token: Token


def parse_key(token: Token, default_port: int) -> list[Key]:
    """Parse `[scheme://]zone[:port]`; a CIDR zone may give several keys; raise CorefileError."""
    scheme, rest = _split_scheme(token.text)
    if scheme == "unix":
        raise token.error(
            f'"{token.text}": a server cannot listen on a unix socket; schemes are {", ".join(SCHEMES)}'
        )
    zone_text, port = _split_port(token, rest)
    if port is None:
        port = SCHEMES[scheme] or default_port
    return [Key(scheme, zone, port, token) for zone in _expand(token, zone_text)]


def read_fallthrough(line: Line) -> tuple[Name, ...]:
    """Parse the zones whose unknown names are passed on, of `fallthrough [ZONES...]`; without a zone all."""
    return zones_from_args(line.args) or (ROOT,)


def read_name(token: Token) -> Name:
    """Parse a domain name, and return it in lower case; raise CorefileError."""
    try:
        return Name.from_text(token.text).lowered()
    except ValueError as error:
        raise token.error(f'"{token.text}" is not a name: {error}') from None


def zones_from_args(tokens: Sequence[Token]) -> tuple[Name, ...]:
    """Parse a plugin's zone arguments; schemes and ports are ignored, as in CoreDNS; raise CorefileError."""
    zones: list[Name] = []
    for token in tokens:
        zone_text, _ = _split_port(token, _split_scheme(token.text)[1])
        zones.extend(_expand(token, zone_text))
    return tuple(zones)


def zone_warning(key: Key) -> str | None:
    """Return a warning if the zone is neither a host name (RFC 1035 section 2.3.1) nor a reverse zone, else None."""
    zone = key.zone.to_text()
    if zone == "." or zone.endswith((".in-addr.arpa.", ".ip6.arpa.")) or _PREFERRED.fullmatch(zone):
        return None
    return f'zone "{zone}" does not follow the preferred syntax of RFC 1035{_hint(key.token.text)}'


def _hint(text: str) -> str:
    scheme, mark, _ = text.partition("://")
    if mark and scheme not in SCHEMES:
        return f'; "{scheme}" is not a scheme{did_you_mean(scheme.lower(), SCHEMES)}'
    if text.startswith("}"):
        return '; is this "}" superfluous?'
    if text.endswith(("{", "}")):
        return f'; put a space before the "{text[-1]}"'
    if ":" in text:
        return f'; "{text.rpartition(":")[2]}" is not a port number'
    if "," in text:
        return "; put a space after the comma"
    if text.startswith("("):
        return "; is this meant to be a snippet?"
    return ""


def _split_scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.match(text)
    return (found[1], text[found.end() :]) if found else ("dns", text)


def _split_port(token: Token, text: str) -> tuple[str, int | None]:
    """Split off `:port`; a colon that is not followed by a number belongs to the zone."""
    if not text:
        raise token.error(f'"{token.text}" names no zone; the root zone is "."')
    zone_text, colon, digits = text.rpartition(":")
    if colon and not digits:
        raise token.error(f'"{token.text}" ends in a colon; add a port or remove the colon')
    if not colon or not _PORT.fullmatch(digits):
        return text, None
    # int() is slow for very long numbers, and refuses them above its own limit.
    port = int(digits) if len(digits) <= 20 else -1
    if not 0 <= port <= 65535:
        raise token.error(f'"{digits}" in "{token.text}" is not a port; ports are 0 to 65535')
    if not zone_text:
        raise token.error(
            f'"{token.text}" names no zone; the root zone is ".", so write ".:{port}"'
        )
    return zone_text, port


def _expand(token: Token, text: str) -> list[Name]:
    shown = text if len(text) <= 60 else text[:57] + "..."
    if len(text.encode("utf-8", "surrogatepass")) > MAX_ZONE_TEXT:
        raise token.error(f'zone "{shown}" is longer than {MAX_ZONE_TEXT} characters; shorten it')
    reverse = _reverse_zones(token, text)
    if reverse is not None:
        return reverse
    try:
        return [Name.from_text(text).lowered()]
    except ValueError as error:
        raise token.error(f'"{shown}" is not a domain name: {_reason(error, text)}') from None


def _reason(error: ValueError, text: str) -> str:
    if isinstance(error, UnicodeError):
        return "it contains characters that are not valid Unicode"
    if text.endswith("{"):
        return 'put a space before the "{"'
    if ".." in text or text.startswith("."):
        return "a label is empty; remove a dot"
    return str(error)


def _reverse_zones(token: Token, text: str) -> list[Name] | None:
    """Return a CIDR's zones, split at octets (IPv4) or nibbles (IPv6); None if the text is not a CIDR."""
    address_text, slash, bits_text = text.partition("/")
    if not slash or not re.fullmatch("[0-9]{1,8}", bits_text):
        return None
    try:
        address: IPv4Address | IPv6Address
        address = IPv6Address(address_text) if ":" in address_text else IPv4Address(address_text)
    except AddressValueError:
        return None
    bits = int(bits_text)
    if bits > address.max_prefixlen or "%" in address_text:
        return None
    if isinstance(address, IPv6Address) and address_text[0] in ":0":
        raise token.error(
            f'"{text}" is not a reverse zone; an IPv6 network may not begin with ":" or "0"'
        )
    step, origin = (8, "in-addr.arpa.") if isinstance(address, IPv4Address) else (4, "ip6.arpa.")
    digits = -(-bits // step)
    network = int(address) >> (address.max_prefixlen - bits) << (digits * step - bits)
    return [
        _reverse_zone(network + offset, digits, step, origin)
        for offset in range(1 << (digits * step - bits))
    ]


def _reverse_zone(network: int, digits: int, step: int, origin: str) -> Name:
    mask = (1 << step) - 1
    labels = [
        f"{network >> (step * place) & mask:{'d' if step == 8 else 'x'}}" for place in range(digits)
    ]
    return Name.from_text(".".join([*labels, origin]))


# Readers for the arguments on a directive's own line that several plugins share.


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


def read_ip(token: Token) -> str:
    """Read an IP address; raise CorefileError."""
    try:
        return str(ip_address(token.text))
    except ValueError:
        raise token.error(
            f'"{token.text}" is not an IP address; write one without a port'
        ) from None


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
