from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.authority.zone import CatalogError, read_catalog
from hsdns.wire.name import Name
from tests.support.plugins.requests import rr
from tests.support.tables import Row, rows


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
