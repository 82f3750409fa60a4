"""recvmmsg and sendmmsg on 64-bit Linux, and the memory that they read and write.

Path: batch.py alone uses it.
Rule 1: what the kernel reads and writes lies at fixed addresses, laid out once; words of eight octets are read and
        written by strided slices, so that nothing of ctypes is touched for a datagram.
Rule 2: the calls are offered only where the structures have the layout that is written down here.
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
# the message.  On little-endian machines the octets that fill up shorter fields are the upper ones of the word.
WORDS: Final = 8
NAME, NAME_LEN, IOVEC, IOVEC_COUNT, CONTROL, CONTROL_LEN, FLAGS, LENGTH = range(WORDS)


def _find_calls() -> tuple[ctypes._NamedFuncPointer, ctypes._NamedFuncPointer] | None:
    """Return recvmmsg and sendmmsg, where there are such calls with the layout that this module writes."""
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
    """Memory at a fixed address: slices of `octets` are bytes, `words` is a view of it in words of eight octets."""

    def __init__(self, size: int) -> None:
        self.octets = mmap(-1, size)
        self.words = memoryview(self.octets).cast("Q")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.octets))

    def addresses(self, stride: int) -> array[int]:
        """Where each of its parts of `stride` octets begins."""
        return to_words(range(self.address, self.address + len(self.octets), stride))


def to_words(values: Iterable[int]) -> array[int]:
    """Put numbers into words, to be written by a strided slice."""
    return array("Q", values)


def places(arena: bytes, sizes: list[int]) -> array[int]:
    """Where each of the messages that lie one after another begins."""
    address = ctypes.c_void_p.from_buffer(ctypes.c_char_p(arena)).value or 0  # cast() takes longer
    return to_words(list(accumulate(sizes, initial=address))[:-1])
