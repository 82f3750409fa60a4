"""The queue of misses before the chain: fair between clients, and bounded.

Path: between steps 2 and 3; server/udp.py offers the misses of a batch and takes them turn by turn.  Twin of
native/src/queue.rs, where the workers offer them.
Rule 1: a client is an IPv4 address or an IPv6 prefix of 64 bits; each has a line of its own.
Rule 2: the lines take turns, a miss each, so that a client waits for as many misses as there are clients, however many
        another one has sent.
Rule 3: it is bounded, in number and in octets.  What does not fit costs the client with most misses its newest one, and
        the client that asks its own if none has more.  It is counted and dropped, as the network would drop it.  So a
        client with less than its share, which is the capacity divided by the clients, loses nothing while the octets
        fit.
Rule 4: the capacity may change; server/queue_bound.py lowers it under lasting overload.
Rule 5: who has taken a miss that cost nothing gives its client the turn back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from hsdns.fastpath.control import MAPPED, SOCKADDR_IN6_LEN

CAPACITY: Final = 16_384
# How many octets there may be for each miss, on average.
OCTETS_PER_MISS: Final = 512

Waiting = tuple[int, bytes, bytes, bytes]


def client_of(address: bytes) -> bytes:
    """The client of a socket address: 4 octets of an IPv4 address, 8 of an IPv6 one, none if there is no address."""
    if len(address) == SOCKADDR_IN6_LEN:
        return address[20:24] if address[8:20] == MAPPED else address[8:16]
    return address[4:8]


class MissQueue:
    """Misses, bounded in number and in octets (512 for each)."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._dropped = 0
        self._capacity = capacity
        self._octets = self._count = 0
        # The misses of each client that has any, the oldest first.
        self._lines: dict[bytes, deque[Waiting]] = {}
        # The same clients, the one whose turn is next first.
        self._turns: deque[bytes] = deque()
        self._last: bytes | None = None  # whose miss was taken last
        # The same clients by the number of their misses; the last element is never empty.
        self._by_length: list[dict[bytes, None]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def dropped(self) -> int:
        """How many misses were dropped."""
        return self._dropped

    def set_capacity(self, capacity: int) -> None:
        """Change the capacity; the clients with most misses lose their newest ones, down to one each."""
        self._capacity = capacity
        while self._is_over() and self._drop_newest(1):
            self._dropped += 1

    def offer(self, worker: int, misses: Iterable[tuple[bytes, bytes, bytes]]) -> None:
        """Add misses of one worker: (query, address, control data) each."""
        for query, address, control in misses:
            client = client_of(address)
            own = 1 + len(self._lines.get(client, ()))
            while (is_full := self._is_full(query)) and self._drop_newest(own):
                self._dropped += 1
            if is_full:
                self._dropped += 1
            else:
                self._push(client, (worker, query, address, control))

    def take(self, most: int) -> list[Waiting]:
        """Take the next, at most so many: (index of the worker, query, address, control data) each."""
        return [self._pop() for _ in range(min(most, self._count))]

    def give_turn_back(self) -> None:
        """Give the client of the last miss its turn back, unless it has none left or another client has come since."""
        if self._turns and self._turns[-1] == self._last:
            self._turns.rotate(1)

    def _is_full(self, query: bytes) -> bool:
        return (
            self._count >= self._capacity
            or self._octets + len(query) > self._capacity * OCTETS_PER_MISS
        )

    def _is_over(self) -> bool:
        return self._count > self._capacity or self._octets > self._capacity * OCTETS_PER_MISS

    def _push(self, client: bytes, miss: Waiting) -> None:
        line = self._lines.get(client)
        if line is None:
            line = self._lines[client] = deque()
            self._turns.append(client)
        line.append(miss)
        self._count += 1
        self._octets += len(miss[1])
        self._sort(client, len(line) - 1, len(line))

    def _pop(self) -> Waiting:
        client = self._last = self._turns.popleft()
        line = self._lines[client]
        miss = line.popleft()
        if line:
            self._turns.append(client)
        else:
            del self._lines[client]
        self._count -= 1
        self._octets -= len(miss[1])
        self._sort(client, len(line) + 1, len(line))
        return miss

    def _drop_newest(self, own: int) -> bool:
        """Drop the newest miss of the client with most of them; False if none has more than `own`, which is 1 or more.

        The line that loses one has two or more, so that no line becomes empty, and its turn stays.
        """
        length = len(self._by_length) - 1
        if length <= own:
            return False
        client = next(iter(self._by_length[length]))
        gone = self._lines[client].pop()
        self._count -= 1
        self._octets -= len(gone[1])
        self._sort(client, length, length - 1)
        return True

    def _sort(self, client: bytes, before: int, after: int) -> None:
        """Note the new number of a client's misses, which differs by one from the last."""
        clients = self._by_length
        if before:
            del clients[before][client]
        if after:
            while len(clients) <= after:
                clients.append({})
            clients[after][client] = None
        while clients and not clients[-1]:
            clients.pop()
