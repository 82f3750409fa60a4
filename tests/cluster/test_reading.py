"""What is read on demand, by default nothing."""

from __future__ import annotations

from hsdns.cluster.reading import Lead, Reading


def test_nothing_leads_to_nothing() -> None:
    assert Lead() == ((), (), "", False)
    assert Reading() == ((), ())
