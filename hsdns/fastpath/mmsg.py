"""recvmmsg and sendmmsg on 64-bit Linux, the memory that they read and write, and the Sender of replies.

Path: batch.py -> here.  The Sender is the twin of native/src/system/sender.rs, without its UDP segmentation.
Rule 1: the memory that the kernel reads and writes is at fixed addresses, allocated once; words of eight octets are
        read and written by strided slices, without touching a ctypes object for each datagram.
Rule 2: the calls are available only if the structures have the layout that this module assumes.
Rule 3: a datagram that cannot be sent is dropped and counted by errno, as if the network had dropped it.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from mmap import mmap
from typing import Final, NamedTuple

from hsdns.fastpath.control import lent, reply_messages, write_messages
from hsdns.fastpath.fragments import fragments_allowed

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


MAX_CONTROLS: Final = 256
_VECTOR_LEN: Final = 16
_HEADER_LEN: Final = 8 * WORDS
_NO_ROOM: Final = frozenset({errno.EAGAIN, errno.ENOBUFS})


class Control(NamedTuple):
    """Control data at an address that the kernel reads; `octets` keeps that memory alive."""

    address: int = 0
    length: int = 0
    octets: ctypes.Array[ctypes.c_char] | None = None


NO_CONTROL: Final = Control()


class Sender:
    """Sends at most `batch_len` replies at a time through a socket that it does not own, to addresses of `name_len`."""

    def __init__(self, fd: int, batch_len: int, name_len: int) -> None:
        assert CALLS is not None, "Sender needs sendmmsg; portable_batch.py does without"
        _, self._send = CALLS
        self._fd = fd
        self._vectors = Memory(batch_len * _VECTOR_LEN)
        self._headers = Memory(batch_len * _HEADER_LEN)
        words = self._headers.words
        words[NAME_LEN::WORDS] = to_words(repeat(name_len, batch_len))
        words[IOVEC::WORDS] = self._vectors.addresses(_VECTOR_LEN)
        words[IOVEC_COUNT::WORDS] = to_words(repeat(1, batch_len))
        # Control data of queries -> those of their replies.
        self._controls: dict[bytes, Control] = {}
        self.sent = 0
        self.errors: dict[int, int] = {}

    def send(
        self, arena: bytes, sizes: list[int], names: array[int], controls: Sequence[bytes]
    ) -> None:
        """Send replies that are stored one after another in `arena`, without waiting.

        `names` are the addresses in memory of the clients' socket addresses.  `controls` are the control data of the
        queries; empty on a socket that receives none.
        """
        count = len(sizes)
        self._vectors.words[0 : 2 * count : 2] = places(arena, sizes)
        self._vectors.words[1 : 2 * count : 2] = to_words(sizes)
        words, end = self._headers.words, count * WORDS
        words[NAME:end:WORDS] = names
        # Referenced until the kernel has read them: _reply_control() may drop its own references meanwhile.
        replies = [self._reply_control(received) for received in controls]
        if replies:
            addresses, lengths, _ = zip(*replies, strict=True)
            words[CONTROL:end:WORDS] = to_words(addresses)
            words[CONTROL_LEN:end:WORDS] = to_words(lengths)
        self._transmit(count)

    def _reply_control(self, received: bytes) -> Control:
        """The control data of the reply to a query with this control data."""
        if not received:
            return NO_CONTROL
        found = self._controls.get(received)
        if found is None:
            if len(self._controls) == MAX_CONTROLS:
                self._controls = {}
            written = write_messages(reply_messages(received))
            octets = ctypes.create_string_buffer(written, len(written))
            found = Control(ctypes.addressof(octets), len(written), octets)
            self._controls[received] = found
        return found

    def _transmit(self, count: int) -> None:
        done = 0
        while done < count:
            header = self._headers.address + done * _HEADER_LEN
            sent = self._send(self._fd, header, count - done, socket.MSG_DONTWAIT)
            if sent > 0:
                self.sent += sent
                done += sent
                continue
            error = ctypes.get_errno()
            if error == errno.EINTR:
                continue
            # With a full socket buffer, all following replies are lost; any other error concerns this reply only.
            if error in _NO_ROOM:
                self._count_lost(error, count - done)
                return
            self._resend(header, error)
            done += 1

    def _resend(self, header: int, error: int) -> None:
        """Send a refused reply in fragments if it exceeds the path MTU; count it as lost otherwise."""
        if error == errno.EMSGSIZE:
            with lent(self._fd) as sock, fragments_allowed(sock):
                if self._send(self._fd, header, 1, socket.MSG_DONTWAIT) == 1:
                    self.sent += 1
                    return
        self._count_lost(error, 1)

    def _count_lost(self, error: int, count: int) -> None:
        self.errors[error] = self.errors.get(error, 0) + count
