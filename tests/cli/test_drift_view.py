"""What `-against` prints."""

from __future__ import annotations

import json

import pytest

from hsdns.cli.drift import Compared, formatted
from hsdns.corefile.tree import Position
from hsdns.rules.drift import Difference, Drift

HERE, THERE = Position("a.yaml", 4, 3), Position("b.yaml", 5, 7)
DRIFT = Drift(
    [
        Difference("Service shop/db", "spec.selector", "app=db", None, HERE, THERE),
        Difference("Service shop/web", "", None, "present", None, THERE),
    ],
    {"Service": 2, "StatefulSet": 0},
    [],
)
COMPARED = Compared(DRIFT, "a", "b", [], with_places=False)
NOTHING = COMPARED._replace(drift=Drift([], {"Service": 1}, []), problems=["why"])


@pytest.mark.parametrize(
    ("compared", "text"),
    [
        (
            COMPARED,
            "Service shop/db: spec.selector: here app=db, there none\n"
            "Service shop/web: here absent, there present\n"
            "\n"
            "2 differences in 2 Services and no StatefulSets of a (here) and b (there)",
        ),
        (
            COMPARED._replace(with_places=True),
            "a.yaml:4:3: Service shop/db: spec.selector: here app=db, there none (b.yaml:5:7)\n"
            "b.yaml:5:7: Service shop/web: here absent, there present\n"
            "\n"
            "2 differences in 2 Services and no StatefulSets of a (here) and b (there)",
        ),
        (NOTHING, "no differences in 1 Service of a (here) and b (there) (1 not compared)"),
    ],
)
def test_text(compared: Compared, text: str) -> None:
    assert "\n".join(formatted(compared, "text")) == text


def test_json() -> None:
    value = json.loads("\n".join(formatted(COMPARED._replace(problems=["why"]), "json")))
    assert value == {
        "here": "a",
        "there": "b",
        "differences": [
            {"object": "Service shop/db", "field": "spec.selector", "here": "app=db", "there": None},
            {"object": "Service shop/web", "field": "", "here": None, "there": "present"},
        ],
        "compared": {"Service": 2, "StatefulSet": 0},
        "unread": ["why"],
    }  # fmt: skip


def test_json_with_places() -> None:
    value = json.loads("\n".join(formatted(COMPARED._replace(with_places=True), "json")))
    assert [(each["here_at"], each["there_at"]) for each in value["differences"]] == [
        (HERE._asdict(), THERE._asdict()),
        (None, THERE._asdict()),
    ]


def test_github() -> None:
    assert "\n".join(formatted(COMPARED._replace(problems=["why"]), "github")) == (
        "::warning file=a.yaml,line=4,col=3,title=Service shop/db differs::"
        "Service shop/db: spec.selector: here app=db, there none\n"
        "::warning file=b.yaml,line=5,col=7,title=Service shop/web is on one side only::"
        "Service shop/web: here absent, there present\n"
        "::warning::why"
    )
