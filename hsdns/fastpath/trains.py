"""Which replies of a batch go to one client in one length: the kernel takes these as one message and cuts it.

Path: sender.py -> here.  Pure twin of native/src/trains.rs, with the same rules.
Rule 1: all datagrams of a train are as long as the first, but the last one may be shorter (UDP_SEGMENT, udp(7)).
Rule 2: replies to one client stay in order; those to several clients may pass each other.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections.abc import Hashable, Iterable
from itertools import count
from typing import Final

UDP_SEGMENT: Final = 103
# With its headers it fits into 1,280 octets, the least MTU of IPv6, so that hardly any path refuses it.
MAX_DATAGRAM_LEN: Final = 1232
# In a smaller batch each reply goes alone: nothing is to be saved, and a packet capture on the way, which shows a train
# as one datagram, shows the two replies of a resolver that asks for A and AAAA.
LEAST_FOR_TRAINS: Final = 16
_MAX_TRAIN_LEN: Final = (
    65_000  # a train has to fit into one IP packet: so the kernel counts before it cuts
)
_LEN: Final = struct.Struct("=H")


def longest_of(sock: socket.socket) -> int:
    """The longest datagram that may be part of a train; 0 where the kernel knows of none, or says so."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            sock.getsockopt(socket.IPPROTO_UDP, UDP_SEGMENT)
            return MAX_DATAGRAM_LEN
    return 0


def segment_message(length: int) -> tuple[int, int, bytes]:
    """The control message that makes a train of a message: level, type and data."""
    return socket.IPPROTO_UDP, UDP_SEGMENT, _LEN.pack(length)


def make(clients: Iterable[Hashable], lengths: Iterable[int], longest: int) -> list[list[int]]:
    """Make trains of replies to these clients; return the indexes of each, in order of its first one.

    What is longer than `longest` goes alone.
    """
    trains: list[list[int]] = []
    # By client: its newest train, the length of its datagrams, and how many there may be.
    open_ones: dict[Hashable, tuple[list[int], int, int]] = {}
    find = open_ones.get
    for at, client, length in zip(count(), clients, lengths, strict=False):
        found = find(client)
        if found is not None:
            train, datagram_len, most = found
            if length <= datagram_len and len(train) < most:
                train.append(at)
                if length < datagram_len:
                    del open_ones[client]
                continue
        train = [at]
        trains.append(train)
        if 0 < length <= longest:
            open_ones[client] = train, length, _MAX_TRAIN_LEN // length
        elif found is not None:
            del open_ones[client]
    return trains
