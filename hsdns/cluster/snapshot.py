"""Snapshots: writes the state of a store as text, and reads the objects that restore it.

Path: Store -> whole_state.py -> pieces -> sources/snapshot_file.py -> check, objects -> Store.restore.
Rule 1: the text is one `kind: List` with an object on each line, so `source manifests FILE` can read it.
Rule 2: the state is that of one moment (whole_state.py); the text is made afterwards, piece by piece.
Rule 3: the last line has the number of objects and the CRC-32 of all lines before it, so a truncated or modified file
        is detected before any of it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from hsdns.cluster.objects import (
    EndpointSlice,
    Namespace,
    Object,
    Pod,
    Service,
    ServiceImport,
)
from hsdns.cluster.programming import read_time
from hsdns.cluster.store import Store
from hsdns.cluster.whole_state import WholeState

_KINDS: Final[dict[str, type[Object]]] = {
    "Namespace": Namespace,
    "Service": Service,
    "EndpointSlice": EndpointSlice,
    "Pod": Pod,
    "ServiceImport": ServiceImport,
}
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class BadSnapshot(ValueError):
    """The text is not a snapshot, or it is damaged; the message says why."""


class Header(NamedTuple):
    """The first line: the version that wrote it, the time (seconds since the epoch), and the settings."""

    version: str
    saved: float
    settings: dict[str, str]


def pieces(
    store: Store, *, version: str, saved: float, settings: Mapping[str, str]
) -> Iterator[bytes]:
    """The text of a store's current state, in pieces to be joined; each is made when it is consumed."""
    return _lines(Header(version, saved, dict(settings)), WholeState.of(store).objects())


def _lines(header: Header, objects: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    saved = datetime.fromtimestamp(header.saved, UTC).isoformat(timespec="milliseconds")
    head = {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {
            "annotations": {
                "hsdns/version": header.version,
                "hsdns/saved": saved.replace("+00:00", "Z"),
                "hsdns/settings": msgspec.json.encode(header.settings).decode(),
            }
        },
    }
    encode = msgspec.json.Encoder().encode
    line = encode(head)[:-1] + b',"items":[\n'
    checksum = crc32(line)
    yield line
    count = 0
    for each in objects:
        try:
            line = encode(each)
        except UnicodeEncodeError:
            continue  # half of a surrogate pair: JSON cannot represent it, and no API server accepts it
        if count:
            line = b",\n" + line
        count += 1
        checksum = crc32(line, checksum)
        yield line
    yield b'\n],"objects":%d,"checksum":"crc32:%08x"}\n' % (count, crc32(b"\n", checksum))


class _Metadata(msgspec.Struct):
    annotations: dict[str, str]


class _Head(msgspec.Struct):
    kind: str
    metadata: _Metadata


class _Tail(msgspec.Struct):
    objects: int
    checksum: str


class _Kind(msgspec.Struct):
    kind: str


def check(lines: Iterable[bytes]) -> Header:
    """Read a whole snapshot and return its header; raise BadSnapshot."""
    header: Header | None = None
    checksum = count = 0
    for line in lines:
        if header is None:
            header = _header(line)
        elif line.startswith(b"]"):
            _check_tail(line, count, checksum)
            return header
        elif line.startswith(b"{"):
            count += 1
        checksum = crc32(line, checksum)
    raise BadSnapshot("it is empty" if header is None else "its end is missing")


def objects(lines: Iterable[bytes]) -> Iterator[Object]:
    """The objects of a text that has passed check(), without those that this version cannot decode."""
    rest = iter(lines)
    next(rest, b"")
    for line in rest:
        if line.startswith(b"{"):
            text = line.rstrip(b",\n")
            try:
                kind = _KINDS[msgspec.json.decode(text, type=_Kind).kind]
                found = msgspec.json.decode(text, type=kind)
            except (*_FAULTS, KeyError):
                continue
            yield found


def _header(line: bytes) -> Header:
    try:
        head = msgspec.json.decode(line.rstrip(b"\n") + b"]}", type=_Head)
        annotations = head.metadata.annotations
        settings = msgspec.json.decode(annotations["hsdns/settings"], type=dict[str, str])
        saved = read_time(annotations["hsdns/saved"])
        if head.kind == "List" and saved is not None:
            return Header(annotations["hsdns/version"], saved, settings)
    except (*_FAULTS, KeyError):
        pass
    raise BadSnapshot("its first line is not that of a snapshot")


def _check_tail(line: bytes, count: int, checksum: int) -> None:
    try:
        tail = msgspec.json.decode(b'{"items":[' + line, type=_Tail)
    except _FAULTS:
        raise BadSnapshot("its last line is not that of a snapshot") from None
    if tail.objects != count or tail.checksum != f"crc32:{checksum:08x}":
        raise BadSnapshot("its checksum is wrong: it was changed, or damaged")
