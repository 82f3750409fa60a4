"""Compresses lines to frames, and reads them back; the intact part of a damaged file is read.

Path: recorder.py and reader.py.
Rule 1: a frame has whole lines and a checksum; it ends after FRAME octets of text, and at each flush.
Rule 2: the text of a frame is returned after its checksum was verified, so nothing is returned from a truncated frame.
        A frame of more than HELD octets, written by another program, is returned while it is read.
Rule 3: an uncompressed file is read too, so that a recording can be written by hand.
Source: RFC 8878.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import IO, Final

# The module of the standard library, or its backport before Python 3.14.
if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

MAGIC: Final = b"\x28\xb5\x2f\xfd"
FRAME: Final = 256 * 1024  # octets of text
HELD: Final = 4 * FRAME  # octets of text that wait for a checksum
MAX_LINE: Final = 16 * 1024 * 1024  # octets; etcd takes objects of 1.5 MiB
CHUNK: Final = 64 * 1024  # octets that are read at a time
WINDOW: Final = 23  # log2 of the octets that a frame may refer back to: 8 MiB


class Damaged(Exception):
    """The damage of a file, as the predicate of a sentence."""


class FrameWriter:
    """Compresses lines, and passes the octets to `write`."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
        self._length = 0  # of the text in the frame

    def add(self, lines: bytes) -> None:
        """Add whole lines."""
        self._write(self._compressor.compress(lines))
        self._length += len(lines)
        if self._length >= FRAME:
            self.flush()

    def flush(self) -> None:
        """Write all added lines, so that they can be read."""
        if self._length:
            self._write(self._compressor.flush(zstd.ZstdCompressor.FLUSH_FRAME))
            self._length = 0


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the whole lines of a file, without line ends; raise Damaged when no more can be read, or OSError."""
    begin = file.read(CHUNK)
    texts = _frames(file, begin) if begin[: len(MAGIC)] == MAGIC else _plain(file, begin)
    rest, octet = b"", 0
    for octet, text in texts:
        *lines, rest = (rest + text).split(b"\n")
        yield from lines
        if len(rest) > MAX_LINE:
            raise Damaged(f"has a line of more than {MAX_LINE} octets before octet {octet}")
    if rest:
        raise Damaged(f"was cut in the middle of an entry, at octet {octet}")


def _plain(file: IO[bytes], begin: bytes) -> Iterator[tuple[int, bytes]]:
    octet = 0
    while begin:
        octet += len(begin)
        yield octet, begin
        begin = file.read(CHUNK)


def _frames(file: IO[bytes], chunk: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each frame, with the number of octets read for it."""
    began = octet = 0  # where the frame begins, and what was read
    frame: zstd.ZstdDecompressor | None = None
    held = bytearray()
    while chunk:
        octet += len(chunk)
        while chunk or (frame is not None and not frame.needs_input):
            if frame is None:
                began = octet - len(chunk)
                frame = zstd.ZstdDecompressor(
                    options={zstd.DecompressionParameter.window_log_max: WINDOW}
                )
            try:
                held += frame.decompress(chunk, max_length=FRAME)
            except zstd.ZstdError:
                raise Damaged(f"is damaged, or was changed, after octet {began}") from None
            chunk = frame.unused_data if frame.eof else b""
            if frame.eof or len(held) > HELD:
                yield octet - len(chunk), bytes(held)
                held.clear()
            if frame.eof:
                frame = None
        chunk = file.read(CHUNK)
    if frame is not None:
        raise Damaged(f"was cut at octet {octet}")
