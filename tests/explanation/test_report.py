"""The form of an explanation as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from hsdns.cluster.objects import Object
from hsdns.explanation.report import Record, ServerAnswer, compare, schema
from tests.support.cluster.explained import explain
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.tables import Row, rows

SCHEMA = Path(__file__).parents[2] / "docs" / "explain.schema.json"


def test_the_schema_is_that_of_the_documentation() -> None:
    assert json.loads(SCHEMA.read_text()) == schema()


# What a server answers, held against what the objects say.


OBJECTS_ELSEWHERE: list[Object] = [namespace("shop"), service("shop/db"), endpoint_slice("shop/db-1", "db", "10.0.0.1", "10.0.0.2")]  # fmt: skip
DB = "db.shop.svc.cluster.local."
OWN = tuple(Record(DB, 3, "A", f"10.0.0.{last}") for last in (2, 1))


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("answers.txt")))
def test_differences(row: Row) -> None:
    question, rcode, *rest = row.given.splitlines()
    owner = question.split()[0]
    listed = [each.split(" ", 2) for each in rest if not each.startswith("zone ")]
    records = tuple(Record(owner, int(ttl), rrtype, rdata) for ttl, rrtype, rdata in listed)
    zone, ttl = next((each.split()[1:] for each in rest if each.startswith("zone ")), ("", "0"))
    answer = ServerAnswer(rcode, records, zone, int(ttl))
    if rcode.startswith("error "):
        answer = ServerAnswer(error=rcode.removeprefix("error "))
    found = compare(explain(question, *OBJECTS_ELSEWHERE), "192.0.2.1", answer)
    assert (found.address, found.rcode, found.differences) == ("192.0.2.1", answer.rcode, row.expected)  # fmt: skip


def test_nothing_differs_from_what_is_not_known() -> None:
    unknown = structs.replace(explain(DB, *OBJECTS_ELSEWHERE), outcome="could not tell", records=[])
    assert compare(unknown, "192.0.2.1", ServerAnswer("NOERROR", OWN)).differences == []
