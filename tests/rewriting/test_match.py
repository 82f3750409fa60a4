from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.properties import compile_pattern
from hsdns.rewriting.rule import Below, Exact, Matcher, Prefix, Regex, Substring, Suffix, name_of
from hsdns.wire.name import Name


def regex(text: str) -> Regex:
    return Regex(compile_pattern(text))


@pytest.mark.parametrize(
    ("matcher", "text", "to", "expected"),
    [
        (Exact("a.b."), "a.b.", "x.", "x."),
        (Exact("a.b."), "x.a.b.", "x.", None),
        (Exact(r"a\.b."), r"a\.b.", "x.", "x."),
        (Exact(r"\097."), "a.", "x.", "x."),
        (Exact("a..b."), "a..b.", "x.", "x."),
        (Prefix("a."), "a.b.", "x.", "x.b."),
        (Prefix("a."), "aa.b.", "x.", None),
        (Prefix("a."), "a.", "x.", "x."),
        (Suffix(".b."), "a.b.", ".y.", "a.y."),
        (Suffix("b."), "ab.", "y.", "ay."),
        (Suffix(".b."), "b.", ".y.", None),
        (Substring(".b."), "a.b.c.b.d.", ".y.", "a.y.c.y.d."),
        (Substring("b."), "a.", "y.", None),
        (regex("b"), "a.b.c.", "x.", "x."),
        (regex("^b"), "a.b.c.", "x.", None),
        (regex(r"^(.*)\.(b)\.$"), "a.a.b.", "{2}.{1}.{0}", "b.a.a.a.a.b."),
        (regex("(x)?a"), "a.", "{1}-{0}.", "-a."),
        (regex("(.*)"), "{2}.", "{1}x", "{2}.x"),
        (regex("(.*)-(.*)"), "{2}-y.", "{1}", "y."),
        (regex("a"), "a.", "{1}.", "{1}."),
        (Below("b.c."), "a.b.c.", "y.", "a.y."),
        (Below("b.c."), "b.c.", "y.", "y."),
        (Below("b.c."), "ab.c.", "y.", None),
    ],
)
def test_replace(matcher: Matcher, text: str, to: str, expected: str | None) -> None:
    assert matcher.replace(text, to) == expected
    assert matcher.matches(text) is (expected is not None)


@pytest.mark.parametrize(
    ("matcher", "names"),
    [
        (Exact("www.example.org."), ("www.example.org.",)),
        (Exact("example.org."), ("example.org.",)),
        (Exact("org."), ()),
        (Exact("a..b."), ()),
        (Suffix(".www.example.org."), ("www.example.org.",)),
        (Suffix("x.www.example.org."), ("www.example.org.",)),
        (Suffix(".example.org."), None),
        (Suffix("www.example.org."), None),
        (Suffix("org."), None),
        (Suffix("."), None),
        (Suffix(".example.net."), ()),
        (Suffix(r"\..www.example.org."), None),
        (Prefix("a."), None),
        (Substring("a."), None),
        (regex("a"), None),
        (Below("a."), None),
    ],
)
def test_affected_names(matcher: Matcher, names: tuple[str, ...] | None) -> None:
    expected = None if names is None else tuple(Name.from_text(each) for each in names)
    assert matcher.affected_names(Name.from_text("example.org.")) == expected


LABELS = st.text("ab-", min_size=1, max_size=3)
NAMES = st.lists(LABELS, max_size=4).map(lambda labels: ".".join([*labels, ""]) or ".")


@given(NAMES, NAMES, st.text("ab-.", max_size=6))
def test_what_matches_is_claimed(qname: str, zone: str, start: str) -> None:
    """A name that is not covered by affected_names() must not match."""
    name, region = Name.from_text(qname), Name.from_text(zone)
    if not name.is_at_or_below(region):
        return
    for matcher in (Exact(start + "."), Suffix(start + "."), Exact(qname), Suffix(qname)):
        names = matcher.affected_names(region)
        if names is not None and not any(name.is_at_or_below(each) for each in names):
            assert not matcher.matches(qname)


@pytest.mark.parametrize("text", ["a..b.", "a" * 64 + ".", "\\", "é" * 40 + "."])
def test_no_name(text: str) -> None:
    assert name_of(text) is None
