"""Datagrams: take a batch, answer, send.

Path: steps 1 and 7 for UDP.  The loop is recv -> answer -> send, at most BATCH_LEN datagrams a turn, so that timers and
TCP get theirs.
Rule 1: the processor can be exchanged between two datagrams (a reload); the socket stays.
Rule 2: a datagram that cannot be sent is dropped and counted, as the network would drop it.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from hsdns import drive
from hsdns.chain import Endpoint
from hsdns.metrics import Counter
from hsdns.query import QueryProcessor
from hsdns.server.listener import IP_PKTINFO, IPV6_PKTINFO, endpoint_of, plain_ipv4
from hsdns.wire.decode import MAX_QUERY_LEN

BATCH_LEN: Final = 64
_ANCILLARY_LEN: Final = socket.CMSG_SPACE(32)
_IN_PKTINFO: Final = struct.Struct("=I4s4s")  # ipi_ifindex, ipi_spec_dst, ipi_addr
_IN6_PKTINFO: Final = struct.Struct("=16sI")  # ipi6_addr, ipi6_ifindex

Address = tuple[Any, ...]
Ancillary = list[tuple[int, int, bytes]]


class UdpServer:
    """Reads one bound UDP socket."""

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        spawn: drive.Spawn,
        clock: Callable[[], float],
        lost: Counter,
    ) -> None:
        self.processor = processor
        self._sock = sock
        self._spawn = spawn
        self._clock = clock
        self._lost = lost
        self._wildcard = sock.getsockname()[0] in ("0.0.0.0", "::")
        self._local = Endpoint(*sock.getsockname()[:2])
        self._pending = 0

    def start(self) -> None:
        """Begin to read."""
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._read_batch)

    def close(self) -> None:
        """Stop reading and give the port back; what is still being answered is lost."""
        asyncio.get_running_loop().remove_reader(self._sock.fileno())
        self._sock.close()

    @property
    def sock(self) -> socket.socket:
        """The socket, for its options; only this server reads it."""
        return self._sock

    @property
    def local(self) -> Endpoint:
        """The bound address."""
        return self._local

    @property
    def pending(self) -> int:
        """How many queries wait for an answer from elsewhere."""
        return self._pending

    def _read_batch(self) -> None:
        sock, clock = self._sock, self._clock
        for _ in range(BATCH_LEN):
            try:
                if self._wildcard:
                    wire, ancillary, _, address = sock.recvmsg(MAX_QUERY_LEN + 1, _ANCILLARY_LEN)
                else:
                    wire, address = sock.recvfrom(MAX_QUERY_LEN + 1)
                    ancillary = []
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue  # an error of an earlier send that the kernel reports here; the socket lives on
            self._pending += 1
            try:
                drive.start(
                    self.processor.answer(
                        wire, endpoint_of(address), self._asked(ancillary), "udp", clock()
                    ),
                    functools.partial(self._send, address, ancillary),
                    self._spawn,
                )
            except BaseException:
                self._pending -= 1
                raise

    def _send(self, address: Address, ancillary: Ancillary, reply: bytes | None) -> None:
        self._pending -= 1
        if reply is None:
            return
        try:
            if ancillary:
                self._sock.sendmsg((reply,), _from_asked(ancillary), 0, address)
            else:
                self._sock.sendto(reply, address)
        except OSError as error:
            self._lost.inc((errno.errorcode.get(error.errno or 0, "UNKNOWN"),))

    def _asked(self, ancillary: Ancillary) -> Endpoint:
        """The address that the client sent to."""
        for _, kind, data in ancillary:
            if kind == IP_PKTINFO and len(data) >= _IN_PKTINFO.size:
                return Endpoint(socket.inet_ntop(socket.AF_INET, data[8:12]), self._local.port)
            if kind == IPV6_PKTINFO and len(data) >= _IN6_PKTINFO.size:
                text = socket.inet_ntop(socket.AF_INET6, data[:16])
                return Endpoint(plain_ipv4(text), self._local.port)
        return self._local


def _from_asked(ancillary: Ancillary) -> Ancillary:
    """Send from the address that was asked, by whatever interface routes there: the index is cleared.

    Link-local addresses keep theirs, without it they mean nothing.
    """
    out: Ancillary = []
    for level, kind, data in ancillary:
        if kind == IP_PKTINFO:
            out.append((level, kind, _IN_PKTINFO.pack(0, data[4:8], bytes(4))))
        elif kind == IPV6_PKTINFO:
            link_local = data[0] == 0xFE and data[1] & 0xC0 == 0x80
            out.append((level, kind, data if link_local else data[:16] + bytes(4)))
    return out
