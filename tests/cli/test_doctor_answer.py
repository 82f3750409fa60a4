"""Answers beside what is right."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.doctor.servers import seen_from, word_of
from hsdns.load.questions import Question
from hsdns.load.verify.judge import Answer
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.name import Name

QUESTION = Question(Name.from_text("db.shop.svc.cluster.local."), RRType.A, "doctor")
OLD = Answer(Rcode.NOERROR, frozenset({(1, bytes([10, 0, 0, 1]))}))
NEW = Answer(Rcode.NOERROR, frozenset({(1, bytes([10, 0, 0, 2]))}))


def printed(rcode: str, *records: str) -> list[dict[str, Any]]:
    answer = {"question": word_of(QUESTION), "rcode": rcode, "records": [[1, each] for each in records]}  # fmt: skip
    return [{"host": "10.96.0.10", "port": 53, "answers": [answer], "silence": "", "refused": False}]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "before", "after", "right", "lacks"),
    [
        (printed("NOERROR", "0a000001"), OLD, OLD, True, None),
        (printed("NOERROR", "0a000001"), OLD, NEW, True, None),
        (printed("NOERROR", "0a000002"), OLD, NEW, True, None),
        (printed("NOERROR", "0a000001"), NEW, NEW, False, ["A 10.0.0.2"]),
        (printed("NXDOMAIN"), NEW, NEW, False, ["A 10.0.0.2"]),
        (printed("NXDOMAIN"), None, None, True, None),
        (printed("SERVFAIL"), None, None, False, None),
    ],
)
def test_what_is_right_before_or_after(
    said: list[dict[str, Any]],
    before: Answer | None,
    after: Answer | None,
    right: bool,
    lacks: list[str] | None,
) -> None:
    (found,) = seen_from("Pod a/b", said, [QUESTION], [before], [after])
    (answer,) = found["answers"]
    assert (answer["right"], answer.get("lacks")) == (right, lacks)
    assert (found["role"], found["about"], found["address"]) == (
        "view",
        "Pod a/b",
        "10.96.0.10 port 53",
    )


@pytest.mark.parametrize(
    "said",
    [
        [{}],
        [{**printed("NOERROR")[0], "answers": [{"question": "other./A"}]}],
        printed("NOERROR", "xy"),
        printed("WHAT"),
    ],
)
def test_what_is_no_output_of_ask_is_refused(said: list[dict[str, Any]]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        seen_from("Pod a/b", said, [QUESTION], [OLD], [OLD])
