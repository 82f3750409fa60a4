"""What rules of faults do at listeners: nothing, while none stands that is about connections or misses.

Path: faults.py sets it when such a rule comes or goes; tcp_listener.py looks at it when a client connects,
udp_listener.py for each query that the answer table does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from hsdns.chain import Endpoint

Connect = Callable[[Any], asyncio.Protocol]
Shed = Callable[[str, Endpoint, Endpoint], bool]


class ListenerFaults:
    """The listeners of a process have one in common.

    `connect` makes what speaks with a client of a TcpListener; `shed` tells whether a query is dropped that came to a
    server, by its name in metrics, from a client to an address.
    """

    def __init__(self) -> None:
        self.connect: Connect | None = None
        self.shed: Shed | None = None


NO_FAULTS: Final = ListenerFaults()  # of listeners that no rule is ever about
