"""The form of an explanation as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.json import schema as json_schema

from hsdns.cluster.objects import Object
from hsdns.explanation.report import ChangeReport, Explanation, Record, ServerAnswer, compare
from hsdns.explanation.text import MOST_ENDPOINTS, lines
from tests.support.cluster.explained import explain
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.tables import Row, rows

SCHEMA = Path(__file__).parents[2] / "docs" / "explain.schema.json"


def test_the_schema_is_that_of_the_documentation() -> None:
    assert json.loads(SCHEMA.read_text()) == json_schema(Explanation)


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


# The tree on a terminal.

MANY = [f"10.0.0.{number}" for number in range(1, 20)]


def test_a_tree() -> None:
    part = endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2 ready=false")
    found = explain(DB, namespace("shop"), service("shop/db"), part)
    assert list(lines(found)) == [
        "NOERROR: 1 of 2 endpoints of headless Service shop/db; 1 left out (not ready)",
        "",
        "db.shop.svc.cluster.local. A",
        "├─ server block cluster.local.:53: the only zone that has the name",
        "├─ kubernetes: answered NOERROR with 1 record",
        "├─ read as zone cluster.local., kind svc, namespace shop, service db",
        "├─ Service shop/db: headless, ports http/TCP/80, version 1",
        "│  └─ EndpointSlice db-1: IPv4, the ports of the Service, version 1",
        "│     ├─ 10.0.0.2  left out: not ready",
        "│     └─ 10.0.0.1 db-0  answered",
        "├─ records",
        "│  └─ db.shop.svc.cluster.local. 5 A 10.0.0.1",
        "│     └─ TTL 5 from `ttl` of kubernetes",
        "└─ other caches may keep this answer for 5 s",
    ]


def test_it_fits_a_screen() -> None:
    part = endpoint_slice("shop/db-1", "db", *MANY, "10.0.1.1 ready=false")
    tree = explain(DB, namespace("shop"), service("shop/db"), part)
    found = list(lines(tree, 60))
    assert max(map(len, found)) <= 60
    assert max(map(len, lines(tree))) > 60, "a pipe has no width"
    assert sum("  answered" in line for line in found) == MOST_ENDPOINTS - 1
    assert any("… and 14 more, 14 of them answered" in line for line in found)
    assert any("left out: not ready" in line for line in found)


def test_colours_only_where_they_are_wanted() -> None:
    found = explain(DB, namespace("shop"))
    assert not any("\x1b" in line for line in lines(found))
    assert next(lines(found, colour=True)).startswith("\x1b[31m")


def test_the_history() -> None:
    found = explain(DB, namespace("shop"), service("shop/db"))
    assert "no change since" in list(lines(found, with_history=True))[-1]
    change = ChangeReport(
        "2026-01-01T00:00:00.000Z", "changed", "EndpointSlice shop/db-1", "7",
        ["10.0.0.2 db-0"], ["10.0.0.1 db-0"], "2025-12-31T23:59:59Z", 1000.0,
    )  # fmt: skip
    told = structs.replace(found, history=[change])
    assert list(lines(told, 80, with_history=True))[-5:] == [
        "└─ last changes, the newest first",
        "   └─ 2026-01-01T00:00:00.000Z EndpointSlice shop/db-1 changed, version 7,",
        "      │ 1000 ms after it was written",
        "      ├─ + 10.0.0.2 db-0",
        "      └─ - 10.0.0.1 db-0",
    ]
    assert list(lines(told)) == list(lines(found))
