"""What CoreDNS replied, recorded, so that every run is held against it and not only those that have its binary.

Path: `make peer-record` -> the tests that ask CoreDNS -> save() -> tests/peer_replies/replies.jsonl.zst -> found() in every run.
Rule 1: with HSDNS_PEER the binary is asked and the recording is held against it; without, the recording answers in its place.
Rule 2: with HSDNS_PEER_RECORD=1 as well, what the binary replies takes the place of what was recorded under that key.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import dns.flags
import dns.message
import dns.rcode
import msgspec
import pytest

from hsdns.recording.frames import zstd

FILE: Final = Path(__file__).parents[1] / "peer_replies" / "replies.jsonl.zst"
PEER: Final = os.environ.get("HSDNS_PEER", "")
_IS_RECORDING: Final = bool(PEER) and os.environ.get("HSDNS_PEER_RECORD") == "1"
COMMAND: Final = "make peer-record HSDNS_PEER=/path/to/coredns"
asks_peer: Final = pytest.mark.skipif(not PEER, reason="HSDNS_PEER names no CoreDNS binary")


class Entry(msgspec.Struct, omit_defaults=True):
    """The replies to the questions that stand under a key, and what else a test wants to keep there."""

    key: str
    replies: list[bytes] = []
    data: Any = None


class Heading(msgspec.Struct):
    """The first line: the version that replied, when (a date, UTC) and for which command."""

    version: str
    date: str
    command: str


@functools.cache
def _recorded() -> tuple[Heading, dict[str, Entry]]:
    heading, *lines = zstd.decompress(FILE.read_bytes()).splitlines()
    entries = map(msgspec.json.Decoder(Entry).decode, lines)
    return msgspec.json.decode(heading, type=Heading), {each.key: each for each in entries}


_saved: dict[str, Entry] = {}


def heading() -> Heading:
    """Which CoreDNS was recorded, and when."""
    return _recorded()[0]


def keys() -> list[str]:
    """What is recorded."""
    return list(_recorded()[1])


def found(key: str) -> Entry:
    """What is recorded under a key; fail with what to do if there is nothing."""
    entry = _recorded()[1].get(key)
    assert entry is not None, f"no reply of CoreDNS is recorded for {key}: run {COMMAND}"
    return entry


def is_recording() -> bool:
    """Whether this run makes a recording."""
    return _IS_RECORDING


def hold(key: str, replies: Sequence[bytes], data: Any = None) -> None:
    """Save what the binary replied, or hold the recording against it."""
    if _IS_RECORDING:
        _saved[key] = Entry(key, list(replies), data)
        return
    before = found(key)
    assert [*map(_shape, before.replies)] == [*map(_shape, replies)], f"{key}: {COMMAND}"


def _shape(wire: bytes) -> object:
    """What does not depend on the order of records, on time or on chance: rcode, flags, owners and types of the sections."""
    if len(wire) <= 12:
        return wire
    reply = dns.message.from_wire(wire, one_rr_per_rrset=True)
    records = (
        (place, rrset.name.to_text(), rrset.rdtype)
        for place, rrsets in enumerate(reply.sections)
        for rrset in rrsets
    )
    return reply.rcode(), reply.flags & ~dns.flags.TC, Counter(records)


class Replayed:
    """Gives the recorded replies in the place of a server, in the order in which they were asked for."""

    settles = False

    def __init__(self, key: str) -> None:
        self._key, self._replies = key, iter(found(key).replies)

    def reply(self, wire: bytes) -> bytes:
        """The reply to a query, with its ID; b"" where CoreDNS was silent."""
        recorded = next(self._replies, None)
        stale = f"{self._key} asks other questions than it did when CoreDNS replied: run {COMMAND}"
        assert recorded is not None, stale
        assert len(wire) < 13 or recorded[12:14] in (b"", wire[12:14]), stale
        return recorded and wire[:2] + recorded[2:]

    async def ask(self, wire: bytes, protocol: str) -> bytes:
        return self.reply(wire)

    async def is_silent(self, wire: bytes) -> bool:
        return not self.reply(wire)

    async def apply(self, event: object) -> None:
        pass

    def advance(self, seconds: float) -> None:
        raise AssertionError("only the scripted clock can advance")


@atexit.register
def _write() -> None:
    if not _saved:
        return
    entries = (_recorded()[1] if FILE.exists() else {}) | _saved
    printed = subprocess.run([PEER, "-version"], capture_output=True, text=True, check=True).stdout
    version = printed.split()[0]
    first = Heading(version, f"{datetime.now(UTC):%Y-%m-%d}", COMMAND)
    lines = [first, *(entries[key] for key in sorted(entries))]
    written = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
    FILE.write_bytes(zstd.compress(written, 19))
