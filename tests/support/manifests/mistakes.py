"""One field of a valid object set to another value: mistakes.yaml has the rows, of what is refused and of what is accepted."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.manifests.documents import documents

(_ROWS,) = documents(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


class Mistake(NamedTuple):
    """An object, and the sentence about it, "" if it is accepted; `at` is the field in the sentence.

    `stored`: an API server accepts it.  `judged` is False if an API server cannot be asked.
    """

    id: str
    manifest: dict[str, Any]
    at: str
    sentence: str
    stored: bool = False
    judged: bool = True


def _mistake(
    name: str, kind: str, field: str, value: object, sentence: str = "", also: Any = None
) -> Mistake:
    made = place = copy.deepcopy(_ROWS["objects"][kind])
    *above, last = [
        int(word) if word.isdigit() else word for word in re.findall(r"[^.\[\]]+", field)
    ]
    for step in above:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    if value == "GONE":
        del place[last]
    else:
        place[last] = value
    return Mistake(name, made, **{"at": field, "sentence": sentence} | (also or {}))


def mistakes(section: str) -> list[Mistake]:
    """The rows of a section: `refused` or `accepted`."""
    return [_mistake(*row) for row in _ROWS[section]]
