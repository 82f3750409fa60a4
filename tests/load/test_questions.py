"""Questions, their order, and the files that have them: questions.txt."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.errors import LoadError
from hsdns.load.pods import Target
from hsdns.load.questions import ABSENT, Question, Questions, order, read_queries
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import CD, RD
from hsdns.wire.name import Name
from tests.load.pod_plans import VAULT, plan
from tests.support.tables import lines

WWW = Question(Name.from_text("www.a.test."), RRType.SRV, "file")


@pytest.mark.parametrize(
    ("question", "flags", "edns"),
    [
        (WWW._replace(flags=CD), CD, Edns(4096)),
        (WWW._replace(own_edns=0), RD, None),
        (WWW._replace(own_edns=1232, do=True, flags=RD | CD), RD | CD, Edns(1232, do=True)),
    ],
)
def test_a_query_as_it_was_recorded(question: Question, flags: int, edns: Edns | None) -> None:
    query = decode(b"\0\0" + question.octets(4096))
    assert (query.flags, query.edns) == (flags, edns)


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), seed=st.integers())
def test_drawn_by_weight(weights: list[int], seed: int) -> None:
    drawn = list(islice(order(len(weights), weights, seed), 1000))
    assert drawn == list(islice(order(len(weights), weights, seed), 1000))
    for number, count in Counter(drawn).items():
        share = weights[number] / sum(weights)
        assert share > 0
        assert abs(count - 1000 * share) <= 6 * (1000 * share * (1 - share)) ** 0.5 + 6


def test_the_first_one_exists() -> None:
    absent = WWW._replace(group=ABSENT)
    assert Questions([absent, WWW]).first == WWW
    assert Questions([absent]).first == absent
    pods = plan(targets=[Target("x", "bank", ABSENT), VAULT])
    first = Questions([], pods=pods).first
    assert (first.name.to_text(), first.qtype, first.group) == (
        "v-0.vault.bank.svc.cluster.local.",
        RRType.A,
        "endpoint",
    )


@pytest.mark.parametrize("row", lines(Path(__file__).with_name("questions.txt")))
def test_files(row: str) -> None:
    text, expected = row.split(" => ")
    try:
        found = read_queries(json.loads(text).splitlines(keepends=True), "q.txt")
    except LoadError as error:
        assert str(error) == expected
    else:
        assert {each.group for each in found} == {"file"}
        told = [f"{each.name.to_text()} {type_to_text(each.qtype)}" for each in found]
        assert ", ".join(told) == expected
