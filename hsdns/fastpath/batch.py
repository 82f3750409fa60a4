"""Batches of datagrams on 64-bit Linux: receives with recvmmsg, sends the hits with sendmmsg, and returns the misses.

Path: steps 1, 2 and 7 for UDP; server/udp.py calls serve() when the socket is readable and answers the misses.
Twin of native/src/batch.rs; portable_batch.py is used if the platform lacks these system calls.
Rule 1: the structures that the kernel reads and writes are in memory that is allocated once.  Each batch reads and
        writes them through a few strided views, without touching a ctypes object for each datagram.
Rule 2: the replies are joined into one block of octets, which the kernel reads.
Rule 3: a datagram that cannot be sent is dropped and counted by errno, as if the network had dropped it.
Rule 4: a reply is sent from the address that the query was sent to: on wildcard sockets it has the control data of the
        query (control.py).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import time
from collections.abc import Sequence
from itertools import repeat
from typing import Final, NamedTuple

from hsdns.fastpath.control import (
    MAPPED,
    SOCKADDR_IN6_LEN,
    SOCKADDR_IN_LEN,
    family_of,
)
from hsdns.fastpath.hit_counts import IPV6
from hsdns.fastpath.mmsg import (
    CALLS,
    CONTROL,
    CONTROL_LEN,
    IOVEC,
    IOVEC_COUNT,
    LENGTH,
    NAME,
    NAME_LEN,
    WORDS,
    Memory,
    Sender,
    places,
    to_words,
)
from hsdns.fastpath.table import AnswerTable
from hsdns.wire.decode import MAX_QUERY_LEN

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
        assert CALLS is not None, "Batch needs recvmmsg; portable_batch.py does without"
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
            return [
                self._miss(index, length) for index, length in zip(_INDEXES, lengths, strict=False)
            ]
        begin = time.monotonic_ns()
        now = begin / 1_000_000_000
        inbox, may_be_ipv6, answer = self._inbox.octets, self._may_be_ipv6, table.answer
        misses: list[Miss] = []
        hits: list[int] = []
        replies: list[bytes] = []
        kinds: list[int] = []
        for index, start, length in zip(_INDEXES, _STARTS, lengths, strict=False):
            found = answer(inbox[start : start + length], None, now)
            if found is None:
                misses.append(self._miss(index, length))
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
                    (*self._received_as(index, lengths[index]), reply)
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

    def _received_as(self, index: int, length: int) -> tuple[bytes, bytes]:
        start, name = index * _STRIDE, index * _NAME_STRIDE
        return (
            self._inbox.octets[start : start + length],
            self._names.octets[name : name + self._name_len],
        )

    def _miss(self, index: int, length: int) -> Miss:
        control = self._control(index) if self._wildcard else b""
        return Miss(*self._received_as(index, length), control)

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
