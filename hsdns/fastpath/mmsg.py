"""recvmmsg and sendmmsg on 64-bit Linux, and the memory that they read and write.

Path: batch.py and sender.py use it.
Rule 1: the memory that the kernel reads and writes is at fixed addresses, allocated once; words of eight octets are
        read and written by strided slices, without touching a ctypes object for each datagram.
Rule 2: the calls are available only if the structures have the layout that this module assumes.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array
from collections.abc import Iterable
from itertools import accumulate
from mmap import mmap
from typing import Final

# struct mmsghdr in words of eight octets: name, its length, iovec, their number, control, its length, flags, length of
# the message.  On little-endian machines the padding of shorter fields is in the upper octets of the word.
WORDS: Final = 8
NAME, NAME_LEN, IOVEC, IOVEC_COUNT, CONTROL, CONTROL_LEN, FLAGS, LENGTH = range(WORDS)


def _find_calls() -> tuple[ctypes._NamedFuncPointer, ctypes._NamedFuncPointer] | None:
    """Return recvmmsg and sendmmsg if the platform has them, with the layout that this module assumes."""
    fits = (
        sys.platform == "linux"
        and sys.byteorder == "little"
        and struct.calcsize("PIPNPNi0P") == 8 * (WORDS - 1)
        and struct.calcsize("PN") == 16
        and array("Q").itemsize == 8
    )
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        receive, send = libc.recvmmsg, libc.sendmmsg
    except (AttributeError, OSError):
        return None
    receive.argtypes = (
        ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p,
    )  # fmt: skip
    send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
    return (receive, send) if fits else None


CALLS: Final = _find_calls()
IS_AVAILABLE: Final = CALLS is not None


class Memory:
    """Memory at a fixed address: slices of `octets` are bytes, `words` is a view in words of eight octets."""

    def __init__(self, size: int) -> None:
        self.octets = mmap(-1, size)
        self.words = memoryview(self.octets).cast("Q")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.octets))

    def addresses(self, stride: int) -> array[int]:
        """The addresses of its parts of `stride` octets each."""
        return to_words(range(self.address, self.address + len(self.octets), stride))


def to_words(values: Iterable[int]) -> array[int]:
    """Numbers as words, for a strided slice."""
    return array("Q", values)


def places(arena: bytes, sizes: list[int]) -> array[int]:
    """The addresses of messages that are stored one after another."""
    address = ctypes.c_void_p.from_buffer(ctypes.c_char_p(arena)).value or 0  # faster than cast()
    return to_words(list(accumulate(sizes, initial=address))[:-1])
