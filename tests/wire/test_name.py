from __future__ import annotations

import dns.name
import pytest
from hypothesis import given

from hsdns.wire.name import ROOT, Name, after_name
from tests import strategies

LONGEST = ".".join(["x" * 63] * 3 + ["x" * 61])


def name(text: str) -> Name:
    return Name.from_text(text)


@pytest.mark.parametrize(
    ("text", "wire", "written"),
    [
        (".", b"\0", "."),
        ("", b"\0", "."),
        ("org", b"\3org\0", "org."),
        ("Example.ORG.", b"\7Example\3ORG\0", "Example.ORG."),
        (r"a\.b.org", b"\3a.b\3org\0", r"a\.b.org."),
        (r"\\.org", b"\1\\\3org\0", r"\\.org."),
        (r"\000\255.org", b"\2\0\xff\3org\0", r"\000\255.org."),
        (r"a\032b", b"\3a b\0", r"a\032b."),
        (r"\"\@\$\(\)\;", b'\6"@$();\0', r"\"\@\$\(\)\;."),
        (r"\a\b", b"\2ab\0", "ab."),
        (r"\046", b"\1.\0", r"\.."),
        ("ü", b"\2\xc3\xbc\0", r"\195\188."),
        ("_tcp.*", b"\4_tcp\1*\0", "_tcp.*."),
        (LONGEST, bytes([63]) + b"x" * 63 + (b"\77" + b"x" * 63) * 2 + b"\75" + b"x" * 61 + b"\0", LONGEST + "."),
    ],
    ids=[
        "root", "empty", "one", "case", "dot-inside", "backslash", "octets", "space", "special", "needless-escape",
        "only-a-dot", "not-ascii", "underscore-and-star", "longest",
    ],
)  # fmt: skip
def test_from_and_to_text(text: str, wire: bytes, written: str) -> None:
    found = name(text)
    assert found.wire == wire
    assert found.to_text() == written
    assert name(written).wire == wire


@pytest.mark.parametrize(
    "text",
    ["..", ".a", "a..b", "a..", r"a\.b..c", "x" * 64, r"\120" * 64, "x." + LONGEST, r"\256", "a\\", r"\999.org"],
    ids=[
        "two-dots", "dot-first", "empty-label", "two-dots-last", "empty-label-escaped", "label-of-64",
        "escaped-label-of-64", "256-octets", "octet-256", "backslash-last", "octet-999",
    ],
)  # fmt: skip
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"label|name|octet|backslash"):
        name(text)


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


@pytest.mark.parametrize(
    ("one", "zone", "expected"),
    [
        ("a.example.org.", "example.org.", True),
        ("A.EXAMPLE.ORG.", "example.org.", True),
        ("example.org.", "example.org.", True),
        ("org.", "example.org.", False),
        ("badexample.org.", "example.org.", False),
        (r"a\.example.org.", "example.org.", False),
        (r"x\007example.org.", "example.org.", False),
        ("anything.", ".", True),
        (".", ".", True),
    ],
    ids=[
        "below", "other-case", "apex", "above", "same-ending", "dot-inside", "length-octet-inside", "below-root", "root",
    ],
)  # fmt: skip
def test_is_at_or_below_goes_by_labels(one: str, zone: str, expected: bool) -> None:
    assert name(one).is_at_or_below(name(zone)) is expected


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
    with pytest.raises(ValueError, match="allowed are 1 to 63"):
        Name.from_labels([b""])
    with pytest.raises(ValueError, match="allowed are 255"):
        Name.from_labels([b"x" * 63] * 4)


@pytest.mark.parametrize(
    ("wire", "end"),
    [(b"??\0", 3), (b"??\3org\0rest", 7), (b"??\1a\xc0\0rest", 6), (b"??\xc1\2", 4)],
)
def test_after_name(wire: bytes, end: int) -> None:
    assert after_name(wire, 2) == end


@pytest.mark.parametrize("wire", [b"??", b"??\3or", b"??\3org"])
def test_after_a_name_that_runs_out_is_nothing(wire: bytes) -> None:
    with pytest.raises(IndexError):
        after_name(wire, 2)
