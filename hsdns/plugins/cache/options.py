"""The options of `cache`.

Path: plugins/cache parses its directive with them at setup.
Source: CoreDNS 1.14.7 plugin/cache setup.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, choice, duration, flag, integer, one
from hsdns.corefile.tree import Line, Token
from hsdns.wire.name import ROOT, Name

SUCCESS: Final = "success"
DENIAL: Final = "denial"
MIN_TTL: Final = 5  # seconds; plugin/pkg/dnsutil MinimalDefaultTTL; also for SERVFAIL and NOTIMP
LONGEST_TTL: Final = 2**31 - 1  # RFC 2181 section 8
LONGEST_FAILURE: Final = 300.0  # seconds; RFC 2308 section 7.1, RFC 8767 section 5

read_ttl = integer(1, LONGEST_TTL)


def warn_of_durations(zones: Sequence[Token], warn: Callable[[str], None]) -> None:
    """Warn that `cache 30s` names a zone, which is rarely intended: nothing would be cached."""
    for token in zones:
        if re.fullmatch(r"[0-9]{1,9}[smh]", token.text):
            warn(
                f'{token.position}: "{token.text}" is read as a zone, as in CoreDNS; '
                f'a TTL is the first argument and has no unit, as in "cache {int(duration()(token))}"'
            )


class Bounds(NamedTuple):
    """The capacity of a half, and the maximum and minimum TTL in seconds, None for the default."""

    capacity: int
    maximum: int | None = None
    floor: int | None = None


class Disabled(NamedTuple):
    """Zones for which replies of one kind are not cached."""

    kind: str
    zones: tuple[Name, ...]


class Prefetch(NamedTuple):
    """Refresh an entry after `amount` hits less than `gap` seconds apart, when `percent` of its TTL is left."""

    amount: int = 0
    gap: float = 60.0
    percent: int = 10


class Stale(NamedTuple):
    """Serve stale replies for `up_to` seconds after they expire; 0 for never.

    `verify` tries to refresh first, for `timeout` seconds, 0 for no limit.  `ttl` is the TTL of stale replies; after a
    failed refresh the next one is tried after `recheck` seconds.
    """

    up_to: int = 0
    verify: bool = False
    timeout: float = 0.0
    ttl: int = 0
    recheck: float = 0.0


def _read_bounds(line: Line) -> Bounds:
    """Parse `CAPACITY [TTL] [MINTTL]`."""
    args = line.args
    if not 1 <= len(args) <= 3:
        raise line.error(
            f'property "{line.name.text}" takes 1 to 3 arguments (capacity, ttl, least ttl), found {len(args)}'
        )
    return Bounds(
        integer(0)(args[0]),
        read_ttl(args[1]) if len(args) > 1 else None,
        integer(0, LONGEST_TTL)(args[2]) if len(args) > 2 else None,
    )


def _read_disabled(line: Line) -> Disabled:
    """Parse `success|denial [ZONE...]`; without a zone all."""
    if not line.args:
        raise line.error(
            'property "disable" takes "success" or "denial" and then zones, found nothing'
        )
    kind = choice(SUCCESS, DENIAL)(line.args[0])
    return Disabled(kind, zones_from_args(line.args[1:]) or (ROOT,))


def _read_prefetch(line: Line) -> Prefetch:
    """Parse `AMOUNT [DURATION [PERCENT%]]`."""
    args = line.args
    if not 1 <= len(args) <= 3:
        raise line.error(
            f'property "prefetch" takes 1 to 3 arguments (amount, duration, percentage), found {len(args)}'
        )
    found = Prefetch(integer(0)(args[0]))
    if len(args) > 1:
        found = found._replace(gap=duration()(args[1]))
    return found._replace(percent=_read_percent(args[2])) if len(args) > 2 else found


def _read_percent(token: Token) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}%", token.text) or not 10 <= int(token.text[:-1]) <= 90:
        raise token.error(f'"{token.text}" is not a percentage from 10% to 90%')
    return int(token.text[:-1])


def _read_stale(line: Line) -> Stale:
    """Parse `[DURATION] [immediate [TTL [RECHECK]] | verify [TIMEOUT [TTL [RECHECK]]]]`."""
    args = list(line.args)
    found = Stale(up_to=int(duration()(args.pop(0))) if args else 3600)
    if args:
        mode = args.pop(0)
        word = choice("immediate", "verify")(mode._replace(text=mode.text.lower()))
        found = found._replace(verify=word == "verify")
    if args and found.verify:
        found = found._replace(timeout=duration()(args.pop(0)))
    if args:
        found = found._replace(ttl=_read_stale_ttl(args.pop(0)))
    if args:
        found = found._replace(recheck=duration(0.0, LONGEST_FAILURE)(args.pop(0)))
    if args:
        raise args[0].error(f'serve_stale has too many arguments: "{args[0].text}"')
    return found


def _read_stale_ttl(token: Token) -> int:
    seconds = duration(0.0, LONGEST_TTL)(token)
    if seconds != int(seconds):
        raise token.error(f'a TTL must be a whole number of seconds, found "{token.text}"')
    return int(seconds)


def _read_policy(token: Token) -> str:
    return choice("prefer_positive")(token._replace(text=token.text.lower()))


PROPERTIES: Final[dict[str, Property[Any]]] = {
    "success": Property(_read_bounds, syntax="CAPACITY [TTL] [MINTTL]"),
    "denial": Property(_read_bounds, syntax="CAPACITY [TTL] [MINTTL]"),
    "prefetch": Property(
        _read_prefetch, default=Prefetch(), syntax="AMOUNT [DURATION [PERCENTAGE%]]"
    ),
    "serve_stale": Property(
        _read_stale,
        syntax="[DURATION] [immediate [TTL [RECHECK]] | verify [TIMEOUT [TTL [RECHECK]]]]",
    ),
    "serve_stale_policy": Property(
        one(_read_policy), default="", syntax="prefer_positive", repeat="once"
    ),
    "servfail": Property(
        one(duration(0.0, LONGEST_FAILURE)), default=float(MIN_TTL), syntax="DURATION"
    ),
    "disable": Property(_read_disabled, syntax="success|denial [ZONE...]", repeat="collect"),
    "keepttl": Property(flag, default=False),
}
