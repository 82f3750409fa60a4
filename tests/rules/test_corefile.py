"""Corefiles of their own, and in ConfigMaps."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.objects import (
    CorefileText,
    directive_of,
    is_of_root,
    ports_of,
    property_of,
    zones_of,
)

TEXT = """.:53 example.com:54 {
    health {
        lameduck 5s
    }
    forward . 10.0.0.1
}
"""


def test_parts_of_a_block() -> None:
    (block,) = CorefileText("Corefile", TEXT).blocks
    health = directive_of(block, "health")
    assert health is not None
    assert property_of(health, "lameduck") == "5s"
    assert property_of(health, "other") is None
    assert directive_of(block, "ready") is None
    assert [zone.to_text() for zone in zones_of(block)] == [".", "example.com."]
    assert ports_of(block) == {53, 54}
    assert is_of_root(block)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (TEXT, []),
        (". {\n import other/*.server\n}\n", []),
        (". {\n mine\n}\n", []),
        (". {\n forwrad . 1.1.1.1\n}\n", ['unknown directive "forwrad"; did you mean "forward"?']),
    ],
)
def test_errors(text: str, messages: list[str]) -> None:
    corefile = CorefileText("Corefile", text)
    assert len(corefile.blocks) == 1
    assert [each.message for each in corefile.errors] == messages


@pytest.mark.parametrize(
    ("is_moved", "at"), [(False, Position("a.yaml", 14, 9)), (True, Position("a.yaml", 10, 5))]
)
def test_places_in_a_config_map(is_moved: bool, at: Position) -> None:
    corefile = CorefileText(
        "a.yaml", TEXT, line=10, indent=4, owner="ConfigMap dns", is_moved=is_moved
    )
    ((_, directive),) = corefile.directives("forward")
    remark = corefile.remark(directive.name.position, "forward", "wrong")
    assert (remark.position, remark.place) == (at, "ConfigMap dns")
