"""The effects of rules of faults at listeners: none, while no rule about connections or misses is active.

Path: faults.py sets it when such a rule begins or ends; tcp_listener.py reads it when a client connects,
udp_listener.py for each query that the answer table cannot answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from hsdns.chain import Endpoint

Connect = Callable[[Any], asyncio.Protocol]
Shed = Callable[[str, Endpoint, Endpoint], bool]


class ListenerFaults:
    """The effects of rules, shared by the listeners of a process.

    `connect` makes the protocol of a client of a TcpListener; `shed` tells whether to drop a query to a server, by its
    name in metrics, from a client to a local address.
    """

    def __init__(self) -> None:
        self.connect: Connect | None = None
        self.shed: Shed | None = None


NO_FAULTS: Final = ListenerFaults()  # for listeners without any rule
