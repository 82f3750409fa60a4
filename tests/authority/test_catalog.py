from __future__ import annotations

import pytest

from hsdns.authority.catalog import CatalogError, Member, read_catalog
from hsdns.wire.name import Name
from tests.support.plugins.requests import rr

ORIGIN = Name.from_text("cat.example.")
HEAD = (
    "cat.example. 0 IN SOA a. b. 1 1 1 1 1",
    "cat.example. 0 IN NS invalid.",
)
VERSION = 'version.cat.example. 0 IN TXT "2"'
A = "a1.zones.cat.example. 0 IN PTR Example.ORG."


def test_members() -> None:
    lines = [
        *HEAD,
        VERSION,
        "b2.zones.cat.example. 0 IN PTR example.net.",
        A,
        "coo.b2.zones.cat.example. 0 IN PTR other.example.",
        'group.b2.zones.cat.example. 0 IN TXT "g"',
        "x.ext.cat.example. 0 IN PTR not.a.member.",
    ]
    assert read_catalog(ORIGIN, map(rr, lines)) == (
        Member(b"a1", Name.from_text("example.org."), None),
        Member(b"b2", Name.from_text("example.net."), Name.from_text("other.example.")),
    )


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param([VERSION], "catalog cat.example. needs a SOA and an NS record", id="no-apex"),
        pytest.param(
            [*HEAD],
            "catalog cat.example. must have exactly one version record, with 2, found none",
            id="no-version",
        ),
        pytest.param(
            [*HEAD, VERSION.replace("2", "1")],
            "catalog cat.example. must have exactly one version record, with 2, found 1",
            id="version",
        ),
        pytest.param(
            [*HEAD, VERSION, VERSION],
            "catalog cat.example. must have exactly one version record, with 2, found 2, 2",
            id="two-versions",
        ),
        pytest.param(
            [*HEAD, VERSION, A, A.replace("ORG", "net")],
            "member a1 of catalog cat.example. has more than one zone or owner",
            id="two-zones",
        ),
        pytest.param(
            [*HEAD, VERSION, A, A.replace("a1", "b2")],
            "catalog cat.example. lists example.org. twice",
            id="listed-twice",
        ),
        pytest.param(
            [*HEAD, VERSION, 'cat.example. 0 CH TXT "a"'],
            "catalog cat.example. has a record of another class than IN",
            id="class",
        ),
    ],
)
def test_refused(lines: list[str], reason: str) -> None:
    with pytest.raises(CatalogError) as error:
        read_catalog(ORIGIN, map(rr, lines))
    assert str(error.value) == reason
