from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.authority.zone import CatalogError, read_catalog
from hsdns.chain import Endpoint
from hsdns.corefile.keys import HostPort
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.plugins.auto import OriginTemplate
from hsdns.plugins.transfer import is_from, read_endpoint
from hsdns.wire.name import Name
from tests.support.plugins.requests import rr
from tests.support.tables import Row, columns, rows


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("catalogs.txt")))
def test_catalogs(row: Row) -> None:
    try:
        members = read_catalog(Name.from_text("cat.example."), map(rr, row.given.splitlines()))
        found = [
            f"{label.decode()} {zone.to_text()} {owner.to_text() if owner else 'stays'}"
            for label, zone, owner in members
        ]
    except CatalogError as error:
        found = [f"! {error}"]
    assert found == row.expected


# Addresses of `transfer` and origins of `auto`; settings.txt has the cases.

TABLE = Path(__file__).with_name("settings.txt")


@pytest.mark.parametrize(("text", "expected"), columns(TABLE, "endpoints"))
def test_endpoints(text: str, expected: str) -> None:
    token = Token(text, Position("Corefile", 2, 3))
    if expected != "refused":
        assert str(HostPort(*read_endpoint(token))) == expected
        return
    with pytest.raises(CorefileError) as error:
        read_endpoint(token)
    assert str(error.value) == (
        f'Corefile:2:3: "{text}" is not an IP address; write it as 192.0.2.1, 192.0.2.1:5300 or [2001:db8::1]:5300'
    )


@pytest.mark.parametrize(("given", "expected"), columns(TABLE, "clients"))
def test_is_from(given: str, expected: str) -> None:
    client, *addresses = given.split()
    assert str(is_from(Endpoint(client, 4711), addresses)) == expected


@pytest.mark.parametrize(("given", "expected"), columns(TABLE, "origins"))
def test_origin(given: str, expected: str) -> None:
    file_name, *words = given.split()
    origin = OriginTemplate(*words).origin(file_name)
    assert (origin.to_text() if origin else "None") == expected


@pytest.mark.parametrize(
    ("regexp", "reason"),
    [
        (r"db\..*", r'"db\..*" needs at least one group, such as "(.*)"'),
        ("(", '"(" is not a regular expression: missing ): ('),
        ("(" + "a" * 10_000 + ")", "the pattern has 10002 characters, at most 10000 are allowed"),
    ],
    ids=["no-group", "syntax", "long"],
)
def test_refused_origins(regexp: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        OriginTemplate(regexp)
    assert str(error.value) == reason
