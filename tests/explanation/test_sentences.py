"""The sentences of an explanation, whole, over a table of questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cluster.objects import Selector
from hsdns.explanation.candidates import PIECE, Candidates, selected
from hsdns.explanation.text import lines
from tests.support.cluster.explained import explain_row, explained, said_of
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.tables import Row, rows


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("sentences.txt")))
def test_sentences(row: Row) -> None:
    said = {
        word: [f"{word} {each}".strip() for each in found]
        for word, found in said_of(explain_row(row.given)).items()
    }
    words = {
        word for word in said if word and any(each.startswith(f"{word} ") for each in row.expected)
    }
    if not row.expected[0].startswith(tuple(f"{word} " for word in words)):
        words.add("")
    assert [each for word, found in said.items() if word in words for each in found] == row.expected


def test_labels_that_a_selector_wants() -> None:
    selector = Selector.from_text("a,b in (y,x),c!=z,!d")
    assert selected(selector, {"e": "1"}) == {"e": "1", "a": "true", "b": "x"}
    assert selector.matches(selected(selector))
    assert selected(selector, {"b": "y"}) == {"a": "true", "b": "y"}
    assert selected(None) == {}


def test_a_service_import_in_the_tree() -> None:
    found = explain_row(
        "db.shop.svc.clusterset.local.\nnamespace shop\nimport shop/db Headless\nmulticluster\n"
        "slice shop/db-1 - labels:multicluster.kubernetes.io/service-name=db | 10.0.0.1 host=db-0"
    )
    assert "├─ ServiceImport shop/db: headless, ports http/TCP/80, version 1" in list(lines(found))


def test_others_run_meanwhile() -> None:
    db, part = service("shop/db"), endpoint_slice("shop/db-1", "db", *["10.0.0.1"] * 10 * PIECE)
    question = explained("db-9.db.shop.svc.cluster.local.", namespace("shop"), db, part)
    replay, scene, kept, qname, _ = question
    parsed = replay.block.answers.lookup.parse(qname, replay.zone)
    assert parsed is not None
    found = list(Candidates(parsed, scene, kept, replay))
    assert found[:10] == [None] * 10
    assert [each.place for each in found if each is not None] == ["Service shop/db"]
