"""Changes of options that leave out objects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hsdns.explanation.candidates import without_ignore, without_labels, without_namespace_labels
from hsdns.explanation.scene import Change, Scene


@pytest.mark.parametrize(
    ("of", "option", "made"),
    [
        (without_labels, "`labels` ", Scene({}, {}, {"labels": None})),
        (without_namespace_labels, "`namespace_labels` ", Scene({}, {}, {"namespace_labels": None})),
        (without_ignore, "`ignore empty_service` ", Scene({}, {"ignore": False}, {})),
    ],
)  # fmt: skip
def test_option(of: Callable[[str], Change], option: str, made: Scene) -> None:
    change = of("Service shop/db")
    assert change.place == "Corefile"
    assert change.cause.startswith(option)
    assert "Service shop/db" in change.cause
    assert change.needed.startswith(option)
    assert change.make(Scene({})) == made
