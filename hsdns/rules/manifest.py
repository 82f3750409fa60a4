"""An object as written in a file, with the positions of its fields.

Path: reading.py -> here -> objects.py, checks/.
Rule: positions in an object in JSON are computed on demand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from hsdns.cluster.controllers.api_values import Refused
from hsdns.cluster.controllers.kinds import Manifest as Kind
from hsdns.corefile.tree import Position
from hsdns.rules.finding import Edit, Remark
from hsdns.sources.field_position import field_node, field_place, json_node
from hsdns.sources.manifest_file import ObjectRead

_PLAIN: Final = re.compile(r"[a-z][a-z0-9.-]*")
_WORDS: Final = frozenset("true false yes no on off null y n".split())


class Manifest:
    """One object of a file, whose content is `whole`.

    `object` is None for kinds that are not checked, `group` is its API group, empty for the core group, and `namespace`
    is empty if it is not set.
    """

    __slots__ = (
        "_content",
        "_line",
        "_node",
        "_raw",
        "_whole",
        "file",
        "group",
        "kind",
        "metadata",
        "name",
        "namespace",
        "object",
        "refused",
        "remarks",
    )

    def __init__(self, read: ObjectRead, file: str, whole: bytes = b"") -> None:
        item = read.item
        assert item is not None, "the caller has looked"
        self.file = file
        version = item.head.api_version
        self.group = version.rpartition("/")[0] if isinstance(version, str) else ""
        self.kind = item.head.kind if isinstance(item.head.kind, str) else ""
        self.metadata: Mapping[str, Any] = (
            item.head.metadata if isinstance(item.head.metadata, dict) else {}
        )
        self.name = _text(self.metadata.get("name"))
        self.namespace = _text(self.metadata.get("namespace"))
        self.object: Kind | None = read.document.object if read.document is not None else None
        self.refused: Refused | None = read.problem.fault if read.problem is not None else None
        is_named_later = not self.name and bool(_text(self.metadata.get("generateName")))
        if is_named_later and self.refused is not None and self.refused.field == "metadata.name":
            self.refused = None  # kubectl create accepts it; only a simulated cluster does not
        self.remarks = list(read.remarks)
        self._content = item.value
        self._node = item.node
        self._line = 1 if item.node is not None else item.line
        self._raw = bytes(item.value) if isinstance(item.value, msgspec.Raw) else b""
        self._whole = whole

    def __str__(self) -> str:
        name = self.name or _text(self.metadata.get("generateName"))
        path = f"{self.namespace}/{name}" if self.namespace else name
        return f"{self.kind} {path}"

    @property
    def content(self) -> Any:
        """The object as written, decoded; an empty mapping if it cannot be decoded."""
        if isinstance(self._content, msgspec.Raw):
            try:
                self._content = msgspec.json.decode(self._content)
            except (msgspec.DecodeError, RecursionError):
                self._content = {}
        return self._content if isinstance(self._content, dict) else {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations whose values are text."""
        found = self.metadata.get("annotations")
        listed = found.items() if isinstance(found, dict) else ()
        return {key: value for key, value in listed if isinstance(value, str)}

    def at(self, field: str) -> Position:
        """The position of a field, or of its nearest parent in the file."""
        line, column = field_place(self.node, field) if self.node is not None else (1, 1)
        return Position(
            self.file, line + self._line - 1, column + (self._column if line == 1 else 0)
        )

    def remark(
        self, field: str, sentence: str, *, level: str = "", at: str = "", edit: Edit | None = None
    ) -> Remark:
        """Make a remark about a field; `at` is the field with the position, if it is another."""
        return Remark(self.at(at or field), str(self), field, sentence, level, edit)

    def replaced(self, field: str, text: str) -> Edit | None:
        """The edit that replaces the value of a field; None if that is not one word on one line.

        The new word has the quotes of the old one, and quotes if it would not be text without them.
        """
        node = field_node(self.node, field)
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">"):
            return None
        if node.start_mark.line != node.end_mark.line:
            return None
        start, end = (
            Position(
                self.file,
                mark.line + self._line,
                mark.column + 1 + (0 if mark.line else self._column),
            )
            for mark in (node.start_mark, node.end_mark)
        )
        quote = node.style or ("" if _PLAIN.fullmatch(text) and text not in _WORDS else '"')
        return Edit(start, end, f"{quote}{text}{quote}")

    @property
    def _column(self) -> int:
        """The column at which an object in JSON begins: its text is parsed separately."""
        before = self._whole.find(self._raw) if self._raw else -1
        return (
            len(self._whole[:before].rpartition(b"\n")[2].decode("utf-8", "replace"))
            if before > 0
            else 0
        )

    @property
    def node(self) -> Any:
        """The YAML node."""
        if self._node is None and isinstance(self._content, msgspec.Raw):
            self._node = json_node(bytes(self._content))
        elif self._node is None:
            self._node = json_node(msgspec.json.encode(self._content))
        return self._node


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
