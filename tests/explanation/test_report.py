"""The form of an explanation as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from hsdns.cluster.objects import Object
from hsdns.explanation.report import VERSION, Explanation, schema
from tests.support.cluster.explained import explain
from tests.support.cluster.objects import endpoint_slice, namespace, service

SCHEMA = Path(__file__).parents[2] / "docs" / "explain.schema.json"
OBJECTS: list[Object] = [
    namespace("shop"),
    service("shop/db"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1"),
]


def test_the_schema_is_that_of_the_documentation() -> None:
    assert json.loads(SCHEMA.read_text()) == schema()


def test_an_explanation_can_be_read_back() -> None:
    for asked in ("db.shop.svc.cluster.local.", "x.shop.svc.cluster.local.", "a.test."):
        found = explain(asked, *OBJECTS)
        text = msgspec.json.encode(found)
        assert found.version == VERSION
        assert msgspec.json.decode(text, type=Explanation) == found
        assert set(json.loads(text)) == set(schema()["$defs"]["Explanation"]["properties"])
