"""What the pages of the control door may read.

Path: lifecycle.py makes one for the process; the pages of routes.py get it.
Rule: a page asks for the instance each time it goes on after others have run, since a reload exchanges it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hsdns.http_page import HttpRefusal
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.faults import StandingFaults
from hsdns.server.instance import Instance

NOT_SERVING = "the server starts or ends, and has no answers; ask again in a moment"


class Door:
    """The server as its pages see it; `clock` gives monotonic seconds, `wall` those since the epoch.

    `faults` is None where the server was not started for them.
    """

    def __init__(
        self,
        instance: Callable[[], Instance | None],
        clock: Callable[[], float],
        wall: Callable[[], float],
        faults: StandingFaults | None = None,
    ) -> None:
        self.instance = instance
        self.clock = clock
        self.wall = wall
        self.faults = faults
        self.began = clock()

    def serving(self) -> Instance:
        """The instance that serves; raise HttpRefusal where there is none."""
        found = self.instance()
        if found is None:
            raise HttpRefusal(503, NOT_SERVING)
        return found


def kubernetes_blocks(instance: Instance) -> list[Kubernetes]:
    """The kubernetes plugins, in the order of the Corefile."""
    return [each for each in instance.configuration.plugins if isinstance(each, Kubernetes)]


def to_line(value: Any) -> bytes:
    """A line of JSON."""
    return msgspec.json.encode(value) + b"\n"
