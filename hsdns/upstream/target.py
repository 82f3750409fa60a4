"""Where upstreams are: the TO arguments of `forward`, resolv.conf, and the TLS that they need (RFC 7858, RFC 8484).

Path: plugins/forward.py parses its arguments at setup; upstream/exchange.py connects to the result.
Source: CoreDNS 1.14.7 plugin/pkg/parse host.go and transport.go, plugin/forward setup.go and resolve.go.
Rule 1: a word is an address, else an existing file, else a host name, which plugins/forward.py resolves.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Final, NamedTuple

from hsdns.corefile.keys import HostPort, split_host_port, split_ip_port
from hsdns.corefile.tree import Line, Position, Token
from hsdns.turns import ClientContext
from hsdns.wire.name import ROOT, Name

RESOLV_CONF: Final = "/etc/resolv.conf"


def nameservers(text: str) -> list[str]:
    """Return the addresses of all `nameserver` lines, in order."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            found.append(words[1])
    return found


def search_list(text: str) -> tuple[Name, ...]:
    """Return the domains of the last `search` or `domain` line, in lower case, without invalid names."""
    found: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "search":
            found = words[1:]
        elif len(words) > 1 and words[0] == "domain":
            found = words[1:2]
    names = []
    for word in found:
        try:
            names.append(Name.from_text(word).lowered())
        except ValueError:
            continue
    return tuple(names)


def read_search_list(path: str) -> tuple[Name, ...]:
    """Return the search list of a file, empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return search_list(file.read())
    except OSError:
        return ()


PORTS: Final = {"dns": 53, "tls": 853, "https": 443}
_SCHEME: Final = re.compile(r"([a-z0-9]+)://(.*)")
_LABEL: Final = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
# The last label is not a number, so that a mistyped address is not looked up as a name (RFC 3696 section 2).
_HOST: Final = re.compile(rf"(?!([^.]+\.)*[0-9]+\.?$)({_LABEL}\.)*{_LABEL}\.?")


READ_TIMEOUT: Final = 2.0  # seconds; plugin/forward defaultReadTimeout
EXPIRE: Final = 10.0  # seconds; plugin/forward defaultExpire


class HealthCheck(NamedTuple):
    """The query to probe with, and the seconds between probes."""

    interval: float = 0.5
    recursion_desired: bool = True
    domain: Name = ROOT


class UpstreamSettings(NamedTuple):
    """The properties of `forward` with these names; times in seconds; `max_age` and `max_idle_conns` 0: no limit."""

    expire: float = EXPIRE
    max_age: float = 0.0
    max_idle_conns: int = 0
    read_timeout: float = READ_TIMEOUT
    force_tcp: bool = False
    health_check: HealthCheck = HealthCheck()
    source_address: str | None = None
    doh_method: str = "POST"
    use_caps_for_id: bool = False


class Target(NamedTuple):
    """An upstream's address; `server_name` is the name its certificate must contain, if the Corefile gives one."""

    transport: str  # "dns", "tls" or "https"
    address: str
    port: int
    server_name: str | None = None

    def __str__(self) -> str:
        """Format it for metric labels and error messages: `10.0.0.2:53`, `[2001:db8::1]:53`."""
        return str(HostPort(self.address, self.port))


class HostTarget(NamedTuple):
    """An upstream given by host name, which is resolved at the start."""

    transport: str
    host: str
    port: int
    server_name: str | None
    position: Position

    def at(self, address: str) -> Target:
        """Return the target at one of the host's addresses; over TLS the certificate must contain the host name."""
        name = self.server_name
        if name is None and self.transport != "dns":
            name = self.host.removesuffix(".")
        return Target(self.transport, address, self.port, name)


