"""The sockets and the clock of the pods, in the sending process.

Path: sender_process.py -> here -> pod_sender.py.
Rule: select() waits, because its timeout has microseconds; a selector finds the ready sockets, for any number of them.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector

from hsdns.descriptor_limit import raise_limit
from hsdns.load.plan import Plan
from hsdns.load.pod_sender import Connection, PodSender, Ready
from hsdns.load.pod_tcp import PodTcp
from hsdns.load.pods import Pods
from hsdns.load.portion import Portion
from hsdns.load.stamped_udp import StampedUdp


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
