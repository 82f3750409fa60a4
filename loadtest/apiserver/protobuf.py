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
from typing import Any, Final, NamedTuple

from hsdns.apiserver.resource import PROTOBUF

MAGIC: Final = b"k8s\0"
_WITHOUT_REFERENCES: Final = 2  # the version of marshal in which equal values are written alike

# Fields by number: "name" of text, a number or a truth value; "name{}" a map; "name[]" texts; "name=TYPE" a message,
# "name[]=TYPE" several; "name!" is also written if it is missing.
_TABLE: Final = {
    "Meta": {
        1: "name!", 3: "namespace!", 5: "uid!", 6: "resourceVersion!", 8: "creationTimestamp=Time",
        9: "deletionTimestamp=Time", 11: "labels{}", 12: "annotations{}",
    },
    "Service": {1: "metadata=Meta", 2: "spec=ServiceSpec", 3: "status=ServiceStatus"},
    "ServiceSpec": {
        1: "ports[]=ServicePort", 2: "selector{}", 3: "clusterIP!", 4: "type!", 5: "externalIPs[]",
        7: "sessionAffinity!", 10: "externalName!", 13: "publishNotReadyAddresses", 17: "ipFamilyPolicy",
        18: "clusterIPs[]", 19: "ipFamilies[]",
    },
    "ServicePort": {1: "name!", 2: "protocol!", 3: "port", 4: "targetPort=IntOrString", 5: "nodePort"},
    "ServiceStatus": {1: "loadBalancer=LoadBalancer"},
    "LoadBalancer": {1: "ingress[]=Ingress"},
    "Ingress": {1: "ip!", 2: "hostname!"},
    "EndpointSlice": {1: "metadata=Meta", 2: "endpoints[]=Endpoint", 3: "ports[]=EndpointPort", 4: "addressType!"},
    "Endpoint": {
        1: "addresses[]", 2: "conditions=Conditions", 3: "hostname", 4: "targetRef=Reference", 6: "nodeName", 7: "zone",
    },
    "Conditions": {1: "ready", 2: "serving", 3: "terminating"},
    "Reference": {1: "kind!", 2: "namespace!", 3: "name!", 4: "uid!"},
    "EndpointPort": {1: "name", 2: "protocol", 3: "port", 4: "appProtocol"},
    "Namespace": {1: "metadata=Meta", 2: "spec=Empty", 3: "status=Empty"},
    "Pod": {1: "metadata=Meta", 2: "spec=PodSpec", 3: "status=PodStatus"},
    "PodSpec": {16: "hostname!", 17: "subdomain!"},
    "PodStatus": {1: "phase!", 2: "conditions[]=PodCondition", 5: "hostIP!", 6: "podIP!"},
    "PodCondition": {1: "type!", 2: "status!", 5: "reason!"},
    "Status": {2: "status!", 3: "message!", 4: "reason!", 5: "details=Details", 6: "code"},
    "Details": {2: "group!", 3: "kind!", 4: "causes[]=Cause", 5: "retryAfterSeconds"},
    "Cause": {1: "reason!", 2: "message!"},
    "ListMeta": {2: "resourceVersion!", 3: "continue!", 4: "remainingItemCount"},
    "Empty": {},
}  # fmt: skip


def accepts_protobuf(accept: str) -> bool:
    """Whether an Accept header contains protobuf."""
    return PROTOBUF in accept


def write_object(found: Mapping[str, Any]) -> bytes:
    """Encode an object, or a list of objects, as the body of a response."""
    kind = found["kind"]
    if kind.endswith("List"):
        items = (_field(2, _message(kind[:-4], each)) for each in found["items"] or ())
        octets = _field(1, _message("ListMeta", found["metadata"])) + b"".join(items)
    else:
        octets = _message(kind, found)
    types = _field(1, found.get("apiVersion", "").encode()) + _field(2, kind.encode())
    return MAGIC + _field(1, types) + _field(2, octets) + _field(3, b"") + _field(4, b"")


def write_body(body: bytes) -> bytes:
    """Encode a JSON body as protobuf."""
    return write_object(json.loads(body))


def write_frame(line: bytes) -> bytes:
    """Encode the line of a watch as its frame."""
    try:
        event = json.loads(line)
        frame = _field(1, event["type"].encode()) + _field(
            2, _field(1, write_object(event["object"]))
        )
    except (ValueError, TypeError, KeyError):
        return line
    return len(frame).to_bytes(4, "big") + frame


class _Field(NamedTuple):
    """A field of _TABLE; `head` is written before a string or message, `empty` if it is missing."""

    number: int
    name: str
    is_map: bool
    is_list: bool
    kind: str
    head: bytes
    empty: bytes


def _message(kind: str, found: Mapping[str, Any]) -> bytes:
    written: list[bytes] = []
    for field in _FIELDS[kind]:
        value = found.get(field.name)
        if value is None:
            written.append(field.empty)
        elif field.is_map:
            pairs = (_field(1, _text(key)) + _field(2, _text(value[key])) for key in sorted(value))
            written += [field.head + _varint(len(pair)) + pair for pair in pairs]
        else:
            for each in value if field.is_list else (value,):
                octets = _value(field.kind, each)
                if isinstance(octets, int):
                    written.append(_field(field.number, octets))
                else:
                    written += (field.head, _varint(len(octets)), octets)
    return b"".join(written)


@lru_cache(maxsize=1 << 17)
def _known_message(kind: str, marshalled: bytes) -> bytes:
    return _message(kind, marshal.loads(marshalled))


def _value(kind: str, value: Any) -> bytes | int:
    if kind == "Time":
        return _field(1, int(datetime.fromisoformat(value).timestamp()))
    if kind == "IntOrString":
        is_text = isinstance(value, str)
        return (
            _field(1, int(is_text))
            + _field(2, 0 if is_text else value)
            + _field(3, _text(value) if is_text else b"")
        )
    if kind == "Endpoint":  # of a slice that has changed, nearly all are as they were
        return _known_message(kind, marshal.dumps(value, _WITHOUT_REFERENCES))
    if kind:
        return _message(kind, value)
    return int(value) if isinstance(value, int) else _text(value)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value % (1 << 64))
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_OCTET[value]
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


_ONE_OCTET: Final = tuple(bytes((value,)) for value in range(0x80))


def _read_field(number: int, text: str) -> _Field:
    name, _, kind = text.partition("=")
    return _Field(
        number,
        name.rstrip("!{}[]"),
        name.endswith("{}"),
        name.endswith("[]"),
        kind,
        _varint(number << 3 | 2),
        _field(number, b"") if name.endswith("!") else b"",
    )


_FIELDS: Final = {
    kind: [_read_field(number, text) for number, text in fields.items()]
    for kind, fields in _TABLE.items()
}
