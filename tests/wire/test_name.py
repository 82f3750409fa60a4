from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.wire import rdata
from hsdns.wire.edns import Edns
from hsdns.wire.iana import (
    RRType,
    class_from_text,
    class_to_text,
    rcode_from_text,
    rcode_to_text,
    type_from_text,
    type_to_text,
)
from hsdns.wire.message import RR
from hsdns.wire.name import ROOT, Name, after_name
from hsdns.wire.record_text import record_from_text
from hsdns.wire.text import rdata_from_text, rdata_to_text
from tests import strategies
from tests.support.plugins.requests import rr_text
from tests.support.tables import columns

TEXTS = Path(__file__).with_name("texts.txt")


def name(text: str) -> Name:
    return Name.from_text(text)


@pytest.mark.parametrize(("text", "expected"), columns(TEXTS, "names"))
def test_from_and_to_text(text: str, expected: str) -> None:
    """The octets, and how they are written."""
    try:
        read = name(text)
    except ValueError as error:
        assert f"! {error}" == expected
    else:
        assert f"{read.wire.hex()} {read.to_text()}" == expected
        assert name(read.to_text()).wire == read.wire


@given(strategies.names())
def test_text_round_trip(found: Name) -> None:
    assert name(found.to_text()).wire == found.wire


@given(strategies.names())
def test_text_is_dnspythons(found: Name) -> None:
    theirs, _ = dns.name.from_wire(found.wire, 0)
    assert found.to_text() == theirs.to_text()
    assert dns.name.from_text(found.to_text()).to_wire() == found.wire


@given(strategies.related_names(), strategies.related_names())
def test_relations_are_dnspythons(one: Name, other: Name) -> None:
    mine, theirs = dns.name.from_wire(one.wire, 0)[0], dns.name.from_wire(other.wire, 0)[0]
    assert (one == other) == (mine == theirs)
    assert one.is_at_or_below(other) == mine.is_subdomain(theirs)
    if one.is_at_or_below(other):
        assert one.below(other) + other.labels == one.labels
    if one == other:
        assert hash(one) == hash(other)


@pytest.mark.parametrize(("given", "expected"), columns(TEXTS, "names in zones"))
def test_is_at_or_below_goes_by_labels(given: str, expected: str) -> None:
    one, zone = map(name, given.split())
    assert str(one.is_at_or_below(zone)) == expected


def test_longest_of() -> None:
    zones = [Name.from_text(text) for text in ("org.", "A.Example.org.", "example.org.", "b.")]
    found = {
        text: Name.from_text(text).longest_of(zones) for text in ("x.a.example.org.", "c.org.")
    }
    assert found == {"x.a.example.org.": zones[1], "c.org.": zones[0]}
    assert Name.from_text("net.").longest_of(zones) is None


def test_a_dot_in_a_label_is_no_border() -> None:
    """Text forms without escapes are equal here, which has let one name be answered for another."""
    assert name(r"a\.b.org.") != name("a.b.org.")
    assert len({name(r"a\.b.org."), name("a.b.org."), name("A.b.ORG.")}) == 2


def test_case_is_kept_and_does_not_count() -> None:
    found = name("WwW.Example.org.")
    assert found.to_text() == "WwW.Example.org."
    assert found.lowered().to_text() == "www.example.org."
    assert found == found.lowered()
    assert found.labels == (b"www", b"example", b"org")
    # Only ASCII letters have a case (RFC 4343): these are Latin-1 A and a with grave accent.
    assert Name(b"\1\xc0\0") != Name(b"\1\xe0\0")
    assert name("a.org.").lowered().wire == b"\1a\3org\0"


def test_ancestors() -> None:
    assert name("A.b.org.").ancestors() == [b"\1a\1b\3org\0", b"\1b\3org\0", b"\3org\0", b"\0"]
    assert ROOT.ancestors() == [b"\0"]
    assert ROOT.labels == ()
    assert repr(ROOT) == "Name('.')"


def test_from_labels() -> None:
    assert Name.from_labels([b"a.b", b"org"]).to_text() == r"a\.b.org."
    assert Name.from_labels(()) == ROOT
    with pytest.raises(ValueError, match="a label is empty"):
        Name.from_labels([b""])
    with pytest.raises(ValueError, match="allowed are 255"):
        Name.from_labels([b"x" * 63] * 4)


@pytest.mark.parametrize(
    ("wire", "end"),
    [(b"??\0", 3), (b"??\3org\0rest", 7), (b"??\1a\xc0\0rest", 6), (b"??\xc1\2", 4)],
)
def test_after_name(wire: bytes, end: int) -> None:
    assert after_name(wire, 2) == end


@pytest.mark.parametrize("wire", [b"??", b"??\3or", b"??\3org", b"??\xbf\0"])
def test_after_a_name_that_runs_out_is_nothing(wire: bytes) -> None:
    with pytest.raises(IndexError):
        after_name(wire, 2)


OWN_TYPES = [1, 2, 5, 6, 12, 15, 16, 28, 33]


def theirs(rrtype: str, text: str) -> bytes:
    made = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(rrtype), text).to_wire()
    assert made is not None
    return made


@pytest.mark.parametrize(("given", "expected"), columns(TEXTS, "rdata"))
def test_rdata(given: str, expected: str) -> None:
    """The octets that are read, as dnspython reads them, and how they are written; or what an error says."""
    rrtype, _, text = given.partition(" ")
    number = type_from_text(rrtype)
    if expected.startswith("! "):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is compared
            rdata_from_text(number, text)
        assert expected[2:] in str(caught.value)
        return
    octets, _, written = expected.partition(" ")
    wire = rdata_from_text(number, text)
    assert (wire.hex() or "-", rdata_to_text(number, wire)) == (octets, written)
    assert wire == theirs(rrtype, written)


