"""Which answers are right, stale or wrong, and when a change was shown."""

from pathlib import Path

import pytest

from loadtest.pressure.judge import Answer, History
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

OLD, NEW = frozenset("ab"), frozenset("bc")


def changed_at_10_and_20() -> History:
    history = History({"web-0": OLD, "web-1": OLD})
    history.change(10.0, "web-0", "a", "c")
    history.change(20.0, "web-0", "b", "d")
    return history


@pytest.mark.parametrize(
    ("given", "word"),
    columns(TABLES, "answers of a Service that is ab until 10 and bc until 20, then cd"),
)
def test_answer(given: str, word: str) -> None:
    """The times of a query and its answer, and the addresses."""
    asked, received, letters = given.split()
    history = changed_at_10_and_20()
    addresses = None if letters == "-" else frozenset(letters)
    assert history.judge(Answer("web-0", float(asked), float(received), addresses))[0] == word
    assert history.counts == {word: 1}


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "the age of the stalest answer, and the delays shown at the end of that Service"))  # fmt: skip
def test_delays(given: str, expected: str) -> None:
    """When a query was asked that was answered half a second later, and the addresses."""
    history, shown = changed_at_10_and_20(), list[float]()
    for asked, _, letters in (each.partition(":") for each in given.split()):
        addresses = None if letters == "-" else frozenset(letters)
        shown += history.judge(Answer("web-0", float(asked), float(asked) + 0.5, addresses))[1]
    age, *delays = map(float, expected.split())
    assert (history.worst_age, shown) == (age, delays)


def test_only_timed_services_have_delays() -> None:
    history = History({"a": ["10.0.0.1"], "b": ["10.0.0.1"]}, ["b"])
    for service in ("a", "b"):
        history.change(1.0, service, "10.0.0.1", "10.0.0.2")
    shown = [
        history.judge(Answer(service, 3.0, 3.5, frozenset({"10.0.0.2"}))) for service in ("a", "b")
    ]
    assert shown == [("right", []), ("right", [2.5])]
    history.change(4.0, "a", "10.0.0.2", "10.0.0.3")
    assert history.unshown(5.0, 6.0) == []
    assert history.judge(Answer("a", 5.0, 5.1, frozenset({"10.0.0.2"}))) == ("stale", [])
