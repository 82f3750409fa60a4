"""What msgspec says of a wrong type, in our words."""

from __future__ import annotations

import pytest

from hsdns.sources.manifest_file import wrong_type


@pytest.mark.parametrize(
    ("message", "field", "sentence"),
    [
        ("Expected `int`, got `str` - at `$.spec.ports[0].port`", "spec.ports[0].port", "expected a whole number, found text; write the number without quotes"),
        ("Expected `str | null`, got `bool` - at `$.spec.a`", "spec.a", "expected text, found true or false; put it in quotes"),
        ("Expected `object`, got `array`", "object", "expected a mapping, found a list; correct the value"),
        ("Object missing required field `name` - at `$.metadata`", "metadata.name", "the field is missing; add it"),
        ("Object missing required field `metadata`", "metadata", "the field is missing; add it"),
        ("Number out of range - at `$.spec.a`", "spec.a", "number out of range; correct the value"),
    ],
)  # fmt: skip
def test_a_message_has_the_field_and_a_remedy(message: str, field: str, sentence: str) -> None:
    found = wrong_type(message)
    assert (found.field, str(found)) == (field, f"{field}: {sentence}")
