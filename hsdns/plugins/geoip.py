"""Provides the place or the network of a client as metadata, from a file in MaxMind's format.

Path: with `metadata`, before the chain; view, template, log and rewrite read the values.
Source: CoreDNS 1.14.7 plugin/geoip, geoip2-golang.
Rule 1: the file is opened at setup and searched when the first label of a query is read.
Rule 2: a label without a value is empty.
Cacheable: yes, because it changes neither queries nor replies; plugins that read the values decide for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import Property, flag, only_once, read_properties
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, extra
from hsdns.wire.message import Query, Reply

if TYPE_CHECKING:
    from maxminddb.reader import Reader

_SUBNET: Final = 8  # the EDNS option of a client subnet (RFC 7871)
_SIZES: Final = {1: 4, 2: 16}  # octets of an address by its family
# Labels, and where their values are.
_PLACE: Final[dict[str, tuple[str, ...]]] = {
    "geoip/city/name": ("city", "names", "en"),
    "geoip/country/name": ("country", "names", "en"),
    "geoip/country/code": ("country", "iso_code"),
    "geoip/country/is_in_european_union": ("country", "is_in_european_union"),
    "geoip/continent/name": ("continent", "names", "en"),
    "geoip/continent/code": ("continent", "code"),
    "geoip/subdivisions/code": ("subdivisions",),
    "geoip/latitude": ("location", "latitude"),
    "geoip/longitude": ("location", "longitude"),
    "geoip/timezone": ("location", "time_zone"),
    "geoip/postalcode": ("postal", "code"),
}
_NETWORK: Final[dict[str, tuple[str, ...]]] = {
    "geoip/asn/number": ("autonomous_system_number",),
    "geoip/asn/org": ("autonomous_system_organization",),
}
_WITHOUT: Final = {"geoip/country/is_in_european_union": False, "geoip/asn/number": 0}
# Words in the type of a file.
_OF_PLACES: Final = ("City", "Country", "Enterprise", "Location")
_OF_NETWORKS: Final = ("ASN", "GeoIP2-ISP", "GeoIP2-Precision-ISP")


class Geoip(Plugin):
    """Provides metadata."""

    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "edns-subnet": Property(flag, default=False, reads=0, stops=True)
    }

    def __init__(
        self, reader: Reader, labels: dict[str, tuple[str, ...]], *, by_subnet: bool = False
    ) -> None:
        """Take the file, its labels, and whether an EDNS client subnet counts instead of the client's address."""
        self._reader, self.labels, self.by_subnet = reader, labels, by_subnet

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `geoip DBFILE`, and open the file."""
        directive = only_once(directives)
        if len(directive.args) != 1:
            raise directive.error(
                f'"geoip" takes one file, such as GeoLite2-City.mmdb, found {len(directive.args)}'
            )
        by_subnet = read_properties(directives, cls.PROPERTIES)["edns-subnet"]
        with extra("geoip", directive):
            import maxminddb  # noqa: PLC0415 - of an extra
        token = directive.args[0]
        try:
            reader = maxminddb.open_database(token.text)
        except OSError as error:
            raise token.error(f"cannot read {token.text}: {error.strerror}") from None
        except maxminddb.InvalidDatabaseError:
            raise token.error(f"{token.text} is not a file in MaxMind's format (.mmdb)") from None
        kind = reader.metadata().database_type
        labels = _PLACE if any(word in kind for word in _OF_PLACES) else {}
        if any(word in kind for word in _OF_NETWORKS):
            labels = labels | _NETWORK
        if not labels:
            raise token.error(f"{token.text} has neither places nor networks, but {kind}")
        if "metadata" not in block.plugins:
            block.warn(
                f"{directive.name.position}: geoip has no effect without metadata in the block; add metadata"
            )
        return cls(reader, labels, by_subnet=by_subnet)

    def metadata(self, request: Request) -> Mapping[str, Callable[[], str]]:
        """What the file says of the client."""
        subnet = _subnet(request.query) if self.by_subnet else None
        find = cache(partial(self._find, subnet or request.client.address.partition("%")[0]))
        return {
            label: partial(_value, find, path, _WITHOUT.get(label, ""))
            for label, path in self.labels.items()
        }

    def _find(self, address: str) -> object:
        try:
            return self._reader.get(address)
        except ValueError:  # an IPv6 address, and a file for IPv4 only
            return None

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on."""
        return await next(request)

    recompute = handle  # this plugin only provides metadata


def _subnet(query: Query) -> str | None:
    """The address of a client subnet, None if there is none."""
    for code, data in query.edns.options if query.edns is not None else ():
        size = _SIZES.get(int.from_bytes(data[:2]))
        if code == _SUBNET and size is not None and len(data) <= 4 + size:
            return str(ip_address(data[4:].ljust(size, b"\0")))
    return None


def _value(find: Callable[[], Any], path: tuple[str, ...], without: object) -> str:
    found = find()
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    if found is None:
        found = without
    if isinstance(found, list):  # subdivisions, the largest first
        return ",".join(each.get("iso_code", "") for each in found)
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, float):
        return format(Decimal(repr(found)), "f").removesuffix(".0")
    return str(found)
