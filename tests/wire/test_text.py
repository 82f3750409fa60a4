from __future__ import annotations

import subprocess
import sys

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

OWN_TYPES = [1, 2, 5, 6, 12, 15, 16, 28, 33]
SOA = "ns.dns.cluster.local. hostmaster.cluster.local. 4294967295 7200 1800 86400 5"


def theirs(rrtype: str, text: str) -> bytes:
    made = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(rrtype), text).to_wire()
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("rrtype", "text"),
    [
        ("A", "192.0.2.1"),
        ("AAAA", "2001:db8::1"),
        ("NS", "ns1.example.org."),
        ("CNAME", r"a\.b.example.org."),
        ("PTR", "Pod-0.db.default.svc.cluster.local."),
        ("SOA", SOA),
        ("MX", "10 ."),
        ("SRV", "0 4 8600 consul-server-0.consul-server.default.svc.cluster.local."),
        ("TXT", '"1.1.0"'),
        ("TXT", r'"a b" "" "\"quoted\" \\ \200"'),
        ("CAA", '0 issue "example.org"'),
        ("NAPTR", r'100 10 "u" "E2U+sip" "!^.*$!sip:x@example.org!" .'),
        ("DNSKEY", "256 3 8 AQIDBA=="),
        ("RP", "a.example.org. b.example.org."),
    ],
    ids=[
        "a", "aaaa", "ns", "cname-dot-inside", "ptr-case", "soa", "mx-root", "srv", "txt", "txt-escapes", "caa",
        "naptr", "dnskey", "rp",
    ],
)  # fmt: skip
def test_both_ways_as_dnspython(rrtype: str, text: str) -> None:
    number = type_from_text(rrtype)
    assert rdata_from_text(number, text) == theirs(rrtype, text)
    assert rdata_to_text(number, theirs(rrtype, text)) == text


@pytest.mark.parametrize(
    ("rrtype", "text", "wire"),
    [
        ("A", "192.0.2.1 ", b"\xc0\0\2\1"),
        ("NS", "ns1.example.org", b"\3ns1\7example\3org\0"),
        ("TXT", "bare words", b"\4bare\5words"),
        ("TXT", r"a\032b", b"\3a b"),
        ("TXT", '"ü"', b"\2\xc3\xbc"),
        ("A", r"\# 4 c0000201", b"\xc0\0\2\1"),
        ("TYPE65280", r"\# 3 ab cd ef", b"\xab\xcd\xef"),
        ("TYPE65280", r"\# 0", b""),
    ],
    ids=["spaces", "no-final-dot", "txt-bare", "txt-escaped-space", "txt-not-ascii", "known-as-hex", "hex", "empty"],
)  # fmt: skip
def test_other_forms(rrtype: str, text: str, wire: bytes) -> None:
    assert rdata_from_text(type_from_text(rrtype), text) == wire


@pytest.mark.parametrize(
    ("rrtype", "text", "says"),
    [
        ("A", "", "has 0 fields, expected 1"),
        ("A", "192.0.2.256", "192.0.2.256"),
        ("A", "::1", "::1"),
        ("AAAA", "fe80::1%eth0", "zone index"),
        ("NS", "a b", "has 2 fields"),
        ("NS", "a..b", "label"),
        ("SRV", "0 4 65536 x.", '"65536" is not a number of 16 bits'),
        ("SRV", "0 -4 80 x.", '"-4" is not a number'),
        ("SRV", "0 4 \u0661 x.", "is not a number"),
        ("SOA", "a. b. 4294967296 1 1 1 1", "32 bits"),
        ("MX", "x.", "has 1 fields"),
        ("TXT", "", "at least one string"),
        ("TXT", '"open', "quote"),
        ("TXT", "end\\", "backslash"),
        ("TXT", r"\256", "not an octet"),
        ("TXT", "x" * 256, "255"),
        ("A", r"\# 4 c00002", "announces 4 octets but has 3"),
        ("A", r"\# four c0000201", "is not of the form"),
        ("A", r"\#", "is not of the form"),
        ("TYPE65280", "words", "cannot be parsed as TYPE65280"),
        ("CAA", "nonsense", "cannot be parsed as CAA"),
    ],
    ids=lambda value: value if len(value) < 12 else value[:12],
)
def test_what_is_refused(rrtype: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rdata_from_text(type_from_text(rrtype), text)


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


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("a.example. 60 IN A 192.0.2.1", "a.example. 60 IN A 192.0.2.1"),
        ("a.example A 192.0.2.1", "a.example. 3600 IN A 192.0.2.1"),
        ("a.example. IN 60 A 192.0.2.1", "a.example. 60 IN A 192.0.2.1"),
        ('a.example. 1h30m TXT a "b c"', 'a.example. 5400 IN TXT "a" "b c"'),
        ("a. 60 CH TXT x ; comment", 'a. 60 CH TXT "x"'),
        ("A.Example 60 in cname B.Example", "A.Example. 60 IN CNAME B.Example."),
        (
            "e. 60 IN SOA ns h (1\n 2 3\n 4 5)\n",
            "e. 60 IN SOA ns. h. 1 2 3 4 5",
        ),
        ("a. 60 IN TYPE65280 \\# 2 abcd", "a. 60 IN TYPE65280 \\# 2 abcd"),
        (". 60 IN NS a", ". 60 IN NS a."),
        ("@ 60 IN NS a", ". 60 IN NS a."),
        ("a. 60 IN HTTPS 1 . alpn=h2", 'a. 60 IN HTTPS 1 . alpn="h2"'),
    ],
)
def test_read(text: str, record: str) -> None:
    assert rr_text(record_from_text(text)) == record


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", '"" is not a record: it is empty'),
        (
            "  a. 60 IN A 192.0.2.1",
            '"  a. 60 IN A 192.0.2.1" is not a record: it begins with a space',
        ),
        ("a. 60 IN", '"a. 60 IN" is not a record: '),
        ("a. 60 IN A", '"a. 60 IN A" is not a record: '),
        ("a. 60 IN A bad", '"a. 60 IN A bad" is not a record: '),
        (
            "a. 60 IN 60 IN A 192.0.2.1",
            '"a. 60 IN 60 IN A 192.0.2.1" is not a record: it has no type',
        ),
        ("a. 60 IN NOSUCH x", '"a. 60 IN NOSUCH x" is not a record: '),
        ("a. 60 IN A 192.0.2.1 x", '"a. 60 IN A 192.0.2.1 x" is not a record: '),
        ("a..b 60 IN A 192.0.2.1", '"a..b 60 IN A 192.0.2.1" is not a record: '),
        ("a. 99999999999 IN A 192.0.2.1", '"a. 99999999999 IN A 192.0.2.1" is not a record: '),
        ('"a. 60 IN A 192.0.2.1"', '""a. 60 IN A 192.0.2.1"" is not a record: it is empty'),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="is not a record") as caught:
        record_from_text(text)
    assert str(caught.value).startswith(reason)


@given(st.text(alphabet='a. 60INATXT"\\;()\n@$#', max_size=30))
def test_any_text_gives_a_record_or_an_error(text: str) -> None:
    try:
        record_from_text(text)
    except ValueError as error:
        assert "is not a record" in str(error)
