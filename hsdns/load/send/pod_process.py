"""The sockets and the clock of the pods, in the sending process.

Path: process.py -> here -> pod_sender.py.
Rule: select() waits, because its timeout has microseconds; a selector finds the ready sockets, for any number of them.

The TCP connection of a pod's lookup, after a truncated reply:
Rule: nothing blocks.  Messages sent before the connection is established are kept until then; a failed connection has
      ended.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Final

from hsdns.descriptor_limit import raise_limit
from hsdns.load.plan import Plan
from hsdns.load.pods import Pods
from hsdns.load.schedule import Portion
from hsdns.load.send.pod_sender import Connection, PodSender, Ready
from hsdns.load.send.udp import StampedUdp
from hsdns.wire.framing import FrameBuffer, frame

CHUNK: Final = 65_536
_NOT_YET: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOTCONN, errno.EINPROGRESS)
Watch = Callable[[socket.socket, "PodTcp | None", int], None]


class PodTcp:
    """A connection to `address`, in the socket module's form.

    `watch` takes the events of module selectors that its socket waits for; with None for the connection, it waits for
    none.
    """

    def __init__(self, family: int, address: tuple[str | int, ...], watch: Watch) -> None:
        self._frames = FrameBuffer()
        self._unsent = b""
        self._watch = watch
        self._is_broken = False
        self._is_closed = False
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.connect(address)
        except BlockingIOError:
            pass
        except OSError:
            self._is_broken = True
        watch(self._socket, self, EVENT_READ | EVENT_WRITE)

    def send(self, octets: bytes) -> None:
        """Send a message, or keep it until the connection is established."""
        self._unsent += frame(octets)
        self._flush()

    def receive(self) -> tuple[list[bytes], bool]:
        """Send what is kept; return the messages that have arrived, and whether the connection has ended."""
        self._flush()
        found: list[bytes] = []
        while not self._is_broken:
            try:
                octets = self._socket.recv(CHUNK)
            except OSError as error:
                if error.errno in _NOT_YET:
                    break
                octets = b""
            if not octets:
                self._is_broken = True
                break
            found += self._frames.feed(octets)
        return found, self._is_broken

    def close(self) -> None:
        """Close it; calling it again has no effect."""
        if not self._is_closed:
            self._is_closed = True
            self._watch(self._socket, None, 0)
            self._socket.close()

    def _flush(self) -> None:
        if not self._unsent or self._is_broken:
            return
        try:
            sent = self._socket.send(self._unsent)
        except OSError as error:
            if error.errno not in _NOT_YET:
                self._is_broken = True
                return
            sent = 0
        self._unsent = self._unsent[sent:]
        waits_for = EVENT_READ | EVENT_WRITE if self._unsent else EVENT_READ
        self._watch(self._socket, self, waits_for)


def pod_sender(plan: Plan, pods: Pods, stop: int, emit: Callable[[bytes], None]) -> PodSender:
    """The sender of a plan with pods; it ends when the file descriptor `stop` is readable."""
    raise_limit()
    selector = DefaultSelector()
    wires = [StampedUdp(plan.family, plan.address) for _ in range(plan.sockets)]
    for wire in wires:
        selector.register(wire.socket, EVENT_READ, wire)
    watched = [stop, selector.fileno()]

    def wait(nanoseconds: int) -> Ready:
        ready = select.select(watched, [], [], nanoseconds / 1e9)[0]
        if stop in ready:
            return None
        if not ready:
            return ()
        return [key.data for key, _ in selector.select(0)]

    def watch(sock: socket.socket, connection: PodTcp | None, events: int) -> None:
        if connection is None:
            selector.unregister(sock)
        elif sock.fileno() not in selector.get_map():
            selector.register(sock, events, connection)
        else:
            selector.modify(sock, events, connection)

    def connect() -> Connection:
        return PodTcp(plan.family, plan.address, watch)

    return PodSender(
        wires,
        pods,
        plan.times(),
        Portion(*plan.portion).of(pods.lookups()),
        timeout=plan.timeout,
        clock=time.monotonic_ns,
        wait=wait,
        connect=connect,
        emit=emit,
        replies=plan.replies,
    )
