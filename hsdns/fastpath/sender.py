"""Replies in batches: one sendmmsg, where those of one client and one length are one message.

Path: batch.py -> here -> mmsg.py, trains.py.  Pure twin of native/src/system/sender.rs.
Rule 1: the structures that the kernel reads lie in memory that is laid out once; a few strided views of it are written
        per batch.
Rule 2: a datagram that cannot be sent is dropped and counted by errno, as the network would drop it.
Rule 3: a train that the kernel refuses goes in single datagrams.  If they go, trains of that length are not tried again
        on this socket: a device without checksums or a short path refuses them.  What a firewall refuses (EPERM) is.
"""

from __future__ import annotations

import ctypes
import errno
import socket
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate, chain, repeat
from operator import itemgetter
from typing import Final, NamedTuple

from hsdns.fastpath import trains
from hsdns.fastpath.control import reply_messages, write_messages
from hsdns.fastpath.descriptor import lent
from hsdns.fastpath.fragments import fragments_allowed
from hsdns.fastpath.mmsg import (
    CALLS,
    CONTROL,
    CONTROL_LEN,
    IOVEC,
    IOVEC_COUNT,
    NAME,
    NAME_LEN,
    WORDS,
    Memory,
    places,
    to_words,
)

MAX_CONTROLS: Final = 256
_VECTOR_LEN: Final = 16
_HEADER_LEN: Final = 8 * WORDS
_REFUSES_TRAINS: Final = frozenset({errno.EIO, errno.EINVAL, errno.EMSGSIZE})
_NO_ROOM: Final = frozenset({errno.EAGAIN, errno.ENOBUFS})


class Control(NamedTuple):
    """Control data where the kernel finds them; nothing is written of them where `octets` is None."""

    address: int = 0
    length: int = 0
    octets: ctypes.Array[ctypes.c_char] | None = None


NO_CONTROL: Final = Control()


class Messages(NamedTuple):
    """What the headers say, message by message: how many replies, of what length, and the control data of the query.

    There are no control data at all where no query had any.
    """

    headers: Memory
    counts: Sequence[int]
    lengths: Sequence[int]
    controls: Sequence[bytes]


