"""Opens files of recorded queries, which may be compressed, and says where one is damaged.

Path: ../replay.py, packets.py, dnstap.py, cdns.py -> here.
Rule: compression is told by the first octets, not by the name: gzip, zstd and xz.
Source: RFC 1952, RFC 8878.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, TypeVar

from hsdns.recording.reader import zstd as zstd

MOST_OCTETS: Final = 1 << 24  # octets of a packet, a block or a word
BEGIN_LEN: Final = 7  # octets from which the form of a file is known
_OPENERS: Final[dict[bytes, Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\x28\xb5\x2f\xfd": zstd.open,
    b"\xfd7zXZ": lzma.open,
}
_BROKEN: Final = (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError, gzip.BadGzipFile)


T = TypeVar("T")
# A query: nanoseconds of the wall clock, the address of the client, and what it asked.
Read = tuple[int, bytes, T]


class Damaged(Exception):
    """Where and why no more can be read, as the predicate of a sentence."""


def open_file(path: str) -> IO[bytes]:
    """Open a file for reading what it has when decompressed; raise OSError."""
    with open(path, "rb") as file:
        begin = file.read(BEGIN_LEN)
    for magic, opener in _OPENERS.items():
        if begin.startswith(magic):
            found: IO[bytes] = opener(path, "rb")
            return found
    return open(path, "rb")


@contextmanager
def decompressing() -> Iterator[None]:
    """Raise Damaged where a compressed file is broken."""
    try:
        yield
    except _BROKEN:
        raise Damaged("is broken where it is compressed") from None


def read_whole(file: IO[bytes], length: int, where: str) -> bytes:
    """So many octets; raise Damaged if there are fewer, or too many to be true."""
    octets = file.read(length) if length <= MOST_OCTETS else b""
    if len(octets) < length:
        raise Damaged(
            f"ends in {where}" if length <= MOST_OCTETS else f"has {length} octets in {where}"
        )
    return octets
