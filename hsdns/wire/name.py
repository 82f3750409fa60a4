"""Domain names: wire form with its original case, compared regardless of case.

Path: every step.  The case is preserved (0x20, RFC 4343).
Rule 1: a Name is always absolute, valid (labels of 1 to 63 octets, 255 in all) and uncompressed.
Rule 2: text is never a key: a label may contain a dot, so different names may have the same unescaped text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

MAX_NAME_LEN: Final = 255  # RFC 1035 section 2.3.4
MAX_LABEL_LEN: Final = 63

# How an octet is written where it is not written as itself.
_ESCAPES: Final = {each: f"\\{each:03d}" for each in range(256) if not 0x20 < each < 0x7F} | {
    ord(each): f"\\{each}" for each in '."();@$\\'
}


class Name:
    """An absolute, immutable domain name."""

    __slots__ = ("_labels", "lower", "wire")

    wire: bytes
    lower: bytes

    def __init__(self, wire: bytes) -> None:
        """Store the uncompressed wire form, which the caller has validated (decode, from_text, from_labels)."""
        self.wire = wire
        # Length octets are at most 63, below 'A' (65), so lower() never touches them.
        self.lower = wire.lower()
        self._labels: tuple[bytes, ...] | None = None

    @classmethod
    def from_labels(cls, labels: tuple[bytes, ...] | list[bytes]) -> Self:
        """Make a name from its labels, leftmost first; raise ValueError if one or the name is too long."""
        for label in labels:
            if not label:
                raise ValueError("a label is empty")
            if len(label) > MAX_LABEL_LEN:
                raise ValueError(f"label {label!r} has {len(label)} octets, over {MAX_LABEL_LEN}")
        wire = labels_to_wire(labels) + b"\0"
        if len(wire) > MAX_NAME_LEN:
            raise ValueError(f"name has {len(wire)} octets, allowed are {MAX_NAME_LEN}")
        return cls(wire)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse presentation form (RFC 1035 section 5.1), with or without the final dot; raise ValueError."""
        if text in (".", ""):
            return cls(b"\0")
        if "\\" not in text and text.isascii():
            return cls.from_labels([label.encode() for label in text.removesuffix(".").split(".")])
        return cls.from_labels(_unescape(text))

    @property
    def labels(self) -> tuple[bytes, ...]:
        """The labels in lower case, leftmost first, without that of the root."""
        if self._labels is None:
            found = []
            lower, at = self.lower, 0
            while length := lower[at]:
                found.append(lower[at + 1 : at + 1 + length])
                at += 1 + length
            self._labels = tuple(found)
        return self._labels

    def is_at_or_below(self, zone: Name) -> bool:
        """Whether this name is the zone's apex or below it."""
        mine, theirs = self.lower, zone.lower
        if len(theirs) == 1 or mine == theirs:  # the root is above all
            return True
        if not mine.endswith(theirs):
            return False
        cut, at = len(mine) - len(theirs), 0
        while at < cut:
            at += 1 + mine[at]
        return at == cut

    def longest_of(self, zones: Iterable[Name]) -> Name | None:
        """Return the longest of some zones that contains this name, None if none does."""
        found = None
        for zone in zones:
            if self.is_at_or_below(zone) and (found is None or len(zone.lower) > len(found.lower)):
                found = zone
        return found

    def below(self, zone: Name) -> tuple[bytes, ...]:
        """Return the lower-case labels left of `zone`; the name must be at or below it."""
        return self.labels[: len(self.labels) - len(zone.labels)]

    def ancestors(self) -> list[bytes]:
        """Return the lower-case wire forms of this name and all its parents, longest first, the root last."""
        lower, at, found = self.lower, 0, []
        while length := lower[at]:
            found.append(lower[at:])
            at += 1 + length
        found.append(b"\0")
        return found

    def lowered(self) -> Name:
        """Return the name in lower case."""
        return self if self.lower == self.wire else Name(self.lower)

    def to_text(self) -> str:
        """Return presentation form with the final dot, in the original case."""
        wire, at, parts = self.wire, 0, []
        if wire == b"\0":
            return "."
        while length := wire[at]:
            parts.append(wire[at + 1 : at + 1 + length].decode("latin-1").translate(_ESCAPES))
            at += 1 + length
        return ".".join(parts) + "."

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and self.lower == other.lower

    def __hash__(self) -> int:
        return hash(self.lower)

    def __repr__(self) -> str:
        return f"Name({self.to_text()!r})"


ROOT: Final = Name(b"\0")
_LENGTHS: Final = [bytes((length,)) for length in range(256)]


def labels_to_wire(labels: Iterable[bytes]) -> bytes:
    """Labels in wire form, without the root's."""
    return b"".join([_LENGTHS[len(label)] + label for label in labels])


def _unescape(text: str) -> list[bytes]:
    labels, label, at = [], bytearray(), 0
    raw = text.encode("utf-8", "surrogateescape")
    while at < len(raw):
        octet = raw[at]
        if octet == 0x2E:
            labels.append(bytes(label))
            label.clear()
        elif octet == 0x5C:
            digits = raw[at + 1 : at + 4]
            if len(digits) == 3 and digits.isdigit():
                if int(digits) > 255:
                    raise ValueError(f'"\\{digits.decode()}" in "{text}" is not an octet')
                label.append(int(digits))
                at += 3
            elif at + 1 < len(raw):
                label.append(raw[at + 1])
                at += 1
            else:
                raise ValueError(f'"{text}" ends in a backslash')
        else:
            label.append(octet)
        at += 1
    if label:
        labels.append(bytes(label))
    return labels


def after_name(wire: bytes, at: int) -> int:
    """Return the offset after a name in a message, without following pointers; raise IndexError if the message ends."""
    while length := wire[at]:
        if length >= 0xC0:
            return at + 2
        at += 1 + length
    return at + 1
