"""Datagrams in batches, on 64-bit Linux: one recvmmsg, the hits of it by one sendmmsg, the rest is returned.

Path: steps 1, 2 and 7 for UDP; server/udp.py calls serve() when the socket is readable and answers what it returns.
Pure twin of native/src/batch.rs; portable_batch.py is the same where these calls are missing.
Rule 1: the structures that the kernel reads and writes lie in memory that is laid out once.  Per batch a few strided
        views of it are read and written; per datagram nothing of ctypes is touched.
Rule 2: nothing is copied twice: a reply that is prepared (entry.py) goes with its ID into one run of octets, which the
        kernel reads.
Rule 3: a datagram that cannot be sent is dropped and counted by errno, as the network would drop it.
Rule 4: the address that was asked is that which answers: on wildcard sockets the control data of the query go back
        with the reply (control.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Final, NamedTuple

from hsdns.fastpath.control import (
    MAPPED,
    SOCKADDR_IN6_LEN,
    SOCKADDR_IN_LEN,
    reply_control,
)
from hsdns.fastpath.entry import FREQUENCY
from hsdns.fastpath.fragments import fragments_allowed
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
    places,
    to_words,
)
from hsdns.fastpath.table import Table
from hsdns.fastpath.tally import IPV6
from hsdns.fastpath.versions import CHANGES
from hsdns.wire.decode import MAX_QUERY_LEN

BATCH_LEN: Final = 64
SLOT_LEN: Final = MAX_QUERY_LEN + 1  # one more, so that a longer query shows
CONTROL_ROOM: Final = 128
MAX_CONTROLS: Final = 256
NOT_A_SOCKET: Final = frozenset({errno.EBADF, errno.ENOTSOCK})

# Of slots: a power of two would put all of them into the same lines of the cache.
_STRIDE: Final = 4160
_NAME_STRIDE: Final = 32
_INDEXES: Final = range(BATCH_LEN)
_STARTS: Final = range(0, BATCH_LEN * _STRIDE, _STRIDE)


class Miss(NamedTuple):
    """A query to be answered the ordinary way; socket address and control data as the kernel gave them."""

    query: bytes
    address: bytes
    control: bytes


class BatchStatistics(NamedTuple):
    """Datagrams received and sent, batches that were not empty, and how often sending failed, by errno."""

    received: int
    sent: int
    batches: int
    send_errors: dict[int, int]


class Batch:
    """One bound UDP socket, which the caller keeps open; `wildcard`: control data come and go with each datagram."""

    def __init__(self, fd: int, wildcard: bool) -> None:
        assert CALLS is not None, "Batch needs recvmmsg; portable_batch.py does without"
        self._receive, self._send = CALLS
        self._fd = fd
        self._wildcard = wildcard
        is_ipv4 = family_of(fd) == socket.AF_INET
        self._may_be_ipv6 = not is_ipv4
        self._name_len = SOCKADDR_IN_LEN if is_ipv4 else SOCKADDR_IN6_LEN
        self._inbox = Memory(BATCH_LEN * _STRIDE)
        self._names = Memory(BATCH_LEN * _NAME_STRIDE)
        self._controls = Memory(BATCH_LEN * CONTROL_ROOM)
        self._in_vectors = Memory(BATCH_LEN * 16)
        self._out_vectors = Memory(BATCH_LEN * 16)
        self._in_headers = Memory(BATCH_LEN * WORDS * 8)
        self._out_headers = Memory(BATCH_LEN * WORDS * 8)
        self._in_vectors.words[0::2] = self._inbox.addresses(_STRIDE)
        self._in_vectors.words[1::2] = to_words(repeat(SLOT_LEN, BATCH_LEN))
        self._name_addresses = self._names.addresses(_NAME_STRIDE)
        for headers, vectors in (
            (self._in_headers, self._in_vectors),
            (self._out_headers, self._out_vectors),
        ):
            words = headers.words
            words[NAME::WORDS] = self._name_addresses
            words[NAME_LEN::WORDS] = to_words(repeat(self._name_len, BATCH_LEN))
            words[IOVEC::WORDS] = vectors.addresses(16)
            words[IOVEC_COUNT::WORDS] = to_words(repeat(1, BATCH_LEN))
        if wildcard:
            self._in_headers.words[CONTROL::WORDS] = self._controls.addresses(CONTROL_ROOM)
        self._control_lens = self._in_headers.words[CONTROL_LEN::WORDS]
        self._full_control_lens = to_words(repeat(CONTROL_ROOM, BATCH_LEN))
        self._lengths = self._in_headers.words[LENGTH::WORDS]
        # Control data of queries -> the octets that a reply takes, kept where the kernel finds them.
        self._reply_controls: dict[bytes, ctypes.Array[ctypes.c_char]] = {}
        self._received = self._sent = self._batches = 0
        self._send_errors: dict[int, int] = {}

    def serve(self, table: Table | None) -> list[Miss]:
        """Take the datagrams that are there, answer those that the table knows, return the others.

        Raise OSError where the socket is none any more.
        """
        if self._wildcard:
            self._control_lens[:] = self._full_control_lens
        count = self._receive(
            self._fd, self._in_headers.address, BATCH_LEN, socket.MSG_DONTWAIT, None
        )
        if count <= 0:
            error = ctypes.get_errno()
            if error in NOT_A_SOCKET:
                raise OSError(error, os.strerror(error))
            return []  # nothing there, or an error of an earlier send that the kernel reports here
        self._received += count
        self._batches += 1
        lengths = self._lengths[:count].tolist()
        if table is None:
            return [
                self._miss(index, length) for index, length in zip(_INDEXES, lengths, strict=False)
            ]
        begin = time.monotonic_ns()
        now = begin / 1_000_000_000
        changes = CHANGES[0]
        inbox, find, may_be_ipv6 = self._inbox.octets, table.plans.by_form.get, self._may_be_ipv6
        misses: list[Miss] = []
        hits: list[int] = []
        parts: list[bytes] = []
        sizes: list[int] = []
        kinds: list[int] = []
        absences = table.absences
        planned = below = 0
        for index, start, length in zip(_INDEXES, _STARTS, lengths, strict=False):
            plan = find(inbox[start + 2 : start + length])
            if (
                plan is not None
                and ((entry := plan.entry).changes == changes or table.still_holds(plan))
                and entry.until > now
            ):
                planned += 1
                if entry.state & FREQUENCY < FREQUENCY:
                    entry.state += 1
                kind = plan.kind
                parts.append(inbox[start : start + 2])
                if plan.step:
                    parts += plan.turned()
                else:
                    parts.append(plan.body)
                sizes.append(plan.length)
            else:
                query = inbox[start : start + length]
                absent = absences.answer(query) if absences.is_likely else None
                if absent is not None:
                    head, question, tail, size, kind = absent
                    parts += (query[:2], head, question, tail)
                    sizes.append(size)
                    below += 1
                else:
                    found = table.answer(query, None, now)
                    if found is None:
                        misses.append(self._miss(index, length))
                        continue
                    reply, kind = found
                    parts.append(reply)
                    sizes.append(len(reply))
            if may_be_ipv6:
                at = index * _NAME_STRIDE + 8
                if self._names.octets[at : at + 12] != MAPPED:
                    kind |= IPV6
            hits.append(index)
            kinds.append(kind)
        if hits:
            table.hits += planned
            table.region_hits += below
            duration = time.monotonic_ns() - begin
            table.tallies.add(kinds, duration)
            arena = b"".join(parts)
            self._send_hits(hits, arena, sizes)
            if table.logs:
                table.log.push(self._to_log(hits, lengths, arena, sizes), kinds, duration)
        return misses

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send the replies to misses: each with the address and control data that its query came with."""
        for start in range(0, len(replies), BATCH_LEN):
            some = replies[start : start + BATCH_LEN]
            addresses = b"".join(address for _, address, _ in some)
            name_lens = [len(address) for _, address, _ in some]
            words = self._out_headers.words
            end = len(some) * WORDS
            words[NAME:end:WORDS] = places(addresses, name_lens)
            words[NAME_LEN:end:WORDS] = to_words(name_lens)
            controls = (
                [self._reply_control(control) for _, _, control in some] if self._wildcard else []
            )
            self._transmit(
                b"".join(wire for wire, _, _ in some), [len(wire) for wire, _, _ in some], controls
            )
            # Hits write all of this but the length of names.
            words[NAME_LEN:end:WORDS] = to_words(repeat(self._name_len, len(some)))

    def statistics(self) -> BatchStatistics:
        """What was received and sent so far."""
        return BatchStatistics(self._received, self._sent, self._batches, dict(self._send_errors))

    def _to_log(
        self, hits: list[int], lengths: list[int], arena: bytes, sizes: list[int]
    ) -> list[tuple[bytes, bytes, int]]:
        """Query, address and the reply's flags of each hit."""
        starts = accumulate(sizes, initial=0)
        return [
            (*self._received_as(index, lengths[index]), arena[at + 2] << 8 | arena[at + 3])
            for index, at in zip(hits, starts, strict=False)
        ]

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

    def _send_hits(self, hits: list[int], arena: bytes, sizes: list[int]) -> None:
        addresses = self._name_addresses
        self._out_headers.words[NAME : len(hits) * WORDS : WORDS] = (
            addresses[: len(hits)]
            if hits[-1] + 1 == len(hits)
            else to_words(addresses[index] for index in hits)
        )
        controls = (
            [self._reply_control(self._control(index)) for index in hits] if self._wildcard else []
        )
        self._transmit(arena, sizes, controls)

    def _reply_control(self, control: bytes) -> ctypes.Array[ctypes.c_char] | None:
        if not control:
            return None
        found = self._reply_controls.get(control)
        if found is None:
            if len(self._reply_controls) == MAX_CONTROLS:
                self._reply_controls = {}
            octets = reply_control(control)
            found = self._reply_controls[control] = ctypes.create_string_buffer(octets, len(octets))
        return found

    def _transmit(
        self,
        arena: bytes,
        sizes: list[int],
        controls: Sequence[ctypes.Array[ctypes.c_char] | None],
    ) -> None:
        """Send messages that lie one after another in `arena`, their names being set; `controls` are for wildcards."""
        count = len(sizes)
        self._out_vectors.words[0 : 2 * count : 2] = places(arena, sizes)
        self._out_vectors.words[1 : 2 * count : 2] = to_words(sizes)
        if self._wildcard:
            words, end = self._out_headers.words, count * WORDS
            words[CONTROL:end:WORDS] = to_words(
                0 if each is None else ctypes.addressof(each) for each in controls
            )
            words[CONTROL_LEN:end:WORDS] = to_words(
                0 if each is None else len(each) for each in controls
            )
        done = 0
        while done < count:
            sent = self._send(
                self._fd,
                self._out_headers.address + done * WORDS * 8,
                count - done,
                socket.MSG_DONTWAIT,
            )
            if sent > 0:
                self._sent += sent
                done += sent
                continue
            error = ctypes.get_errno()
            if error == errno.EINTR:
                continue
            if error == errno.EMSGSIZE and self._send_in_fragments(done):
                self._sent += 1
                done += 1
                continue
            # What does not fit into the socket's buffer now is lost with all that follows; other errors are of one.
            lost = count - done if error in (errno.EAGAIN, errno.ENOBUFS) else 1
            self._send_errors[error] = self._send_errors.get(error, 0) + lost
            done += lost

    def _send_in_fragments(self, index: int) -> bool:
        """Send one message of those set that is longer than the path's MTU; tell whether it went."""
        header = self._out_headers.address + index * WORDS * 8
        with _lent(self._fd) as sock, fragments_allowed(sock):
            return bool(self._send(self._fd, header, 1, socket.MSG_DONTWAIT) == 1)


def family_of(fd: int) -> socket.AddressFamily:
    """The address family of an open socket."""
    with _lent(fd) as sock:
        return socket.AddressFamily(sock.family)


@contextlib.contextmanager
def _lent(fd: int) -> Iterator[socket.socket]:
    """A socket object around a descriptor that stays its owner's."""
    sock = socket.socket(fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()
