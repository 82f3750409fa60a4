"""Eviction: chooses the entry to drop if memory is short, by S3-FIFO (Yang et al., SOSP 2023).

Path: table.py calls evict() if a reply does not fit.  Twin of native/src/s3fifo.rs.
S3-FIFO was chosen because a hit changes one small number and reorders no list, and because names that are queried only
once pass through the small queue only, so that a flood of them evicts nothing from the main queue.
Rule 1: a new entry goes to the small queue (a tenth of the memory), or to the main queue if it was evicted from the
        small queue a short time ago: the ghosts record this by hash.
Rule 2: an entry at the end of the small queue moves to the main queue if it was used more than once; otherwise it is
        evicted.
Rule 3: an entry at the end of the main queue returns to its beginning once for each use; otherwise it is evicted.
Rule 4: an entry whose counters have changed is evicted when it reaches the end of a queue, used or not.
Rule 5: the work for one eviction is bounded, because no query is answered meanwhile.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Final

from hsdns.fastpath.entry import FREQUENCY, IN_MAIN, Entry, octets_of
from hsdns.fastpath.versions import Versions

USES_TO_STAY: Final = 2
MAX_ROUNDS: Final = 64
_SMALL_SHARE: Final = 10
_OCTETS_PER_GHOST: Final = 512  # of the table's capacity; two entries are rarely smaller
_MIN_GHOSTS: Final = 16
_MAX_GHOSTS: Final = 1 << 17
_32_BITS: Final = (1 << 32) - 1


class Queues:
    """Entries by key, the two queues of keys, oldest first, and the ghosts.

    `octets` is the entries' memory without their shared headers.
    """

    def __init__(self, capacity: int, versions: Versions) -> None:
        self.octets = 0
        self.entries: dict[bytes, Entry] = {}
        self._versions = versions
        self._small: deque[bytes] = deque()
        self._main: deque[bytes] = deque()
        self._small_octets = 0
        self._small_share = capacity // _SMALL_SHARE
        self._ghosts = _Ghosts(capacity // _OCTETS_PER_GHOST)

    def push(self, key: bytes, entry: Entry) -> None:
        """Add a new entry."""
        self.entries[key] = entry
        octets = octets_of(key, entry)
        self.octets += octets
        if self._ghosts.take(hash(key), len(self._main)):
            entry.state |= IN_MAIN
            self._main.append(key)
        else:
            self._small.append(key)
            self._small_octets += octets

    def resize(self, entry: Entry, more: int) -> None:
        """Add to the octets of an entry."""
        self.octets += more
        if not entry.state & IN_MAIN:
            self._small_octets += more

    def evict(self) -> tuple[bytes, Entry] | None:
        """Remove the next entry to evict, and return it with its key; None if there are no entries."""
        rounds = 0
        while self._small or self._main:
            is_last = rounds == MAX_ROUNDS
            rounds += 1
            if self._small and (self._small_octets > self._small_share or not self._main):
                key = self._small.popleft()
                entry = self.entries[key]
                octets = octets_of(key, entry)
                self._small_octets -= octets
                is_evicted = is_last or not entry.is_valid(self._versions)
                if is_evicted or entry.state & FREQUENCY < USES_TO_STAY:
                    self._ghosts.add(hash(key))
                    self.octets -= octets
                    del self.entries[key]
                    return key, entry
                entry.state = entry.state & ~FREQUENCY | IN_MAIN
                self._main.append(key)
                continue
            key = self._main.popleft()
            entry = self.entries[key]
            is_evicted = is_last or not entry.is_valid(self._versions)
            if is_evicted or not entry.state & FREQUENCY:
                self.octets -= octets_of(key, entry)
                del self.entries[key]
                return key, entry
            entry.state -= 1
            self._main.append(key)
        return None

    def clear(self) -> None:
        """Remove all entries."""
        self.entries.clear()
        self._small.clear()
        self._main.clear()
        self.octets = self._small_octets = 0
        self._ghosts.clear()


class _Ghosts:
    """Hashes of keys evicted from the small queue, each at an index given by the hash, with its eviction time."""

    def __init__(self, wanted: int) -> None:
        count = 1 << (min(max(wanted, _MIN_GHOSTS), _MAX_GHOSTS) - 1).bit_length()
        self._mask = count - 1
        # Without the lower 16 bits, which are given by the index.
        self._hashes = array("I", bytes(4 * count))
        # 1 + the number of hashes added before; 0: no hash.
        self._times = array("I", bytes(4 * count))
        self._time = 0

    def add(self, hashed: int) -> None:
        """Add a hash, which replaces the previous one at its index."""
        if self._time == _32_BITS:
            self.clear()
        self._time += 1
        self._hashes[hashed & self._mask] = hashed >> 16 & _32_BITS
        self._times[hashed & self._mask] = self._time

    def take(self, hashed: int, main_len: int) -> bool:
        """Return whether a hash is among the last added, as many as the main queue has entries, and remove it."""
        place = hashed & self._mask
        time = self._times[place]
        if (
            not time
            or self._hashes[place] != hashed >> 16 & _32_BITS
            or self._time - time > max(main_len, _MIN_GHOSTS)
        ):
            return False
        self._times[place] = 0
        return True

    def clear(self) -> None:
        """Remove all hashes."""
        self._times = array("I", bytes(4 * len(self._times)))
        self._time = 0
