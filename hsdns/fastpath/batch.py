"""Batches of datagrams on 64-bit Linux: receives with recvmmsg, sends the hits with sendmmsg, and returns the misses.

Path: steps 1, 2 and 7 for UDP; server/transport/udp.py calls serve() when the socket is readable and answers the
misses. Twin of native/src/batch.rs; PortableBatch is used if the platform lacks these system calls. The Sender is
the twin of native/src/system/sender.rs, without its UDP segmentation.
Rule 1: the structures that the kernel reads and writes are in memory at fixed addresses that is allocated once.  Each
        batch reads and writes words of eight octets through a few strided views, without touching a ctypes object for
        each datagram.  The calls are available only if the structures have the layout that this module assumes.
Rule 2: the replies are joined into one block of octets, which the kernel reads.
Rule 3: a datagram that cannot be sent is dropped and counted by errno, as if the network had dropped it.
Rule 4: a reply is sent from the address that the query was sent to: on wildcard sockets it has the control data of the
        query (control.py).

Datagrams one by one, for platforms without recvmmsg or with structures of another layout:
Rule: PortableBatch has the same arguments and results as Batch, so that callers do not depend on which they use.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
import time
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from mmap import mmap
from typing import Final, NamedTuple

from hsdns.fastpath.control import (
    MAPPED,
    SOCKADDR_IN6_LEN,
    SOCKADDR_IN_LEN,
    family_of,
    fragments_allowed,
    is_ipv6,
    lent,
    read_address,
    reply_messages,
    write_address,
    write_messages,
)
from hsdns.fastpath.hit_counts import IPV6
from hsdns.fastpath.table import AnswerTable
from hsdns.wire.decode import MAX_QUERY_LEN

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
        assert CALLS is not None, "Sender needs sendmmsg; PortableBatch does without"
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


BATCH_LEN: Final = 64
SLOT_LEN: Final = MAX_QUERY_LEN + 1  # one more, so that longer queries are recognized
CONTROL_ROOM: Final = 128
NOT_A_SOCKET: Final = frozenset({errno.EBADF, errno.ENOTSOCK})

# Padding between slots: with a power of two, all slots would share the same sets of the CPU's cache.
_STRIDE: Final = 4160
_NAME_STRIDE: Final = 32
_INDEXES: Final = range(BATCH_LEN)
_STARTS: Final = range(0, BATCH_LEN * _STRIDE, _STRIDE)


class Miss(NamedTuple):
    """A query that the chain must answer, with socket address and control data as received from the kernel."""

    query: bytes
    address: bytes
    control: bytes


class BatchStatistics(NamedTuple):
    """Datagrams received and sent, non-empty batches, and failed sends, by errno."""

    received: int
    sent: int
    batches: int
    send_errors: dict[int, int]


class Batch:
    """One bound UDP socket, which the caller keeps open; `wildcard`: datagrams have control data."""

    def __init__(self, fd: int, wildcard: bool) -> None:
        assert CALLS is not None, "Batch needs recvmmsg; PortableBatch does without"
        self._receive, _ = CALLS
        self._fd = fd
        self._wildcard = wildcard
        is_ipv4 = family_of(fd) == socket.AF_INET
        self._may_be_ipv6 = not is_ipv4
        self._name_len = SOCKADDR_IN_LEN if is_ipv4 else SOCKADDR_IN6_LEN
        self._inbox = Memory(BATCH_LEN * _STRIDE)
        self._names = Memory(BATCH_LEN * _NAME_STRIDE)
        self._controls = Memory(BATCH_LEN * CONTROL_ROOM)
        self._vectors = Memory(BATCH_LEN * 16)
        self._headers = Memory(BATCH_LEN * WORDS * 8)
        self._vectors.words[0::2] = self._inbox.addresses(_STRIDE)
        self._vectors.words[1::2] = to_words(repeat(SLOT_LEN, BATCH_LEN))
        self._name_addresses = self._names.addresses(_NAME_STRIDE)
        words = self._headers.words
        words[NAME::WORDS] = self._name_addresses
        words[NAME_LEN::WORDS] = to_words(repeat(self._name_len, BATCH_LEN))
        words[IOVEC::WORDS] = self._vectors.addresses(16)
        words[IOVEC_COUNT::WORDS] = to_words(repeat(1, BATCH_LEN))
        if wildcard:
            self._headers.words[CONTROL::WORDS] = self._controls.addresses(CONTROL_ROOM)
        self._control_lens = self._headers.words[CONTROL_LEN::WORDS]
        self._full_control_lens = to_words(repeat(CONTROL_ROOM, BATCH_LEN))
        self._lengths = self._headers.words[LENGTH::WORDS]
        self._sender = Sender(fd, BATCH_LEN, self._name_len)
        self._received = self._batches = 0

    def serve(self, table: AnswerTable | None) -> list[Miss]:
        """Receive the waiting datagrams, send the hits of the table, and return the misses.

        Raise OSError if the socket is closed.
        """
        if self._wildcard:
            self._control_lens[:] = self._full_control_lens
        count = self._receive(self._fd, self._headers.address, BATCH_LEN, socket.MSG_DONTWAIT, None)
        if count <= 0:
            error = ctypes.get_errno()
            if error in NOT_A_SOCKET:
                raise OSError(error, os.strerror(error))
            return []  # nothing has arrived, or the kernel reports an error of an earlier send
        self._received += count
        self._batches += 1
        lengths = self._lengths[:count].tolist()
        if table is None:
            return [self._miss(*each) for each in zip(_INDEXES, lengths, strict=False)]
        begin = time.monotonic_ns()
        now = begin / 1_000_000_000
        inbox, may_be_ipv6, answer = self._inbox.octets, self._may_be_ipv6, table.answer
        misses: list[Miss] = []
        hits: list[int] = []
        replies: list[bytes] = []
        kinds: list[int] = []
        for index, start, length in zip(_INDEXES, _STARTS, lengths, strict=False):
            query = inbox[start : start + length]
            found = answer(query, None, now)
            if found is None:
                misses.append(self._miss(index, length, query))
                continue
            reply, kind = found
            if may_be_ipv6:
                at = index * _NAME_STRIDE + 8
                if self._names.octets[at : at + 12] != MAPPED:
                    kind |= IPV6
            hits.append(index)
            replies.append(reply)
            kinds.append(kind)
        if hits:
            duration = time.monotonic_ns() - begin
            table.hit_counts.add(kinds, duration)
            self._send_hits(hits, replies)
            if table.logs or (table.tap is not None and table.tap.mode):
                described = [
                    (*self._miss(index, lengths[index])[:2], reply)
                    for index, reply in zip(hits, replies, strict=True)
                ]
                table.note_hits(described, kinds, time.monotonic_ns(), duration)
        return misses

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send replies to misses: (reply, address, control data) each, the last two as received with the query."""
        for start in range(0, len(replies), BATCH_LEN):
            some = replies[start : start + BATCH_LEN]
            names = b"".join(address for _, address, _ in some)
            self._sender.send(
                b"".join(wire for wire, _, _ in some),
                [len(wire) for wire, _, _ in some],
                places(names, [len(address) for _, address, _ in some]),
                [control for *_, control in some] if self._wildcard else [],
            )

    def statistics(self) -> BatchStatistics:
        """The number of datagrams received and sent so far."""
        sender = self._sender
        return BatchStatistics(self._received, sender.sent, self._batches, dict(sender.errors))

    def _miss(self, index: int, length: int, query: bytes = b"") -> Miss:
        start, name = index * _STRIDE, index * _NAME_STRIDE
        return Miss(
            query or self._inbox.octets[start : start + length],
            self._names.octets[name : name + self._name_len],
            self._control(index) if self._wildcard else b"",
        )

    def _control(self, index: int) -> bytes:
        start = index * CONTROL_ROOM
        return self._controls.octets[start : start + self._control_lens[index]]

    def _send_hits(self, hits: list[int], replies: list[bytes]) -> None:
        addresses = self._name_addresses
        controls = [self._control(index) for index in hits] if self._wildcard else []
        self._sender.send(
            b"".join(replies),
            [*map(len, replies)],
            addresses[: len(hits)]
            if hits[-1] + 1 == len(hits)
            else to_words([addresses[index] for index in hits]),
            controls,
        )