class Sender:
    """Sends at most `batch_len` replies at a time by a socket that stays its owner's, with addresses of `name_len`."""

    def __init__(self, fd: int, batch_len: int, name_len: int) -> None:
        assert CALLS is not None, "Sender needs sendmmsg; portable_batch.py does without"
        _, self._send = CALLS
        self._fd = fd
        self._ones = [1] * batch_len
        self._vectors = Memory(batch_len * _VECTOR_LEN)
        self._headers = Memory(batch_len * _HEADER_LEN)
        self._train_headers = Memory(batch_len * _HEADER_LEN)
        for headers in (self._headers, self._train_headers):
            headers.words[NAME_LEN::WORDS] = to_words(repeat(name_len, batch_len))
        self._headers.words[IOVEC::WORDS] = self._vectors.addresses(_VECTOR_LEN)
        self._headers.words[IOVEC_COUNT::WORDS] = to_words(self._ones)
        # Control data of queries and the length of datagrams -> what a reply or a train takes.
        self._controls: dict[tuple[bytes, int], Control] = {}
        with lent(fd) as sock:
            self._longest = trains.longest_of(sock)
        self.sent = 0
        self.errors: dict[int, int] = {}

    def send(
        self,
        arena: bytes,
        sizes: list[int],
        names: array[int],
        controls: Sequence[bytes],
        clients: Callable[[], Iterable[Hashable]],
    ) -> None:
        """Send replies that lie one after another in `arena`, without waiting.

        `names`: where the socket address of each one's client lies; `controls`: the control data that each one's
        query came with, or nothing; `clients`: tells for each what is equal if they go the same way.
        """
        count = len(sizes)
        starts = places(arena, sizes)
        if self._longest and count >= trains.LEAST_FOR_TRAINS:
            made = trains.make(clients(), sizes, self._longest)
            if len(made) < count:
                self._send_trains(made, starts, sizes, names, controls)
                return
        self._vectors.words[0 : 2 * count : 2] = starts
        self._vectors.words[1 : 2 * count : 2] = to_words(sizes)
        # In a variable: the kernel reads them, and what is forgotten in _control() may be among them.
        alone = [self._control(each) for each in controls]
        self._write(self._headers, names, alone)
        self._transmit(Messages(self._headers, self._ones[:count], sizes, controls))

    def _send_trains(
        self,
        made: list[list[int]],
        starts: array[int],
        sizes: list[int],
        names: array[int],
        controls: Sequence[bytes],
    ) -> None:
        vectors, words = self._vectors.words, self._train_headers.words
        in_order = itemgetter(*chain.from_iterable(made))
        vectors[0 : 2 * len(sizes) : 2] = to_words(in_order(starts))
        vectors[1 : 2 * len(sizes) : 2] = to_words(in_order(sizes))
        firsts = [train[0] for train in made]
        counts = list(map(len, made))
        lengths = [sizes[at] for at in firsts]
        end = len(made) * WORDS
        offsets = accumulate(counts[:-1], initial=0)
        words[IOVEC:end:WORDS] = to_words(
            [self._vectors.address + at * _VECTOR_LEN for at in offsets]
        )
        words[IOVEC_COUNT:end:WORDS] = to_words(counts)
        received = [controls[at] for at in firsts] if controls else []
        together = [
            self._control(each, length if count > 1 else 0)
            for each, count, length in zip(received or repeat(b""), counts, lengths, strict=False)
        ]
        self._write(self._train_headers, to_words([names[at] for at in firsts]), together)
        self._transmit(Messages(self._train_headers, counts, lengths, received))

    @staticmethod
    def _write(headers: Memory, names: array[int], controls: Sequence[Control]) -> None:
        words, end = headers.words, len(names) * WORDS
        words[NAME:end:WORDS] = names
        if controls:
            addresses, lengths, _ = zip(*controls, strict=True)
            words[CONTROL:end:WORDS] = to_words(addresses)
            words[CONTROL_LEN:end:WORDS] = to_words(lengths)

    def _control(self, received: bytes, segment: int = 0) -> Control:
        """The control data of a reply to a query that came with such, or of a train of datagrams of such a length."""
        if not received and not segment:
            return NO_CONTROL
        key = received, segment
        found = self._controls.get(key)
        if found is None:
            if len(self._controls) == MAX_CONTROLS:
                self._controls = {}
            last = [trains.segment_message(segment)] if segment else []
            written = write_messages([*reply_messages(received), *last])
            octets = ctypes.create_string_buffer(written, len(written))
            found = Control(ctypes.addressof(octets), len(written), octets)
            self._controls[key] = found
        return found

    def _transmit(self, messages: Messages) -> None:
        headers, counts = messages.headers, messages.counts
        done = 0
        while done < len(counts):
            place = headers.address + done * _HEADER_LEN
            went = self._send(self._fd, place, len(counts) - done, socket.MSG_DONTWAIT)
            if went > 0:
                self.sent += sum(counts[done : done + went])
                done += went
                continue
            error = ctypes.get_errno()
            if error == errno.EINTR:
                continue
            # What does not fit into the socket's buffer now is lost with all that follows; other errors are of one.
            if error in _NO_ROOM:
                self._lose(error, sum(counts[done:]))
                return
            if counts[done] == 1:
                self._send_refused(place, error)
            else:
                self._send_singly(messages, done, error)
            done += 1

    def _send_singly(self, messages: Messages, index: int, error: int) -> None:
        """Send the replies of a train that the kernel refused one by one."""
        words, at = messages.headers.words, index * WORDS
        place = messages.headers.address + index * _HEADER_LEN
        words[at + IOVEC_COUNT] = 1
        received = messages.controls[index] if messages.controls else b""
        words[at + CONTROL], words[at + CONTROL_LEN], _ = self._control(received)
        before = self.sent
        for _ in range(messages.counts[index]):
            if self._send(self._fd, place, 1, socket.MSG_DONTWAIT) == 1:
                self.sent += 1
            else:
                self._send_refused(place, ctypes.get_errno())
            words[at + IOVEC] += _VECTOR_LEN
        if self.sent > before and error in _REFUSES_TRAINS:
            self._longest = messages.lengths[index] - 1

    def _send_refused(self, place: int, error: int) -> None:
        """Send one reply that the kernel refused, if fragments are all that it wants; else count it."""
        if error == errno.EMSGSIZE:
            with lent(self._fd) as sock, fragments_allowed(sock):
                if self._send(self._fd, place, 1, socket.MSG_DONTWAIT) == 1:
                    self.sent += 1
                    return
        self._lose(error, 1)

    def _lose(self, error: int, count: int) -> None:
        self.errors[error] = self.errors.get(error, 0) + count
