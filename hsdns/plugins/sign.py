"""Signs master files, and signs them again before the signatures expire; `file` or `auto` serves the result.

Path: beside the chain; authority/signing.py reads, signs and writes.
Source: CoreDNS 1.14.7 plugin/sign; RFC 6781.
Rule 1: a zone is signed if what was signed before is missing, its signature of the SOA record was made more than 6 days
        ago, or ends in less than 7.  It is looked at at the start and every 5 hours.
Rule 2: chance moves both times, so that many zones are not signed at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from hsdns.authority.zone import ZoneError
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, one, read_properties, text
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, Runtime, extra
from hsdns.plugins.dnssec import DAY, EARLIER, KEY, read_keys
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.authority.signing import SigningKey

REFRESH: Final = 5 * 3600  # seconds
AGE: Final = 6 * DAY
LEFT: Final = 7 * DAY
LIFE: Final = 32 * DAY
MORE_EARLIER: Final = 18 * 3600  # seconds, at most
MORE_LIFE: Final = 5 * DAY  # at most
FOLDER: Final = "/var/lib/coredns"
log = logging.getLogger("hsdns.plugin.sign")


class Signed(NamedTuple):
    """A zone, the file with its records, and the one for the signed zone."""

    origin: Name
    source: str
    target: str
    keys: tuple[SigningKey, ...]

    def why(self, now: float) -> str:
        """The reason to sign it, "" if there is none; `now` in seconds since the epoch."""
        from hsdns.authority.signing import soa_signatures  # noqa: PLC0415 - of an extra

        try:
            found = soa_signatures(self.target, self.origin)
        except OSError as error:
            return f"{self.target}: {error.strerror}"
        except ZoneError as error:
            return str(error)
        if not found:
            return f"{self.target} has no signature of the SOA record"
        for inception, expiration in found:
            if now < inception:
                return f"its signature begins at {_time(inception)}, which is in the future"
            if now - inception > AGE:
                return f"its signature begins at {_time(inception)}, which is more than 6 days ago"
            if expiration - now < LEFT:
                return f"its signature ends at {_time(expiration)}, in less than 7 days"
        return ""


class Sign(Plugin):
    """Signs master files."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "key": KEY,
        "directory": Property(one(text), FOLDER, "DIR"),
    }

    def __init__(self, zones: Sequence[Signed]) -> None:
        """Take the zones."""
        self.zones = zones

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read each `sign DBFILE [ZONES...]` and the files of its keys."""
        zones: list[Signed] = []
        for directive in directives:
            options = read_properties([directive], cls.PROPERTIES)
            if not directive.args:
                raise directive.error('"sign" needs a master file, for example db.example.org')
            with extra("dnssec", directive):
                keys = read_keys(options["key"], block)
            if not keys or not all(key.is_ksk for key in keys):
                raise directive.error(
                    "sign needs keys with the SEP bit, as dnssec-keygen -f KSK makes them, and no others"
                )
            folder = block.path(options["directory"])
            zones += (
                Signed(
                    origin,
                    block.path(directive.args[0].text),
                    os.path.join(folder, f"db.{origin.to_text()}signed"),
                    keys,
                )
                for origin in zones_from_args(directive.args[1:]) or block.zones
            )
        return cls(zones)

    async def start(self, runtime: Runtime) -> None:
        """Sign what must be signed, and look again from time to time."""
        await super().start(runtime)
        chance = runtime.random.random
        signers = [
            partial(
                self._sign, zone, EARLIER + MORE_EARLIER * chance(), LIFE + MORE_LIFE * chance()
            )
            for zone in self.zones
        ]

        def sign_all() -> None:
            for each in signers:
                each()

        await runtime.load(sign_all)
        runtime.look_every(REFRESH, sign_all)

    def _sign(self, zone: Signed, earlier: float, life: float) -> None:
        """Sign a zone if there is a reason to; log what became of it."""
        from hsdns.authority.signing import sign_zone  # noqa: PLC0415 - of an extra

        now, origin = self._runtime.wall(), zone.origin.to_text()
        why = zone.why(now)
        if not why:
            log.info(
                'plugin/sign: Skipping signing zone "%s" in "%s": signatures are valid',
                origin,
                zone.target,
            )
            return
        log.info('plugin/sign: Signing "%s" because %s', origin, why)
        validity = int(now - earlier), int(now + life)
        try:
            sign_zone(zone.source, zone.target, zone.origin, zone.keys, int(now), validity)
        except (OSError, ZoneError) as error:
            log.warning(
                'plugin/sign: Error signing "%s": %s; next: %s', origin, error, _time(now + REFRESH)
            )
            return
        log.info(
            'plugin/sign: Successfully signed zone "%s" in "%s" with key tags "%s" and %d SOA serial, next: %s',
            origin,
            zone.target,
            ",".join(str(key.tag) for key in zone.keys),
            int(now),
            _time(now + REFRESH),
        )


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
