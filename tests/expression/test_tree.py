from __future__ import annotations

import pytest

from hsdns.expression import tree


def test_nodes_are_values() -> None:
    one = tree.Binary(1, "+", tree.Literal(0, 1), tree.Identifier(2, "a"))
    assert one == tree.Binary(1, "+", tree.Literal(0, 1), tree.Identifier(2, "a"))
    with pytest.raises(AttributeError, match="immutable"):
        one.at = 3  # type: ignore[misc]  # what is tested
