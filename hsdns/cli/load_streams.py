"""The flags of `hsdns load` for the transport of queries, and the settings that they define.

Path: cli/load_flags.py -> here -> load/stream_plan.py.
Rule: a flag that has no effect with a transport is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hsdns.cli.flags import Flag, FlagError, read_time
from hsdns.corefile.tree import did_you_mean
from hsdns.load.stream_plan import (
    DOH,
    DOT,
    GET,
    PATH,
    PORTS,
    POST,
    STAYS,
    TCP,
    TRANSPORTS,
    UDP,
    StreamPlan,
)

Flags = Mapping[str, str | int | bool | list[str]]

_DEFAULTS: Final = StreamPlan()


def _number(text: str, high: int) -> Flag:
    return Flag(int, text, "NUMBER", what="number", low=1, high=high)


FLAGS: Final = {
    "transport": Flag(str, "how queries travel: udp (default), tcp, dot or doh", "NAME"),
    "retry-tcp": Flag(bool, "ask again over TCP where an answer over UDP is truncated"),
    "connections": _number(f"connections at once at most (default {_DEFAULTS.connections})", 100_000),
    "queries-per-connection": _number("queries on a connection, 1 for a new one each (default: any number)", 10**9),
    "pipeline": _number(f"queries in flight on a connection (default {_DEFAULTS.pipeline})", 60_000),
    "idle": Flag(str, "close a connection that has been idle for so long (default: it stays open)", "TIME"),
    "tls-ca": Flag(str, "file of the certificates to trust (default: those of this machine)", "FILE"),
    "tls-name": Flag(str, "name that the certificate must have (default: the address)", "NAME"),
    "tls-insecure": Flag(bool, "trust any certificate"),
    "doh-path": Flag(str, f"path of the URL for DNS over HTTPS (default {PATH})", "PATH"),
    "doh-method": Flag(str, "post (default) or get", "METHOD"),
}  # fmt: skip

_ANY: Final = (TCP, DOT, DOH)
# Flags of connections, and their transports.
_FOR: Final = {
    **dict.fromkeys(("connections", "queries-per-connection", "pipeline", "idle"), _ANY),
    **dict.fromkeys(("tls-ca", "tls-name", "tls-insecure"), (DOT, DOH)),
    **dict.fromkeys(("doh-path", "doh-method"), (DOH,)),
}


def default_port(flags: Flags) -> int:
    """The port of the transport; raise FlagError."""
    return PORTS[_transport(flags)]


def read_streams(flags: Flags) -> StreamPlan | None:
    """Read the flags; None for UDP only.  Raise FlagError."""
    transport = _transport(flags)
    falls = bool(flags.get("retry-tcp"))
    if falls and transport != UDP:
        raise FlagError(
            f"-retry-tcp is for answers over UDP, and -transport is {transport}; leave one of them out"
        )
    if transport != UDP and "sockets" in flags:
        raise FlagError(
            f"-sockets is for UDP, and -transport is {transport}; -connections says how many there are"
        )
    used = TCP if falls else transport
    for name, transports in _FOR.items():
        if flags.get(name) and used not in transports:
            needed = " or ".join(transports)
            more = ", or -retry-tcp" if transports is _ANY else ""
            raise FlagError(f"-{name} needs -transport {needed}{more}")
    if transport == UDP and not falls:
        return None
    insecure = bool(flags.get("tls-insecure"))
    if insecure and "tls-ca" in flags:
        raise FlagError(
            "-tls-insecure trusts any certificate, -tls-ca only some; leave one of them out"
        )
    return StreamPlan(
        used,
        int(str(flags.get("connections", _DEFAULTS.connections))),
        int(str(flags.get("pipeline", _DEFAULTS.pipeline))),
        int(str(flags.get("queries-per-connection", 0))),
        _idle(flags),
        str(flags.get("tls-ca", "")),
        str(flags.get("tls-name", "")),
        insecure,
        _path(str(flags.get("doh-path", PATH))),
        _method(str(flags.get("doh-method", POST))),
        falls,
    )


def _transport(flags: Flags) -> str:
    text = str(flags.get("transport", UDP))
    if text not in TRANSPORTS:
        meant = did_you_mean(text, TRANSPORTS) or "; there are udp, tcp, dot and doh"
        raise FlagError(f'-transport: "{text}" is none{meant}')
    return text


def _idle(flags: Flags) -> int:
    seconds = read_time(flags, "idle", None, is_zero=True)
    return STAYS if seconds is None else round(seconds * 1e9)


def _path(text: str) -> str:
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or " " in text:
        raise FlagError(f'-doh-path needs a path such as {PATH}, found "{text}"')
    if "{" in text:
        raise FlagError(
            f'-doh-path: leave {text[text.index("{") :]} out of "{text}"; the query is added where it belongs'
        )
    return text


def _method(text: str) -> str:
    if text.lower() not in (GET, POST):
        raise FlagError(f'-doh-method needs post or get, found "{text}"')
    return text.lower()