@pytest.mark.parametrize(
    ("rr", "text"),
    [
        (
            RR(Name.from_text("a.Example.org."), 1, 30, b"\xc0\0\2\1"),
            "a.Example.org. 30 IN A 192.0.2.1",
        ),
        (RR(Name.from_text("."), 65280, 0, b"", 3), r". 0 CH TYPE65280 \# 0"),
        (RR(Name.from_text(r"a\.b"), 16, 0, b"\1x", 254), r'a\.b. 0 NONE TXT "x"'),
        (RR(Name.from_text("x"), 99, 5, b"\1x", 77), r"x. 5 CLASS77 SPF \# 2 0178"),
    ],
    ids=["a", "unknown-type", "dot-inside", "unknown-class"],
)
def test_parts_of_a_record(rr: RR, text: str) -> None:
    rrclass, rrtype = class_to_text(rr.rrclass), type_to_text(rr.rrtype)
    rdata = rdata_to_text(rr.rrtype, rr.rdata)
    assert f"{rr.owner.to_text()} {rr.ttl} {rrclass} {rrtype} {rdata}" == text


@given(strategies.records())
def test_records_as_dnspython(rr: RR) -> None:
    rrtype = dns.rdatatype.RdataType.make(rr.rrtype)
    found = dns.rdata.from_wire(dns.rdataclass.IN, rrtype, rr.rdata, 0, len(rr.rdata))
    assert rdata_to_text(rr.rrtype, rr.rdata) == found.to_text().strip()
    assert rdata_from_text(rr.rrtype, rdata_to_text(rr.rrtype, rr.rdata)) == rr.rdata


# Names with all kinds of lengths in them: what dnslib misreads, takes, or breaks on.
BROKEN = [
    b"",
    b"\0",
    b"\xc0\0",
    b"\x40" + b"x" * 64,
    b"\xbf" + b"x" * 191 + b"\0",
    b"\3ab",
    b"\1a" * 128 + b"\0",
    b"\0" * 3,
    bytes(range(256)) * 2,
    b"\2\xff\xfe\0",
    b"\x03a.b\0",
]


@pytest.mark.parametrize("rrtype", [*OWN_TYPES, *range(300)])
def test_any_octets_have_a_text(rrtype: int) -> None:
    """For these dnslib raises seven classes of errors, or writes what it did not read."""
    for wire in BROKEN:
        text = rdata_to_text(rrtype, wire)
        assert text.isprintable()
        assert rdata_from_text(rrtype, text) == wire


@given(
    rrtype=st.sampled_from([*OWN_TYPES, 13, 29, 35, 39, 43, 46, 47, 48, 52, 64, 65, 257]),
    wire=st.binary(max_size=80),
)
def test_round_trip_of_anything(rrtype: int, wire: bytes) -> None:
    assert rdata_from_text(rrtype, rdata_to_text(rrtype, wire)) == wire


@given(rrtype=st.sampled_from([*OWN_TYPES, 29, 35, 43, 65, 257]), text=st.text(max_size=60))
def test_any_text_is_read_or_refused(rrtype: int, text: str) -> None:
    try:
        wire = rdata_from_text(rrtype, text)
    except ValueError:
        return
    assert rdata_from_text(rrtype, rdata_to_text(rrtype, wire)) == wire


def test_the_longest_name() -> None:
    assert rdata_to_text(RRType.NS, b"\1a" * 127 + b"\0") == "a." * 127
    assert rdata_to_text(RRType.NS, b"\2bb" + b"\1a" * 126 + b"\0").startswith(r"\# 256 ")


def test_empty_rdata_of_a_known_type_is_no_error() -> None:
    """RFC 2136 uses it; dnslib refuses the whole message."""
    assert rdata_to_text(RRType.A, b"") == r"\# 0"


def test_svcb_and_https_are_written_alike() -> None:
    """A text form for HTTPS is all that dnslib has, none for SVCB."""
    wire = theirs("SVCB", "1 . alpn=h2")
    assert rdata_to_text(RRType.HTTPS, wire) == "1 . alpn=h2"
    assert rdata_from_text(RRType.SVCB, rdata_to_text(RRType.SVCB, wire)) == wire


def test_dnslib_is_imported_for_rare_types_alone() -> None:
    script = (
        "import sys; from hsdns.wire.text import rdata_to_text, rdata_from_text;"
        "rdata_to_text(16, b'\\1x'); rdata_from_text(33, '0 1 2 x.'); assert 'dnslib' not in sys.modules;"
        "rdata_to_text(257, b'\\0\\5issuex'); assert 'dnslib' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_edns_is_no_text() -> None:
    """An OPT record has no presentation form (RFC 6891 section 6.1.3), so it is written as octets."""
    opt = Edns(1232, options=((3, b""),)).to_wire()[11:]
    assert rdata_to_text(RRType.OPT, opt) == r"\# 4 00030000"


@pytest.mark.parametrize(("text", "expected"), columns(TEXTS, "records"))
def test_records(text: str, expected: str) -> None:
    try:
        found = rr_text(record_from_text(text))
    except ValueError as error:
        found = f"! {error}"[: len(expected)]
    assert found == expected


@given(st.text(alphabet='a. 60INATXT"\\;()\n@$#', max_size=30))
def test_any_text_gives_a_record_or_an_error(text: str) -> None:
    try:
        record_from_text(text)
    except ValueError as error:
        assert "is not a record" in str(error)


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
