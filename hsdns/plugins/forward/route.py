"""One `forward` directive: the names that it forwards, their upstreams, and the options.

Path: plugins/forward parses its directives here at setup; the upstreams are created at start.
Source: CoreDNS 1.14.7 plugin/forward setup.go.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import (
    Property,
    choice,
    duration,
    duration_to_text,
    flag,
    integer,
    many,
    one,
    read_properties,
    text,
)
from hsdns.corefile.tree import Directive, Line, Token, did_you_mean
from hsdns.plugin import Block
from hsdns.upstream.exchange import (
    EXPIRE,
    POLICIES,
    READ_TIMEOUT,
    HealthCheck,
    Policy,
    Upstream,
    UpstreamSettings,
)
from hsdns.upstream.target import (
    HTTP2,
    HostTarget,
    Target,
    TlsFiles,
    make_context,
    read_address,
    read_tls,
    read_upstreams,
)
from hsdns.wire.iana import Rcode, rcode_from_text
from hsdns.wire.name import Name

ATTEMPTS_PER_UPSTREAM: Final = 2  # plugin/forward defaultConnectAttemptsPerUpstream
MAX_TO: Final = 15  # plugin/forward setup.go: arguments, each of which may give several upstreams
_MORE_RCODES: Final = {"NOTIMPL": Rcode.NOTIMP, "BADSIG": Rcode.BADVERS}  # miekg/dns
_ALPN: Final = {"tls": (), "https": HTTP2}


@dataclass
class Route:
    """The names to forward, their upstreams, and how; start() sets `upstreams` and `policy`."""

    zone: Name
    targets: tuple[Target | HostTarget, ...]
    resolvers: tuple[Target, ...]
    excepted: tuple[Name, ...]
    settings: UpstreamSettings
    prefer_udp: bool
    max_fails: int
    max_attempts: int | None  # None: ATTEMPTS_PER_UPSTREAM for each; 0: no limit
    max_concurrent: int
    failfast: bool
    failover: frozenset[int]
    next_rcodes: frozenset[int]
    next_on_nodata: bool
    policy_name: str
    contexts: dict[str, ssl.SSLContext]  # by transport
    in_flight: int = 0  # queries
    upstreams: tuple[Upstream, ...] = field(default=())
    policy: Policy = field(init=False)

    def matches(self, qname: Name) -> bool:
        """Whether a name is forwarded."""
        if not qname.is_at_or_below(self.zone):
            return False
        return qname == self.zone or not any(qname.is_at_or_below(zone) for zone in self.excepted)

    def protocol(self, client_protocol: str) -> str:
        """The protocol to use: that of the client, unless an option sets another one."""
        if self.settings.force_tcp:
            return "tcp"
        return "udp" if self.prefer_udp else client_protocol

    def attempts(self, upstreams: int) -> float:
        """The number of attempts that may fail for one query, with this number of upstreams."""
        if self.max_attempts is None:
            return ATTEMPTS_PER_UPSTREAM * upstreams
        return self.max_attempts or float("inf")


def _read_health_check(line: Line) -> HealthCheck:
    """Parse `DURATION [no_rec] [domain NAME]`."""
    if not line.args:
        raise line.error('property "health_check" takes a duration such as "0.5s", found nothing')
    check = HealthCheck(duration(0.001)(line.args[0]))
    words = list(line.args[1:])
    while words:
        word = words.pop(0)
        if choice("no_rec", "domain")(word) == "no_rec":
            check = check._replace(recursion_desired=False)
        elif words:
            check = check._replace(domain=zones_from_args((words.pop(0),))[0])
        else:
            raise word.error('word "domain" of health_check takes a name, found nothing')
    return check


def _zones(line: Line) -> tuple[Name, ...]:
    if not line.args:
        raise line.error(f'property "{line.name.text}" takes at least 1 zone, found nothing')
    return zones_from_args(line.args)


def _rcode(token: Token) -> int:
    word = token.text.upper()
    try:
        return _MORE_RCODES.get(word) or rcode_from_text(word)
    except ValueError:
        known = ("SERVFAIL", "NXDOMAIN", "REFUSED", "NOTIMP", "FORMERR", "NOERROR")
        raise token.error(
            f'"{token.text}" is not a response code such as NXDOMAIN{did_you_mean(word, known)}'
        ) from None


def _failover_rcode(token: Token) -> int:
    rcode = _rcode(token)
    if rcode == Rcode.NOERROR:
        raise token.error(
            "NOERROR is a success and cannot be failed over; use next_on_nodata for empty replies"
        )
    return rcode


def _read_source(token: Token) -> str:
    try:
        return str(ip_address(token.text))
    except ValueError:
        raise token.error(
            f'"{token.text}" is not an IP address; write one without a port'
        ) from None


_SECONDS: Final = duration()
PROPERTIES: Final[dict[str, Property[Any]]] = {
    "except": Property(_zones, syntax="ZONE...", repeat="extend"),
    "force_tcp": Property(flag, default=False),
    "prefer_udp": Property(flag, default=False),
    "use_caps_for_id": Property(flag, default=False),
    "expire": Property(one(_SECONDS), default=EXPIRE, syntax="DURATION"),
    "max_age": Property(one(_SECONDS), default=0.0, syntax="DURATION"),
    "max_idle_conns": Property(one(integer(0)), default=0, syntax="COUNT"),
    "read_timeout": Property(one(duration(0.001)), default=READ_TIMEOUT, syntax="DURATION"),
    "max_fails": Property(one(integer(0, 2**32 - 1)), default=2, syntax="COUNT"),
    "max_connect_attempts": Property(one(integer(0, 2**32 - 1)), syntax="COUNT"),
    "max_concurrent": Property(one(integer(0)), default=0, syntax="COUNT"),
    "policy": Property(one(choice(*POLICIES)), default="random", syntax="|".join(POLICIES)),
    "health_check": Property(
        _read_health_check, default=HealthCheck(), syntax="DURATION [no_rec] [domain NAME]"
    ),
    "failfast_all_unhealthy_upstreams": Property(flag, default=False),
    "failover": Property(many(_failover_rcode), syntax="RCODE...", repeat="extend"),
    "next": Property(many(_rcode), syntax="RCODE...", repeat="extend"),
    "next_on_nodata": Property(flag, default=False),
    "tls": Property(read_tls, default=TlsFiles(), syntax="[CA] | CERT KEY [CA]"),
    "tls_servername": Property(one(text), syntax="NAME"),
    "doh_method": Property(one(choice("POST", "GET")), default="POST", syntax="POST|GET"),
    "source_address": Property(one(_read_source), syntax="IP"),
    "resolver": Property(many(read_address), default=(), syntax="IP[:PORT]..."),
}


def read_route(directive: Directive, block: Block) -> Route:
    """Parse `forward FROM TO...` and its properties; raise CorefileError."""
    position = directive.name.position
    if len(directive.args) < 2:
        raise position.error(
            '"forward" takes a zone and at least one upstream, such as "forward . 10.0.0.2"'
        )
    from_token, *to_tokens = directive.args
    zones = zones_from_args((from_token,))
    if len(zones) > 1:
        block.warn(
            f'{from_token.position}: "{from_token.text}" stands for {len(zones)} zones, but forward only uses '
            f"{zones[0].to_text()}; write one forward for each"
        )
    options = read_properties((directive,), PROPERTIES)
    if 0 < options["max_age"] < options["expire"]:
        raise position.error(
            f"max_age {duration_to_text(options['max_age'])} is less than expire "
            f"{duration_to_text(options['expire'])}; increase max_age or reduce expire"
        )
    targets = _read_targets(to_tokens)
    source = options["source_address"]
    for target in targets:
        if isinstance(target, HostTarget):
            continue
        if options["tls_servername"] is not None and target.server_name is not None:
            raise position.error(
                f'"tls_servername {options["tls_servername"]}" and "%{target.server_name}" both name the server of '
                f"{target}; remove one of them"
            )
        if source is not None and (":" in source) != (":" in target.address):
            block.warn(
                f"{position}: {target} cannot be reached from source_address {source}, which is of another address "
                "family; remove one of them"
            )
    return Route(
        zone=zones[0],
        targets=tuple(
            target
            if options["tls_servername"] is None
            else target._replace(server_name=options["tls_servername"])
            for target in targets
        ),
        resolvers=options["resolver"],
        excepted=tuple(options["except"]),
        settings=UpstreamSettings(
            expire=options["expire"],
            max_age=options["max_age"],
            max_idle=options["max_idle_conns"],
            read_timeout=options["read_timeout"],
            force_tcp=options["force_tcp"],
            check=options["health_check"],
            source=source,
            doh_method=options["doh_method"],
            use_caps_for_id=options["use_caps_for_id"],
        ),
        prefer_udp=options["prefer_udp"],
        max_fails=options["max_fails"],
        max_attempts=options["max_connect_attempts"],
        max_concurrent=options["max_concurrent"],
        failfast=options["failfast_all_unhealthy_upstreams"],
        failover=frozenset(options["failover"]),
        next_rcodes=frozenset(options["next"]),
        next_on_nodata=options["next_on_nodata"],
        policy_name=options["policy"],
        contexts=_contexts(options["tls"], block, {target.transport for target in targets}),
    )


def _contexts(files: TlsFiles, block: Block, transports: set[str]) -> dict[str, ssl.SSLContext]:
    """The TLS contexts of the transports; the files are read even if none is needed, to detect invalid ones."""
    if files != TlsFiles():
        make_context(files, block.path)
    return {
        transport: make_context(files, block.path, alpn)
        for transport, alpn in _ALPN.items()
        if transport in transports
    }


def _read_targets(tokens: list[Token]) -> list[Target | HostTarget]:
    """Parse the TO arguments; of upstreams with the same address and port the first one counts."""
    read = [(token, read_upstreams(token)) for token in tokens]
    words = [token for token, found in read if found]
    if not words:
        raise tokens[0].error(
            f'"{tokens[0].text}" contains no upstream; add a nameserver to the file, or write an address'
        )
    if len(words) > MAX_TO:
        raise words[MAX_TO].error(
            f"forward takes at most {MAX_TO} upstreams, found {len(words)}; remove some"
        )
    targets: dict[str, Target | HostTarget] = {}
    for _, found in read:
        for target in found:
            targets.setdefault(str(target), target)
    return list(targets.values())
