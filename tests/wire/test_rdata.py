from __future__ import annotations

import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest

from hsdns.wire import rdata
from hsdns.wire.iana import (
    RRType,
    class_from_text,
    class_to_text,
    rcode_from_text,
    rcode_to_text,
    type_from_text,
    type_to_text,
)
from hsdns.wire.name import Name

NAME = Name.from_text("Www.example.org.")


@pytest.mark.parametrize(
    ("made", "rrtype", "text"),
    [
        (rdata.address("192.0.2.1"), "A", "192.0.2.1"),
        (rdata.address("2001:db8::1"), "AAAA", "2001:db8::1"),
        (rdata.srv(0, 4, 8600, NAME), "SRV", "0 4 8600 Www.example.org."),
        (rdata.soa(NAME, NAME, 2**32 + 7, 1, 2, 3, 4), "SOA", "Www.example.org. Www.example.org. 7 1 2 3 4"),
        (rdata.txt(b"1.1.0"), "TXT", '"1.1.0"'),
        (rdata.txt(b"", b"a b"), "TXT", '"" "a b"'),
    ],
    ids=["a", "aaaa", "srv", "soa-serial-wraps", "txt", "txt-empty-string"],
)  # fmt: skip
def test_made_as_dnspython_makes_it(made: bytes, rrtype: str, text: str) -> None:
    theirs = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(rrtype), text)
    assert made == theirs.to_wire()


@pytest.mark.parametrize("text", ["", "10.0.0", "010.0.0.1", "fd00:::1", "x"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        rdata.address(text)


def test_strings_of_txt_have_a_length_of_one_octet() -> None:
    assert rdata.txt(b"x" * 255) == b"\xff" + b"x" * 255
    with pytest.raises(ValueError, match="255"):
        rdata.txt(b"x" * 256)


def test_address_to_text() -> None:
    assert rdata.address_to_text(b"\xc0\0\2\1") == "192.0.2.1"
    assert rdata.address_to_text(b"\xfd" + bytes(14) + b"\1") == "fd00::1"


def test_read_name() -> None:
    assert rdata.read_name(b"??" + NAME.wire + b"!", 2) == (NAME, 2 + len(NAME.wire))


def test_compressible_types_are_those_of_rfc_1035() -> None:
    """RFC 3597 section 4: no other type may be compressed, SRV least of all (RFC 2782)."""
    assert set(rdata.COMPRESSIBLE) == {RRType.NS, RRType.CNAME, RRType.PTR, RRType.SOA, RRType.MX}


def test_mnemonics_are_dnspythons() -> None:
    for number in [*range(1, 300), 32768, 32769, 65280]:
        text = type_to_text(number)
        assert type_from_text(text) == type_from_text(text.lower()) == number
    for known in dns.rdatatype.RdataType:
        assert type_to_text(known) in (known.name, f"TYPE{known.value}")
    for number in (1, 3, 4, 254, 255, 7):
        assert class_from_text(class_to_text(number)) == number
        assert dns.rdataclass.from_text(class_to_text(number)) == number
    assert class_to_text(255) == "CLASS255"  # ANY is a type
    for number in (*range(11), 16, 23, 3000):
        assert rcode_from_text(rcode_to_text(number)) == number


@pytest.mark.parametrize("text", ["TYPE", "TYPE65536", "TYPE-1", "TYPE\u0661", "AA", "1", ""])
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(ValueError, match="is not a record type"):
        type_from_text(text)
