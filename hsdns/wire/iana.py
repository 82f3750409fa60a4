"""DNS numbers assigned by IANA, as plain integers, and their mnemonics.

Path: every step.  Plain integers, not enums, because they index dicts for each query.
Source: IANA "Domain Name System (DNS) Parameters"; mnemonics as RFC 9499 spells them.
"""

from typing import Final


class RRType:
    """Resource record types that hsdns refers to."""

    A: Final = 1
    NS: Final = 2
    CNAME: Final = 5
    SOA: Final = 6
    PTR: Final = 12
    HINFO: Final = 13
    MX: Final = 15
    TXT: Final = 16
    AAAA: Final = 28
    SRV: Final = 33
    NAPTR: Final = 35
    DNAME: Final = 39
    OPT: Final = 41
    DS: Final = 43
    RRSIG: Final = 46
    NSEC: Final = 47
    DNSKEY: Final = 48
    NSEC3: Final = 50
    SVCB: Final = 64
    HTTPS: Final = 65
    TSIG: Final = 250
    IXFR: Final = 251
    AXFR: Final = 252
    ANY: Final = 255


ADDRESSES: Final = (RRType.A, RRType.AAAA)


class RRClass:
    """Resource record classes."""

    IN: Final = 1
    CH: Final = 3
    HS: Final = 4
    NONE: Final = 254
    ANY: Final = 255


class Rcode:
    """Response codes; those above 15 require an OPT record (RFC 6891 section 6.1.3)."""

    NOERROR: Final = 0
    FORMERR: Final = 1
    SERVFAIL: Final = 2
    NXDOMAIN: Final = 3
    NOTIMP: Final = 4
    REFUSED: Final = 5
    YXDOMAIN: Final = 6
    NOTAUTH: Final = 9
    BADVERS: Final = 16


class Opcode:
    """Opcodes (RFC 1035 section 4.1.1, RFC 1996, RFC 2136)."""

    QUERY: Final = 0
    NOTIFY: Final = 4
    UPDATE: Final = 5


class OptCode:
    """EDNS options that hsdns refers to (RFC 5001, 7871, 7314, 7873, 7828, 7830, 8914)."""

    NSID: Final = 3
    SUBNET: Final = 8
    EXPIRE: Final = 9
    COOKIE: Final = 10
    KEEPALIVE: Final = 11
    PADDING: Final = 12
    EDE: Final = 15


_TYPES: Final[dict[int, str]] = {
    1: "A", 2: "NS", 3: "MD", 4: "MF", 5: "CNAME", 6: "SOA", 7: "MB", 8: "MG", 9: "MR", 10: "NULL",
    11: "WKS", 12: "PTR", 13: "HINFO", 14: "MINFO", 15: "MX", 16: "TXT", 17: "RP", 18: "AFSDB", 19: "X25",
    20: "ISDN", 21: "RT", 24: "SIG", 25: "KEY", 26: "PX", 27: "GPOS", 28: "AAAA", 29: "LOC", 30: "NXT",
    31: "EID", 32: "NIMLOC", 33: "SRV", 34: "ATMA", 35: "NAPTR", 36: "KX", 37: "CERT", 39: "DNAME",
    41: "OPT", 42: "APL", 43: "DS", 44: "SSHFP", 45: "IPSECKEY", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY",
    49: "DHCID", 50: "NSEC3", 51: "NSEC3PARAM", 52: "TLSA", 53: "SMIMEA", 55: "HIP", 56: "NINFO",
    57: "RKEY", 58: "TALINK", 59: "CDS", 60: "CDNSKEY", 61: "OPENPGPKEY", 62: "CSYNC", 63: "ZONEMD",
    64: "SVCB", 65: "HTTPS", 99: "SPF", 100: "UINFO", 101: "UID", 102: "GID", 103: "UNSPEC", 104: "NID",
    105: "L32", 106: "L64", 107: "LP", 108: "EUI48", 109: "EUI64", 249: "TKEY", 250: "TSIG", 251: "IXFR",
    252: "AXFR", 253: "MAILB", 254: "MAILA", 255: "ANY", 256: "URI", 257: "CAA", 258: "AVC", 32768: "TA",
    32769: "DLV",
}  # fmt: skip
_CLASSES: Final[dict[int, str]] = {1: "IN", 2: "CS", 3: "CH", 4: "HS", 254: "NONE", 255: "ANY"}
_RCODES: Final[dict[int, str]] = {
    0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN",
    7: "YXRRSET", 8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE", 16: "BADVERS", 17: "BADKEY", 18: "BADTIME",
    19: "BADMODE", 20: "BADNAME", 21: "BADALG", 22: "BADTRUNC", 23: "BADCOOKIE",
}  # fmt: skip
_TYPE_NUMBERS: Final = {text: number for number, text in _TYPES.items()}
_CLASS_NUMBERS: Final = {text: number for number, text in _CLASSES.items()}
_RCODE_NUMBERS: Final = {text: number for number, text in _RCODES.items()}


def type_to_text(number: int) -> str:
    """Return the mnemonic of a record type; TYPE123 if it has none (RFC 3597 section 5)."""
    return _TYPES.get(number) or f"TYPE{number}"


def type_from_text(text: str) -> int:
    """Parse a record type's mnemonic or TYPE123; raise ValueError."""
    return _number(text, _TYPE_NUMBERS, "TYPE", "record type")


def class_to_text(number: int) -> str:
    """Return the mnemonic of a class; CLASS123 if it has none (RFC 3597 section 5).

    ANY is CLASS255, because ANY is a record type too (CoreDNS 1.14.7, in logs and expressions).
    """
    text = _CLASSES.get(number)
    return f"CLASS{number}" if text is None or text in _TYPE_NUMBERS else text


def class_from_text(text: str) -> int:
    """Parse a class mnemonic or CLASS123; raise ValueError."""
    return _number(text, _CLASS_NUMBERS, "CLASS", "class")


def rcode_to_text(number: int) -> str:
    """Return the mnemonic of a response code; RCODE123 if it has none."""
    return _RCODES.get(number) or f"RCODE{number}"


def rcode_from_text(text: str) -> int:
    """Parse a response code's mnemonic or RCODE123; raise ValueError."""
    return _number(text, _RCODE_NUMBERS, "RCODE", "response code")


def _number(text: str, known: dict[str, int], prefix: str, what: str) -> int:
    word = text.upper()
    if word in known:
        return known[word]
    digits = word.removeprefix(prefix)
    if digits != word and digits.isascii() and digits.isdigit() and int(digits) <= 0xFFFF:
        return int(digits)
    raise ValueError(f'"{text}" is not a {what}')
