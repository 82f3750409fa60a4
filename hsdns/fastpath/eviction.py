"""Which entry goes when memory is short: S3-FIFO (Yang et al., SOSP 2023).

Path: table.py asks when a reply or a prepared form of one does not fit.  Pure twin of native/src/s3fifo.rs.
Why this one: a hit costs one small number and reorders no list; and a flood of once-asked names passes through the
small queue only, so it pushes nothing out of the main one.
Rule 1: what is new goes to the small queue (a tenth of the memory), or to the main one if it left the small queue not
        long ago: the ghosts remember that by hash.
Rule 2: what leaves the small queue goes to the main one if it was used more than once there, else it is evicted.
Rule 3: what comes to the end of the main queue goes round again for each use, else it is evicted.
Rule 4: an entry whose counters moved is evicted at once, used or not.
Rule 5: the work for one eviction is bounded: nothing is answered meanwhile.
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
_OCTETS_PER_GHOST: Final = 512  # of the table; two entries are hardly smaller
_MIN_GHOSTS: Final = 16
_MAX_GHOSTS: Final = 1 << 17
_32_BITS: Final = (1 << 32) - 1


class Queues:
    """Entries by their keys, the two queues of these, oldest first, and the ghosts.

    The octets of what shares memory with others are not counted here.
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
        """Let a new entry in."""
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
        """Note that an entry takes so many octets more than before."""
        self.octets += more
        if not entry.state & IN_MAIN:
            self._small_octets += more

    def evict(self) -> tuple[bytes, Entry] | None:
        """Take out the entry that is to go; None where there is none."""
        rounds = 0
        while self._small or self._main:
            is_last = rounds == MAX_ROUNDS
            rounds += 1
            if self._small and (self._small_octets > self._small_share or not self._main):
                key = self._small.popleft()
                entry = self.entries[key]
                octets = octets_of(key, entry)
                self._small_octets -= octets
                goes = is_last or not entry.is_true(self._versions)
                if goes or entry.state & FREQUENCY < USES_TO_STAY:
                    self._ghosts.add(hash(key))
                    self.octets -= octets
                    del self.entries[key]
                    return key, entry
                entry.state = entry.state & ~FREQUENCY | IN_MAIN
                self._main.append(key)
                continue
            key = self._main.popleft()
            entry = self.entries[key]
            goes = is_last or not entry.is_true(self._versions)
            if goes or not entry.state & FREQUENCY:
                self.octets -= octets_of(key, entry)
                del self.entries[key]
                return key, entry
            entry.state -= 1
            self._main.append(key)
        return None

    def clear(self) -> None:
        """Forget all."""
        self.entries.clear()
        self._small.clear()
        self._main.clear()
        self.octets = self._small_octets = 0
        self._ghosts.clear()


class _Ghosts:
    """Hashes of what left the small queue, each in the one place where its hash puts it, with the time it came."""

    def __init__(self, wanted: int) -> None:
        count = 1 << (min(max(wanted, _MIN_GHOSTS), _MAX_GHOSTS) - 1).bit_length()
        self._mask = count - 1
        self._hashes = array(
            "I", bytes(4 * count)
        )  # without the lower 16 bits, which the place has
        self._times = array("I", bytes(4 * count))  # 1 + how many came before; 0: none
        self._time = 0

    def add(self, hashed: int) -> None:
        """Remember a hash, in place of the one that was there."""
        if self._time == _32_BITS:
            self.clear()
        self._time += 1
        self._hashes[hashed & self._mask] = hashed >> 16 & _32_BITS
        self._times[hashed & self._mask] = self._time

    def take(self, hashed: int, main_len: int) -> bool:
        """Tell whether a hash is among the last that came, as many as the main queue has entries, and forget it."""
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
        """Forget all."""
        self._times = array("I", bytes(4 * len(self._times)))
        self._time = 0
