from __future__ import annotations

from pathlib import Path

import dns.name
import pytest
from hypothesis import given

from hsdns.wire.name import ROOT, Name, after_name
from tests import strategies
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
