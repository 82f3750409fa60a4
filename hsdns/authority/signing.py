"""DNSSEC keys and signatures, on dnspython and cryptography, which the extra `dnssec` installs.

Path: plugins/dnssec.py signs replies with it, plugins/sign.py zones.
Source: RFC 4034; the files of keys are those of BIND's dnssec-keygen, as miekg/dns reads them.
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import dns.dnssec
import dns.exception
import dns.name
import dns.rdata
import dns.rrset
import dns.zone
import dns.zonefile
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from dns.dnssectypes import Algorithm
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.DNSKEY import DNSKEY

from hsdns.authority.zone import ZoneError
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name

TTL: Final = 3600  # seconds, of a key whose file has none
_MADE: Final = frozenset({
    RdataType.DNSKEY, RdataType.CDNSKEY, RdataType.CDS, RdataType.RRSIG, RdataType.NSEC,
})  # fmt: skip
_ZONE_KEY, _SEP = 0x100, 0x1  # flags (RFC 4034 section 2.1.1)
_CURVES: Final = {
    Algorithm.ECDSAP256SHA256: ec.SECP256R1(),
    Algorithm.ECDSAP384SHA384: ec.SECP384R1(),
}
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class BadKey(ValueError):
    """A file has no key, or not the one that it should have; the message is a sentence for the operator."""


class SigningKey(NamedTuple):
    """A key pair: the zone that its file names, its DNSKEY record and the private key."""

    owner: Name
    ttl: int  # seconds
    public: DNSKEY
    private: PrivateKey

    @property
    def tag(self) -> int:
        """The key tag (RFC 4034 appendix B)."""
        return dns.dnssec.key_id(self.public)

    @property
    def is_ksk(self) -> bool:
        """A key for keys: a zone key with the SEP bit."""
        return self.public.flags & (_ZONE_KEY | _SEP) == _ZONE_KEY | _SEP

    @property
    def is_zsk(self) -> bool:
        """A key for zones: without the SEP bit."""
        return self.public.flags & (_ZONE_KEY | _SEP) == _ZONE_KEY

    def record(self, zone: Name) -> RR:
        """The DNSKEY record at the apex of a zone."""
        return RR(zone, RRType.DNSKEY, self.ttl, _wire(self.public))


def read_key(path: str) -> SigningKey:
    """Read `Kzone.+alg+tag.key` and `.private`, named with or without the ending; raise OSError or BadKey."""
    path = path.removesuffix(".key").removesuffix(".private")
    with open(f"{path}.key", encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        found = dns.zonefile.read_rrsets(
            text, rdclass=None, default_ttl=TTL, origin=dns.name.root, relativize=False
        )
    except dns.exception.DNSException as error:
        raise BadKey(f"{path}.key is not a record: {error}") from None
    if not found or not isinstance(found[0][0], DNSKEY):
        raise BadKey(f"{path}.key has no DNSKEY record")
    owner, public = found[0].name, found[0][0]
    with open(f"{path}.private", encoding="utf-8", errors="replace") as file:
        fields = dict(line.split(": ", 1) for line in file.read().splitlines() if ": " in line)
    try:
        private = _private_key(public.algorithm, fields)
        own = dns.dnssec.make_dnskey(private.public_key(), public.algorithm)
    except KeyError as error:
        raise BadKey(f"{path}.private has no line {error.args[0]}") from None
    except ValueError as error:
        raise BadKey(
            f"{path}.private has no key of algorithm {public.algorithm}: {error}"
        ) from None
    if own.key != public.key:
        raise BadKey(f"{path}.private is not the private key of {path}.key")
    return SigningKey(Name(owner.to_wire() or b"\0").lowered(), found[0].ttl, public, private)


def sign(
    records: Sequence[RR],
    ttl: int,
    signer: Name,
    keys: Iterable[SigningKey],
    validity: tuple[int, int],
) -> list[bytes]:
    """RDATA of the RRSIG records of an RRset, one for each key.

    `ttl` is its original one, in seconds, `validity` begin and end in seconds since the epoch.
    """
    first = records[0]
    rdclass, rdtype = RdataClass.make(first.rrclass), RdataType.make(first.rrtype)
    rrset = dns.rrset.from_rdata_list(
        dns.name.from_wire(first.owner.wire, 0)[0],
        ttl,
        [dns.rdata.from_wire(rdclass, rdtype, rr.rdata, 0, len(rr.rdata)) for rr in records],
    )
    zone = dns.name.from_wire(signer.wire, 0)[0]
    return [
        _wire(
            dns.dnssec.sign(
                rrset,
                key.private,
                zone,
                key.public,
                *validity,
                policy=dns.dnssec.allow_all_policy,
            )
        )
        for key in keys
    ]


def _wire(rdata: dns.rdata.Rdata) -> bytes:
    wire = rdata.to_wire()
    assert wire is not None, "None only if a file is given"
    return bytes(wire)


def _private_key(algorithm: int, fields: dict[str, str]) -> PrivateKey:
    """The key of a file `Private-key-format: v1`; raise KeyError or ValueError."""
    if int(fields["Algorithm"].split()[0]) != algorithm:
        raise ValueError(f"it is for algorithm {fields['Algorithm']}")
    known = Algorithm.make(algorithm)
    if known in _CURVES:
        secret = int.from_bytes(b64decode(fields["PrivateKey"]), "big")
        return ec.derive_private_key(secret, _CURVES[known])
    if known == Algorithm.ED25519:
        return ed25519.Ed25519PrivateKey.from_private_bytes(b64decode(fields["PrivateKey"]))

    def number(name: str) -> int:
        return int.from_bytes(b64decode(fields[name]), "big")

    return rsa.RSAPrivateNumbers(
        number("Prime1"),
        number("Prime2"),
        number("PrivateExponent"),
        number("Exponent1"),
        number("Exponent2"),
        number("Coefficient"),
        rsa.RSAPublicNumbers(number("PublicExponent"), number("Modulus")),
    ).private_key()


def sign_zone(
    path: str,
    target: str,
    origin: Name,
    keys: Sequence[SigningKey],
    serial: int,
    validity: tuple[int, int],
) -> None:
    """Read a master file, and write it with keys, signatures and NSEC records; raise OSError or ZoneError."""
    zone = _read_zone(path, origin)
    assert zone.origin is not None, "it was given"
    for node in zone.nodes.values():
        node.rdatasets = [each for each in node.rdatasets if each.rdtype not in _MADE]
    policy = dns.dnssec.allow_all_policy
    with zone.writer() as made:
        made.update_serial(serial, relative=False, name=zone.origin)
        ttl = made.get(zone.origin, RdataType.SOA).ttl
        for key in keys:
            made.add(zone.origin, ttl, key.public)
            for digest in ("SHA1", "SHA256"):
                ds = dns.dnssec.make_ds(zone.origin, key.public, digest, policy=policy)
                made.add(zone.origin, ttl, _retyped(ds, RdataType.CDS))
            made.add(zone.origin, ttl, _retyped(key.public, RdataType.CDNSKEY))
        dns.dnssec.sign_zone(
            zone,
            made,
            [(key.private, key.public) for key in keys],
            add_dnskey=False,
            inception=validity[0],
            expiration=validity[1],
            policy=policy,
        )
    # Renamed when it is whole, as whoever serves it may read it at any time.
    handle, whole = tempfile.mkstemp(prefix="signed-", dir=os.path.dirname(target) or ".")
    with open(handle, "w", encoding="utf-8") as file:
        zone.to_file(file, relativize=False)
    os.chmod(whole, 0o644)
    os.replace(whole, target)


def soa_signatures(path: str, origin: Name) -> list[tuple[int, int]]:
    """Begin and end of the signatures of a file's SOA record, seconds since the epoch; raise OSError or ZoneError."""
    zone = _read_zone(path, origin)
    apex = dns.name.from_wire(origin.wire, 0)[0]
    found = zone.get_rdataset(apex, RdataType.RRSIG, RdataType.SOA) or ()
    return [(each.inception, each.expiration) for each in found]


def _read_zone(path: str, origin: Name) -> dns.zone.Zone:
    name = dns.name.from_wire(origin.wire, 0)[0]
    try:
        zone = dns.zone.from_file(path, name, relativize=False, check_origin=False)
    except (dns.exception.DNSException, UnicodeError, RecursionError) as error:
        raise ZoneError(f"{path}: {error}") from None
    if zone.get_rdataset(name, RdataType.SOA) is None:
        raise ZoneError(f"{path} has no SOA record of {origin.to_text()}")
    return zone


def _retyped(rdata: dns.rdata.Rdata, rdtype: RdataType) -> dns.rdata.Rdata:
    """The same RDATA of another type."""
    wire = _wire(rdata)
    return dns.rdata.from_wire(rdata.rdclass, rdtype, wire, 0, len(wire))
