"""What has endpoints, and what is added to it."""

from __future__ import annotations

from hsdns.cluster.selector import Selector
from hsdns.explanation.candidates import selected


def test_labels_that_a_selector_wants() -> None:
    selector = Selector.from_text("a,b in (y,x),c!=z,!d")
    assert selected(selector, {"e": "1"}) == {"e": "1", "a": "true", "b": "x"}
    assert selector.matches(selected(selector))
    assert selected(None) == {}
