"""What CoreDNS and an API server replied, recorded, so that every run is held against it, not only one that has the binaries.

Path: `make peer-record` -> the tests that ask the real ones -> hold() -> tests/peer_replies/*.jsonl.zst -> found() in every run.
Rule 1: with HSDNS_PEER or KUBEBUILDER_ASSETS the binary is asked and the recording is held against it; without, the
        recording answers in its place.
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

from hsdns.recording.reader import zstd

FOLDER: Final = Path(__file__).parents[1] / "peer_replies"
PEER: Final = os.environ.get("HSDNS_PEER", "")
ASSETS: Final = os.environ.get("KUBEBUILDER_ASSETS", "")
IS_RECORDING: Final = os.environ.get("HSDNS_PEER_RECORD") == "1"
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


class Recording:
    """A file of entries, which `command` makes anew from what the program replies that `version` asks for its version."""

    def __init__(self, file: str, version: list[str], command: str) -> None:
        self._file, self._version, self.command = FOLDER / file, version, command
        self._saved: dict[str, Entry] = {}
        atexit.register(self._write)

    @functools.cached_property
    def _recorded(self) -> dict[str, Entry]:
        if IS_RECORDING and not self._file.exists():
            return {}
        _, *lines = zstd.decompress(self._file.read_bytes()).splitlines()
        return {each.key: each for each in map(msgspec.json.Decoder(Entry).decode, lines)}

    def found(self, key: str) -> Entry:
        """What is recorded under a key; fail with what to do if there is nothing."""
        entry = self._recorded.get(key)
        assert entry is not None, f"no reply is recorded for {key}: run {self.command}"
        return entry

    def has(self, key: str) -> bool:
        """Whether something is recorded under a key."""
        return key in self._recorded

    def save(self, entry: Entry) -> None:
        """Keep what the program replied, to be written when all tests have run."""
        self._saved[entry.key] = entry

    def _write(self) -> None:
        if not self._saved:
            return
        entries = self._recorded | self._saved
        printed = subprocess.run(self._version, capture_output=True, text=True, check=True).stdout
        version = printed.splitlines()[0]
        first = Heading(version, f"{datetime.now(UTC):%Y-%m-%d}", self.command)
        lines = [first, *(entries[key] for key in sorted(entries))]
        written = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
        self._file.write_bytes(zstd.compress(written, 19))


COREDNS: Final = Recording(
    "replies.jsonl.zst", [PEER, "-version"], "make peer-record HSDNS_PEER=/path/to/coredns"
)
API_SERVER: Final = Recording(
    "api.jsonl.zst",
    [f"{ASSETS}/kube-apiserver", "--version"],
    "make peer-record KUBEBUILDER_ASSETS=/path/to/assets",
)
CONTROLLERS: Final = Recording(
    "controllers.jsonl.zst", [f"{ASSETS}/kube-controller-manager", "--version"], API_SERVER.command
)
found: Final = COREDNS.found


def hold(key: str, replies: Sequence[bytes], data: Any = None) -> None:
    """Save what CoreDNS replied, or hold the recording against it."""
    if IS_RECORDING:
        COREDNS.save(Entry(key, list(replies), data))
        return
    before = found(key)
    assert [*map(_shape, before.replies)] == [*map(_shape, replies)], f"{key}: {COREDNS.command}"


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
        stale = f"{self._key} asks other questions than when CoreDNS replied: run {COREDNS.command}"
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
