"""A value of another type than a field has, as msgspec tells it.

Path: manifest_file.py -> here.
"""

from __future__ import annotations

import re
from typing import Final

from hsdns.cluster.controllers.api_values import Refused

_WORDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a decimal number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def wrong_type(message: str) -> Refused:
    """The field that a message of msgspec is about, with a sentence in our words."""
    text, _, path = message.partition(" - at ")
    path = (
        path.replace("`key` in ", "")
        .strip("`")
        .removeprefix("$")
        .removeprefix(".")
        .replace("[...]", "")
    )
    missing = re.match(r"Object missing required field `(\w+)`", text)
    if missing:
        field = f"{path}.{missing[1]}" if path else missing[1]
        return Refused(field, "the field is missing; add it")
    found = re.match(r"Expected `([^`]+)`, got `(\w+)`", text)
    if not found:
        return Refused(path or "object", f"{text[:1].lower()}{text[1:]}; correct the value")
    allowed = [word for word in found[1].split(" | ") if word != "null"]
    wanted = " or ".join(_WORDS.get(word, word) for word in allowed)
    remedy = "correct the value"
    if "str" in allowed and found[2] in {"int", "float", "bool"}:
        remedy = "put it in quotes"
    elif allowed == ["int"] and found[2] == "str":
        remedy = "write the number without quotes"
    return Refused(
        path or "object", f"expected {wanted}, found {_WORDS.get(found[2], found[2])}; {remedy}"
    )