def read_upstreams(token: Token) -> Sequence[Target | HostTarget]:
    """Parse `IP`, `IP:PORT`, `[IPV6]:PORT` or a host name, optionally with a scheme of PORTS, or a resolv.conf(5) file.

    A file without nameservers gives no targets; raise CorefileError for anything else.
    """
    scheme, rest = "dns", token.text
    with_scheme = _SCHEME.fullmatch(rest)
    if with_scheme is not None:
        scheme, rest = with_scheme[1], with_scheme[2]
        if scheme not in PORTS:
            raise token.error(
                f'"{token.text}": hsdns forwards over dns://, tls:// and https://, not {scheme}://; change the scheme'
            )
        if scheme == "https" and "/" in rest:
            raise token.error(
                f'"{token.text}": the path of an https:// upstream is always /dns-query; remove the path'
            )
    rest, server_name = _without_server_name(scheme, rest)
    address = split_ip_port(rest, PORTS[scheme])
    if address is not None:
        return [Target(scheme, *address, server_name)]
    if with_scheme is None:
        servers = _read_file(token)
        if servers is not None:
            return [_from_line(token, server) for server in servers]
    named = split_host_port(rest, PORTS[scheme])
    if named is None or not named.port or len(named.host) > 253 or not _HOST.fullmatch(named.host):
        raise token.error(
            f'"{token.text}" is not an IP address, a file or a host name; write an address such as "10.0.0.2:53"'
        )
    return [HostTarget(scheme, *named, server_name, token.position)]


def read_address(token: Token) -> Target:
    """Parse `IP` or `IP:PORT` of a plain DNS server; raise CorefileError."""
    found = split_ip_port(token.text, PORTS["dns"])
    if found is None:
        raise token.error(
            f'"{token.text}" is not an IP address; write one such as "10.0.0.2" or "10.0.0.2:53"'
        )
    return Target("dns", *found)


def _from_line(token: Token, server: str) -> Target:
    try:
        return Target("dns", str(ip_address(server)), PORTS["dns"])
    except ValueError:
        raise token.error(
            f'nameserver "{server}" in {token.text} is not an IP address; correct the file'
        ) from None


def _read_file(token: Token) -> list[str] | None:
    """Return the nameservers of a file; None if there is no such file."""
    try:
        with open(token.text, encoding="utf-8", errors="replace") as file:
            return nameservers(file.read())
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise token.error(
            f'cannot read "{token.text}" for its nameservers: {error.strerror}'
        ) from None


def _without_server_name(scheme: str, text: str) -> tuple[str, str | None]:
    """Split off the name that the certificate must contain, if there is one.

    In CoreDNS the zone of an IPv6 address (%NAME) is that name; the port may follow or precede it.
    """
    if scheme == "dns" or "%" not in text:
        return text, None
    text, _, rest = text.rpartition("%")
    name, colon, port = rest.partition(":")
    if name.endswith("]"):
        name, text = name[:-1], f"{text}]"
    return text + colon + port, name


HTTP2 = ("h2",)  # RFC 9113 section 3.2


class TlsFiles(NamedTuple):
    """The files named by a `tls` property."""

    authority: Token | None = None
    certificate: Token | None = None
    key: Token | None = None


def read_tls(line: Line) -> TlsFiles:
    """Parse `tls [CA]`, `tls CERT KEY` or `tls CERT KEY CA`; raise CorefileError."""
    args = line.args
    if len(args) > 3:
        raise args[3].error(f'property "tls" takes up to 3 files (CERT KEY CA), found {len(args)}')
    authority = args[-1] if len(args) in (1, 3) else None
    return TlsFiles(authority, *args[:2]) if len(args) >= 2 else TlsFiles(authority)


def make_context(
    files: TlsFiles = TlsFiles(),  # noqa: B008 - immutable
    path: Callable[[str], str] = str,
    alpn: Sequence[str] = (),
) -> ssl.SSLContext:
    """Make a context that trusts the given CA, else those of this host; raise CorefileError.  `path` resolves names."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    if files.authority is None:
        context.load_default_certs()
    else:
        with _file_errors(files.authority):
            context.load_verify_locations(cafile=path(files.authority.text))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.certificate is not None and files.key is not None:
        with _file_errors(files.certificate):
            context.load_cert_chain(path(files.certificate.text), path(files.key.text))
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


@contextmanager
def _file_errors(token: Token) -> Iterator[None]:
    """Convert errors of a file into CorefileError."""
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or str(error)
        raise token.error(f'cannot use "{token.text}" for TLS: {reason}') from error
