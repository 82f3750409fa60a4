"""Datagrams one by one, for platforms without recvmmsg or with structures of another layout.

Path: as batch.py, with the same names, arguments and results.
Rule 1: callers do not depend on which of the two they use.
"""

from __future__ import annotations

import errno
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

from hsdns.fastpath.batch import BATCH_LEN, NOT_A_SOCKET, SLOT_LEN, BatchStatistics, Miss
from hsdns.fastpath.control import (
    family_of,
    fragments_allowed,
    is_ipv6,
    read_address,
    reply_messages,
    write_address,
    write_messages,
)
from hsdns.fastpath.hit_counts import IPV6
from hsdns.fastpath.table import AnswerTable

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
