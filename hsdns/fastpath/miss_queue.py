"""The queue of misses before the chain: fair between clients, and bounded.

Path: between steps 2 and 3; server/transport/udp.py adds the misses of a batch, and takes some in each iteration of the
loop. Twin of native/src/queue.rs, to which the workers add them.
Rule 1: a client is an IPv4 address or an IPv6 prefix of 64 bits; each client has a queue of its own.
Rule 2: the queues are served round robin, one miss each, so a client waits for as many misses as there are clients,
        however many another client has sent.
Rule 3: the total is bounded, in number and in octets.  If a new miss does not fit, the server drops the newest miss of
        the client with the most misses, or the new one if no client has more than its sender.  It counts the dropped
        miss; to the client this looks like a loss in the network.  So a client with less than its share, which is the
        capacity divided by the number of clients, loses nothing while the octets fit.
Rule 4: the capacity may change; server/transport/admission.py lowers it under lasting overload.
Rule 5: a caller that has taken a miss and answered it at no cost may give the client's turn back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from hsdns.fastpath.control import MAPPED, SOCKADDR_IN6_LEN

CAPACITY: Final = 16_384
# Average octets for each miss.
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
        # The same clients, the next one to be served first.
        self._turns: deque[bytes] = deque()
        self._last: bytes | None = None  # the client whose miss was taken last
        # The same clients by the number of their misses; the last element is never empty.
        self._by_length: list[dict[bytes, None]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def dropped(self) -> int:
        """The number of dropped misses."""
        return self._dropped

    def set_capacity(self, capacity: int) -> None:
        """Change the capacity; drops the newest misses of the clients with the most, down to one each."""
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
        """Remove and return the next misses, at most this many: (worker's index, query, address, control data) each."""
        return [self._pop() for _ in range(min(most, self._count))]

    def give_turn_back(self) -> None:
        """Serve the client of the last miss first again, unless it has no more or another client has joined since."""
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
        """Drop the newest miss of the client with the most; False if none has more than `own`, which is 1 or more.

        That client has two misses or more, so that its queue does not become empty, and it keeps its place.
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
        """Record the new number of a client's misses, which differs by one from the last."""
        clients = self._by_length
        if before:
            del clients[before][client]
        if after:
            while len(clients) <= after:
                clients.append({})
            clients[after][client] = None
        while clients and not clients[-1]:
            clients.pop()
