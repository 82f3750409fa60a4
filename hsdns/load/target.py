"""The servers that a run loads.

Path: cli/settings.py reads -server -> here -> cli/load.py.
Rule: `NAME=ADDRESS:PORT`; the default name is address and port, the default port is that of -p.

The targets and ceilings of a load test, unless its user allows more:
Rule: an address that is neither loopback nor private is refused unless -i-own-this names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from hsdns.corefile.properties import duration_to_text
from hsdns.load.errors import LoadError
from hsdns.load.schedule import Schedule
from hsdns.wire import printable

MOST_RATE: Final = 100_000.0  # queries per second
MOST_SECONDS: Final = 3600.0
# The highest values of -max-rate and -max-time.
HIGHEST_RATE: Final = 10_000_000
# Loopback, link-local, private (RFC 1918, RFC 4193) and shared address space, which some clouds use (RFC 6598).
_OWN: Final[tuple[IPv4Network | IPv6Network, ...]] = tuple(
    ip_network(each)
    for each in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)  # fmt: skip
FAILING_AFTER: Final = 3  # seconds in which everything failed


def check_target(address: str, owned: Sequence[str]) -> None:
    """Raise LoadError for an address that may not be the user's."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        raise LoadError(
            f'"{address}" is no IP address; -server takes one, such as 127.0.0.1'
        ) from None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    seen = found if mapped is None else mapped
    if any(seen.version == own.version and seen in own for own in _OWN) or address in owned:
        return
    raise LoadError(
        f"{address} is neither loopback nor private: load there is an attack unless the server is yours; "
        f"if it is, add -i-own-this {address}"
    )


def check_schedule(schedule: Schedule, most_rate: float, most_seconds: float) -> None:
    """Raise LoadError for a schedule above the ceilings."""
    if schedule.fastest > most_rate:
        raise LoadError(
            f"-rate: {schedule.fastest:.10g} queries a second are above the ceiling of {most_rate:.10g}; "
            f"-max-rate {schedule.fastest:.10g} lifts it"
        )
    if schedule.seconds > most_seconds:
        length = duration_to_text(schedule.seconds)
        raise LoadError(
            f"-time: {length} is above the ceiling of {duration_to_text(most_seconds)}; -max-time {length} lifts it"
        )


class FailureWatch:
    """Detects a target where everything fails: only lost queries and errors for FAILING_AFTER seconds in a row."""

    def __init__(self) -> None:
        self._failing = 0
        self._seen = -1

    def see(self, second: int, answered_well: int, failed: int) -> bool:
        """Take the counts of a finished second, in order; return whether the run should end."""
        if second <= self._seen:
            return False
        self._seen = second
        if answered_well:
            self._failing = 0
        elif failed:
            self._failing += 1
        return self._failing >= FAILING_AFTER


class Target(NamedTuple):
    """A server; `host` is an address, not a name."""

    name: str
    host: str
    port: int


def read_targets(words: Sequence[str], port: int, owned: Sequence[str]) -> list[Target]:
    """Read the words of -server; raise LoadError, also for addresses that may not be the user's."""
    found: dict[str, Target] = {}
    for word in words:
        name, equals, place = word.rpartition("=")
        host, own_port = _host_and_port(place, port)
        check_target(host, owned)
        name = printable(name) if equals else place_to_text(host, own_port)
        if not name.strip():
            raise LoadError(
                f'-server: "{word}" has an empty name; write NAME=ADDRESS, or only ADDRESS'
            )
        if name in found:
            raise LoadError(
                f'-server: "{name}" is given twice; give each server a name of its own, as NAME=ADDRESS'
            )
        found[name] = Target(name, host, own_port)
    return list(found.values())


def place_to_text(host: str, port: int) -> str:
    """An address and a port as text."""
    return f"{host} port {port}"


def _host_and_port(place: str, port: int) -> tuple[str, int]:
    """An address with an optional port: 127.0.0.1:53, [::1]:53, ::1."""
    host, colon, digits = place.rpartition(":")
    has_port = colon and ((host.startswith("[") and host.endswith("]")) or ":" not in host)
    if not has_port:
        return place.removeprefix("[").removesuffix("]"), port
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 65_536):
        raise LoadError(
            f'-server: "{digits}" in "{place}" is no port; write ADDRESS:PORT with one from 1 to 65535'
        )
    return host.removeprefix("[").removesuffix("]"), int(digits)
