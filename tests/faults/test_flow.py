"""Conditions about five-tuples, each with a history of queries."""

from __future__ import annotations

import pytest

from hsdns.faults import selector
from tests.faults.queries import marks

A, B = "10.0.0.1#1000", "10.0.0.1#1001"


@pytest.mark.parametrize(
    ("text", "queries", "expected"),
    [
        ("flow first", f"x. {A} | x. {A} | x. {B} | x. {A} tcp | x. {A}", "10110"),
        ("flow first", f"x. {A} to=10.96.0.1 | x. {A} to=10.96.0.2", "11"),
        # What glibc sends: A and AAAA from one socket, then again.
        ("flow second 1ms", f"x. A {A} @0 | x. AAAA {A} @0.0002 | x. A {A} @5 | x. AAAA {A} @5.0001", "0100"),
        ("flow second 1ms", f"x. A {A} @0 | x. AAAA {A} @0.002", "00"),
        # What Go sends: a socket for each.
        ("flow second 1ms", f"x. A {A} @0 | x. AAAA {B} @0.0001", "00"),
        ("flow second 1ms type AAAA", f"x. A {A} @0 | x. AAAA {A} @0.0002", "01"),
        ("type AAAA flow second 1ms", f"x. A {A} @0 | x. AAAA {A} @0.0002", "01"),
        ("type AAAA flow first", f"x. A {A} | x. AAAA {A}", "00"),
        ("flow existing 5s", f"x. {A} @1 | x. {A} @4.9 | x. {A} @5 | x. {B} @6 | x. {A} @7 | x. {B} @8", "001010"),
        ("flow new 5s", f"x. {A} @1 | x. {A} @5 | x. {B} @6 | x. {A} @7 | x. {B} @8", "00101"),
        ("not flow first", f"x. {A} | x. {A}", "01"),
    ],
)  # fmt: skip
def test_histories(text: str, queries: str, expected: str) -> None:
    assert marks(text, queries) == expected


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The five-tuple that was seen first is forgotten, and is new when it comes again."""
    monkeypatch.setattr(selector, "MAX_REMEMBERED", 2)
    assert marks("flow first", f"x. {A} | x. {B} | x. 10.0.0.2 | x. {B} | x. {A}") == "11101"
