"""The common part of programs that pass queries on: a program and its nameserver run as one model.

Path: resolver/cli.py, explanation/client.py -> lookup(), or, for the programs of a node, load/send/pods.py -> hear(),
      wake() and take(), then `replies` -> the queries that are passed on, in `outbox`.
Rule 1: `outbox` has what the nameservers of the resolv.conf see; `heard` and `told` have what the program sent and got.
Rule 2: each query of the program is a task, a generator as a lookup is; an arrival is for the task that sent its query.
Rule 3: the queries of one TCP connection are answered one after the other, unless answers_in_turn is false.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from math import inf
from random import Random
from typing import ClassVar, Final, NamedTuple

from hsdns.resolver.model import Answer, Arrival, Exchange, Model, Packet, Waiting, within
from hsdns.resolver.resolv_conf import Reader
from hsdns.wire.iana import Rcode

Task = Generator[float | None, Arrival | None, None]
# Of whole names of Services, in lower case: addresses by the label of an endpoint, "" for the Service.
Registry = Mapping[str, Mapping[str, Sequence[str]]]
READER: Final = Reader("a forwarder", {}, most_servers=1 << 30, searches=False, numbers=())
NO_REGISTRY: Final[Registry] = {}
FAILED: Final = Answer(Rcode.SERVFAIL)
UDP_SIZE: Final = 512  # octets of a reply without EDNS


class Between(NamedTuple):
    """A forwarder by name, "" for none, the Services that it may know, and its resolv.conf, "" for the program's.

    With a `domain` the first nameserver is that of the cluster with this domain, and the others are those of the node.
    """

    name: str = ""
    registry: Registry = NO_REGISTRY
    text: str = ""
    domain: str = ""


NOTHING: Final = Between()


class Forwarder(Model):
    """A forwarder as the nameserver of a program, whose own nameservers are those of the resolv.conf."""

    reader = READER
    captures: ClassVar[bool] = False  # the queries to any nameserver, as it knows Services itself
    answers_in_turn: ClassVar[bool] = True  # over TCP
    forced: ClassVar[str] = ""  # the transport to the cluster's DNS, "" for that of the query
    splits: ClassVar[bool] = False  # names outside the cluster go to the nameservers of the node

    def __init__(
        self, text: str, random: Random, program: Model, between: Between = NOTHING
    ) -> None:
        super().__init__(text, random)
        self.program, self.registry, self.domain = program, between.registry, between.domain
        self.heard: list[Packet] = []
        self.told: list[tuple[float, Packet, Answer]] = []
        self.asking: Packet | None = None  # what the latest task began with
        self.blocked: frozenset[str] = frozenset()  # transports over which it is not reached
        self._tasks: dict[Task, float] = {}  # until when each waits
        self.running: Task | None = None
        self.askers: dict[tuple[str, int], Task] = {}  # by the port and ID of what they have sent
        self.replies: deque[Arrival] = deque()  # to what was heard
        self._lines: dict[str, deque[Packet]] = {}  # queries of a TCP connection
        self.begin()

    def begin(self) -> None:
        """Begin without anything known."""

    @abstractmethod
    def pass_on(self, query: Packet) -> Task:
        """Answer a query with tell(), or pass it on."""

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Run the lookup of the program, and what its queries lead to."""
        self.heard, self.told = [], []
        lookup, reply, until = self.program.lookup(name, types), None, self.now
        is_due = True
        while True:
            if is_due:
                self.program.now = self.now
                try:
                    deadline = lookup.send(reply)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return] # StopIteration has no type for it
                until = inf if deadline is None else deadline
                for query in self.program.outbox:
                    self.heard.append(query)
                    if query.transport not in self.blocked:
                        self.hear(query)
                self.program.outbox.clear()
            is_due = bool(self.replies)
            if is_due:
                reply = self.replies.popleft()
                self.told.append((self.now, *reply))
                continue
            self.wake()
            if self.replies:
                continue
            next_end = min(until, self.due)
            arrival = yield None if next_end == inf else next_end
            if arrival is not None:
                self.take(arrival)
            reply, is_due = None, arrival is None and until <= self.now

    @property
    def due(self) -> float:
        """When to wake it, in seconds of its clock; inf if it waits for nothing."""
        return min(self._tasks.values(), default=inf)

    def hear(self, query: Packet) -> None:
        """Take a query of a program."""
        if query.transport == "tcp" and self.answers_in_turn:
            line = self._lines.setdefault(query.port, deque())
            line.append(query)
            if len(line) > 1:
                return
        self._begin(query)

    def wake(self) -> None:
        """Go on with what has waited for this time."""
        for task in [each for each, end in self._tasks.items() if end <= self.now]:
            self.run(task)

    def take(self, arrival: Arrival) -> None:
        """Go on with an answer from a nameserver."""
        packet, _ = arrival
        task = self.askers.get((packet.port, packet.qid))
        if task is not None:
            self.run(task, arrival)

    def _begin(self, query: Packet) -> None:
        self.asking = query
        self.run(self.pass_on(query))

    def run(self, task: Task, arrival: Arrival | None = None) -> None:
        """Run a task until it waits, or ends."""
        before, self.running = self.running, task
        try:
            end = task.send(arrival)
            self._tasks[task] = inf if end is None else end
        except StopIteration:
            self._tasks.pop(task, None)
        self.running = before

    def tell(self, query: Packet, answer: Answer) -> None:
        """Answer the program, with what fits into its reply."""
        if query.transport == "udp":
            found = within(answer, query.rrtype, query.name, max(UDP_SIZE, query.edns))
            cut = answer.tc or len(found) < len(answer.addresses)
            answer = answer._replace(addresses=found, tc=cut)
        self.replies.append((query, answer))
        line = self._lines.get(query.port, deque())
        if answer.is_closed or len(line) < 2:
            self._lines.pop(query.port, None)
        else:
            line.popleft()
            self._begin(line[0])

    def ask(self, query: Packet, until: float | None) -> Exchange:
        """Send a query to a nameserver, and wait for its answer until a time."""
        assert self.running is not None, "only tasks ask"
        self.outbox.append(query._replace(at=self.now))
        key = query.port, query.qid
        self.askers[key] = self.running
        arrival = yield until
        del self.askers[key]
        return None if arrival is None else arrival[1]
