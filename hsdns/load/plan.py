"""What the process that sends is told: everything about a run, in one message.

Path: run.py makes it -> sender_process.py -> sender.py.
"""

from __future__ import annotations

import msgspec

from hsdns.load.schedule import Schedule, Stage
from hsdns.load.stream_plan import StreamPlan


class Plan(msgspec.Struct, frozen=True):
    """A run; `timeout` in nanoseconds, `address` in the socket module's form, `queries` without IDs.

    `weights` say how often each query is sent; empty: one after the other.  `replies`: whether they are wanted.
    `streams`: it goes over connections, all of it or what UDP truncates; None: over UDP.
    """

    family: int
    address: tuple[str | int, ...]
    queries: list[bytes]
    weights: list[float]
    seed: int
    stages: list[tuple[float, float, float]]
    arrival: str
    burst: int
    timeout: int
    sockets: int
    replies: bool
    streams: StreamPlan | None = None

    @property
    def schedule(self) -> Schedule:
        """When each query is due."""
        stages = tuple(Stage(*each) for each in self.stages)
        return Schedule(stages, self.arrival, self.burst, self.seed)


def read_plan(octets: bytes) -> Plan:
    """Read a plan."""
    return msgspec.msgpack.decode(octets, type=Plan)


def write_plan(plan: Plan) -> bytes:
    """The octets of a plan."""
    return msgspec.msgpack.encode(plan)