_ANCILLARY_LEN: Final = socket.CMSG_SPACE(32) * 2


class PortableBatch:
    """One bound UDP socket, which the caller keeps open; `wildcard`: datagrams have control data."""

    def __init__(self, fd: int, wildcard: bool) -> None:
        self._family = family_of(fd)
        self._sock = socket.socket(fileno=fd)
        self._wildcard = wildcard
        self._received = self._sent = self._batches = 0
        self._send_errors: dict[int, int] = {}

    def __del__(self) -> None:
        sock = getattr(self, "_sock", None)  # absent if the constructor raised an error
        if sock is not None:
            sock.detach()

    def serve(self, table: AnswerTable | None) -> list[Miss]:
        """Receive the waiting datagrams, send the hits of the table, and return the misses.

        Raise OSError if the socket is closed.
        """
        received = self._receive()
        if not received:
            return []
        self._received += len(received)
        self._batches += 1
        if table is None:
            return received
        begin = time.monotonic_ns()
        misses: list[Miss] = []
        replies: list[tuple[bytes, bytes, bytes]] = []
        kinds: list[int] = []
        hits: list[tuple[bytes, bytes, bytes]] = []
        for miss in received:
            found = table.answer(miss.query, None, begin / 1_000_000_000)
            if found is None:
                misses.append(miss)
                continue
            reply, kind = found
            replies.append((reply, miss.address, miss.control))
            kinds.append(kind | IPV6 if is_ipv6(miss.address) else kind)
            hits.append((miss.query, miss.address, reply))
        if kinds:
            duration = time.monotonic_ns() - begin
            table.hit_counts.add(kinds, duration)
            self.send(replies)
            table.note_hits(hits, kinds, time.monotonic_ns(), duration)
        return misses

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send replies to misses: (reply, address, control data) each, the last two as received with the query."""
        for wire, address, control in replies:
            try:
                self._send(wire, control, address)
            except OSError as error:
                number = error.errno or 0
                self._send_errors[number] = self._send_errors.get(number, 0) + 1
            else:
                self._sent += 1

    def _send(self, wire: bytes, control: bytes, address: bytes) -> None:
        message = (wire,), reply_messages(control), socket.MSG_DONTWAIT, read_address(address)
        try:
            self._sock.sendmsg(*message)
        except OSError as error:
            if error.errno != errno.EMSGSIZE or sys.platform != "linux":
                raise
            with fragments_allowed(self._sock):
                self._sock.sendmsg(*message)

    def statistics(self) -> BatchStatistics:
        """The number of datagrams received and sent so far."""
        return BatchStatistics(self._received, self._sent, self._batches, dict(self._send_errors))

    def _receive(self) -> list[Miss]:
        found: list[Miss] = []
        size = _ANCILLARY_LEN if self._wildcard else 0
        for _ in range(BATCH_LEN):
            try:
                wire, ancillary, _, address = self._sock.recvmsg(
                    SLOT_LEN, size, socket.MSG_DONTWAIT
                )
            except OSError as error:
                if error.errno in NOT_A_SOCKET:
                    raise
                break  # nothing has arrived, or the kernel reports an error of an earlier send
            control = write_messages(ancillary)
            found.append(Miss(wire, write_address(self._family, address), control))
        return found
