"""Retries over TCP after truncated answers over UDP, as a client does (RFC 7766 section 5).

Path: sender.py -> here, in place of the sockets of udp.py -> pool.py; replies go back to the sender as datagrams.
Rule 1: the sender does not see the retry: the reply over TCP has the ID of its query.  So the latency runs from when
        the query was due, and includes the truncated answer and the connection.
Rule 2: a query without a reply over TCP either is lost after its timeout, like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hsdns.load.asked import Asked
from hsdns.load.connection_facts import FELL, Fact
from hsdns.load.pool import Hears, Pool
from hsdns.load.sender import HEADER_LEN, Wire
from hsdns.load.telling import Telling

IDS: Final = 65_536
TRUNCATED: Final = 2  # TC, in the third octet of a message


class Falls:
    """Connects `wires` and the pool that `make_pool` makes; it receives the pool's replies and facts."""

    def __init__(
        self,
        wires: Sequence[Wire],
        make_pool: Callable[[Hears], Pool],
        emit: Callable[[bytes], None],
        clock: Callable[[], int],
    ) -> None:
        self.wires = [FallingWire(wire, number, self) for number, wire in enumerate(wires)]
        self.pool = make_pool(self)
        self._clock = clock
        self._telling = Telling(emit, replies=False)
        self._ready: set[int] = set()

    def take(self, number: int, query: bytes) -> None:
        """Send a query of a wire again over TCP."""
        self._telling.fact(Fact(FELL))
        place = number * IDS + int.from_bytes(query[:2], "big")
        now = self._clock()
        self.pool.ask(Asked(query[2:], place, now, now))

    def turn(self) -> list[int]:
        """Do what is due; return the numbers of the wires that have a reply."""
        now = self._clock()
        self.pool.tick(now)
        self.pool.flush()
        self._telling.tell_at(now)
        found = sorted(self._ready)
        self._ready.clear()
        return found

    def close(self) -> None:
        """Close the connections."""
        self.pool.close()
        self._telling.tell()

    def fact(self, fact: Fact) -> None:
        """Record a fact about connections."""
        self._telling.fact(fact)

    def reply(self, asked: Asked, message: bytes, now: int) -> None:
        """Pass a reply to its wire."""
        number, query_id = divmod(asked.question, IDS)
        self.wires[number].replies.append(query_id.to_bytes(2, "big") + message[2:])
        self._ready.add(number)

    def without_reply(self, asked: Asked, why: int) -> None:
        """Leave the query to its timeout."""


class FallingWire:
    """A UDP socket whose truncated answers are replaced by those over TCP."""

    def __init__(self, wire: Wire, number: int, falls: Falls) -> None:
        self.replies: list[bytes] = []
        self._wire = wire
        self._number = number
        self._falls = falls
        self._queries: dict[int, bytes] = {}  # by ID, until there is a reply

    def send(self, queries: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the indexes of those that could not be sent."""
        for query in queries:
            self._queries[query[0] << 8 | query[1]] = query
        return self._wire.send(queries)

    def receive(self) -> tuple[list[bytes], bool]:
        """Return the replies over TCP and those over UDP that are not truncated, and whether there may be more."""
        found, self.replies = self.replies, []
        datagrams, is_more = self._wire.receive()
        found += [each for each in datagrams if not self._falls_back(each)]
        self._falls.pool.flush()
        return found, is_more

    def _falls_back(self, octets: bytes) -> bool:
        """Whether this is a truncated answer; its query is sent again, once."""
        if len(octets) < HEADER_LEN:
            return False
        query = self._queries.pop(octets[0] << 8 | octets[1], None)
        if not octets[2] & TRUNCATED:
            return False
        if query is not None:
            self._falls.take(self._number, query)
        return True
