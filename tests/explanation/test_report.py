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

SCHEMA = Path(__file__).parents[2] / "docs" / "explain.schema.json"


def test_the_schema_is_that_of_the_documentation() -> None:
    assert json.loads(SCHEMA.read_text()) == schema()


# What a server answers, held against what the objects say.


OBJECTS_ELSEWHERE: list[Object] = [namespace("shop"), service("shop/db"), endpoint_slice("shop/db-1", "db", "10.0.0.1", "10.0.0.2")]  # fmt: skip
DB = "db.shop.svc.cluster.local."
OWN = tuple(Record(DB, 3, "A", f"10.0.0.{last}") for last in (2, 1))
SRV = Record(DB, 3, "SRV", f"0 50 80 10-0-0-1.{DB}")


@pytest.mark.parametrize(
    ("question", "answer", "differences"),
    [
        (DB, ServerAnswer("NOERROR", OWN), []),
        (DB, ServerAnswer("NOERROR", OWN[:1]), ["it does not answer 10.0.0.1"]),
        (DB, ServerAnswer("NOERROR", (*OWN, Record(DB, 7, "A", "10.0.0.9"))),
         ["it still answers 10.0.0.9, for 7 s more, which no object has now"]),
        (DB, ServerAnswer("NXDOMAIN", (), "cluster.local.", 5),
         ["it answers NXDOMAIN for 5 s more, but the name has 2 records; it may have stored that before the name existed"]),
        (DB, ServerAnswer("NXDOMAIN", (), ".", 900),
         ["it answers NXDOMAIN for 900 s more, but the name has 2 records; its SOA record is of ., so it asked in another "
          "zone than cluster.local."]),
        (DB, ServerAnswer("NOERROR"), ["it answers no records, but the name has 2 records"]),
        (DB, ServerAnswer("REFUSED"),
         ["it answers REFUSED: it serves no zone of the name, or not for this client"]),
        (DB, ServerAnswer("SERVFAIL"),
         ["it answers SERVFAIL: it could not find out, or has not read the cluster yet"]),
        (DB, ServerAnswer("NOTIMP"), ["it answers NOTIMP"]),
        (DB, ServerAnswer(error="it did not answer within 5 s"), ["it did not answer within 5 s"]),
        (f"x.{DB}", ServerAnswer("NXDOMAIN", (), "cluster.local.", 5), []),
        (f"x.{DB}", ServerAnswer("NOERROR", (Record(f"x.{DB}", 9, "A", "10.0.0.5"),)),
         ["it still answers 10.0.0.5, for 9 s more, which no object has now"]),
        (f"x.{DB}", ServerAnswer("NOERROR", (), "cluster.local.", 5),
         ["it answers no records for 5 s more, not NXDOMAIN; it may have stored that before the name existed"]),
        (f"10-0-0-1.{DB} SRV", ServerAnswer("NOERROR", (SRV,)), []),
    ],
)  # fmt: skip
def test_differences(question: str, answer: ServerAnswer, differences: list[str]) -> None:
    found = compare(explain(question, *OBJECTS_ELSEWHERE), "192.0.2.1", answer)
    assert (found.address, found.rcode, found.differences) == ("192.0.2.1", answer.rcode, differences)  # fmt: skip


def test_nothing_differs_from_what_is_not_known() -> None:
    unknown = structs.replace(explain(DB, *OBJECTS_ELSEWHERE), outcome="could not tell", records=[])
    assert compare(unknown, "192.0.2.1", ServerAnswer("NOERROR", OWN)).differences == []
