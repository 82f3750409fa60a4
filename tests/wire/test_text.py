from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType, class_to_text, type_from_text, type_to_text
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.record_text import record_from_text
from hsdns.wire.text import rdata_from_text, rdata_to_text
from tests import strategies
from tests.support.plugins.requests import rr_text
from tests.support.tables import columns

OWN_TYPES = [1, 2, 5, 6, 12, 15, 16, 28, 33]
TEXTS = Path(__file__).with_name("texts.txt")


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
