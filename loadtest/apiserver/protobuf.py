"""Writes objects of the fake API server as protobuf, as a real server would encode the same JSON.

Path: fake_cluster.py, if a request accepts protobuf -> here.
Rule 1: it has the fields that tests use.  As in Go's generated code, fields are written in the order of their numbers,
        and those that are not pointers also if they are empty.
Rule 2: a body that is not the JSON of an object is passed on unchanged, because a test wants the client to see it.
Source: generated.proto of k8s.io/api core/v1 and discovery/v1, and of k8s.io/apimachinery meta/v1 and runtime.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from hsdns.apiserver.resource import PROTOBUF
from hsdns.wire.protobuf import field, varint

MAGIC: Final = b"k8s\0"
_WITHOUT_REFERENCES: Final = 2  # the version of marshal in which equal values are written alike


def accepts_protobuf(accept: str) -> bool:
    """Whether an Accept header contains protobuf."""
    return PROTOBUF in accept


def write_object(found: Mapping[str, Any]) -> bytes:
    """Encode an object, or a list of objects, as the body of a response."""
    kind = found["kind"]
    if kind.endswith("List"):
        items = (field(2, _message(kind[:-4], each)) for each in found["items"] or ())
        octets = field(1, _message("ListMeta", found["metadata"])) + b"".join(items)
    else:
        octets = _message(kind, found)
    types = field(1, found.get("apiVersion", "").encode()) + field(2, kind.encode())
    return MAGIC + field(1, types) + field(2, octets) + field(3, b"") + field(4, b"")


def write_body(body: bytes) -> bytes:
    """Encode a JSON body as protobuf."""
    return write_object(json.loads(body))


def write_frame(line: bytes) -> bytes:
    """Encode the line of a watch as its frame."""
    try:
        event = json.loads(line)
        frame = field(1, event["type"].encode()) + field(2, field(1, write_object(event["object"])))
    except (ValueError, TypeError, KeyError):
        return line
    return len(frame).to_bytes(4, "big") + frame


class _Field(NamedTuple):
    """A field of protobuf.txt; `head` is written before a string or message, `empty` if it is missing."""

    number: int
    name: str
    is_map: bool
    is_list: bool
    kind: str
    head: bytes
    empty: bytes


def _message(kind: str, found: Mapping[str, Any]) -> bytes:
    written: list[bytes] = []
    for part in _FIELDS[kind]:
        value = found.get(part.name)
        if value is None:
            written.append(part.empty)
        elif part.is_map:
            pairs = (field(1, _text(key)) + field(2, _text(value[key])) for key in sorted(value))
            written += [part.head + varint(len(pair)) + pair for pair in pairs]
        else:
            for each in value if part.is_list else (value,):
                octets = _value(part.kind, each)
                if isinstance(octets, int):
                    written.append(field(part.number, octets))
                else:
                    written += (part.head, varint(len(octets)), octets)
    return b"".join(written)


@lru_cache(maxsize=1 << 17)
def _known_message(kind: str, marshalled: bytes) -> bytes:
    return _message(kind, marshal.loads(marshalled))


def _value(kind: str, value: Any) -> bytes | int:
    if kind == "Time":
        return field(1, int(datetime.fromisoformat(value).timestamp()))
    if kind == "IntOrString":
        is_text = isinstance(value, str)
        return (
            field(1, int(is_text))
            + field(2, 0 if is_text else value)
            + field(3, _text(value) if is_text else b"")
        )
    if kind == "Endpoint":  # of a slice that has changed, nearly all are as they were
        return _known_message(kind, marshal.dumps(value, _WITHOUT_REFERENCES))
    if kind:
        return _message(kind, value)
    return int(value) if isinstance(value, int) else _text(value)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _read_field(number: int, text: str) -> _Field:
    name, _, kind = text.partition("=")
    return _Field(
        number,
        name.rstrip("!{}[]"),
        name.endswith("{}"),
        name.endswith("[]"),
        kind,
        varint(number << 3 | 2),
        field(number, b"") if name.endswith("!") else b"",
    )


def _read_table(text: str) -> dict[str, list[_Field]]:
    """The fields of each message, in the order of their numbers."""
    table = {}
    for line in text.splitlines():
        kind, _, words = line.partition(":")
        fields = iter(words.split())
        table[kind] = [
            _read_field(int(number), name) for number, name in zip(fields, fields, strict=True)
        ]
    return table


_LINES: Final = Path(__file__).with_name("protobuf.txt").read_text().split("\n", 2)[2]
_FIELDS: Final = _read_table(_LINES)
