"""What stored replies of one kind have in common: how their hits are counted, logged and written.

Path: answer_table/writer.py makes them, table.py and native/src/table.rs take them with each reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hsdns.wire.edns import MAX_PAYLOAD_SIZE

if TYPE_CHECKING:
    from hsdns.fastpath import ClusterNames


class Terms(NamedTuple):
    """The terms of replies whose hits are counted in `group`.

    `rotate`: their addresses rotate.  `names` has the serial of their SOA records.  `mark_ttl` says how `cache` counts
    hits: an entry is marked when it is stored, and a hit counts as a hit of `cache` within this many seconds after a
    mark, else as a miss that marks the entry again; 0: each hit is a miss of `cache`; -1: `cache` counts nothing.
    `log`: hits are added to the log ring.  `max_payload`: larger payload sizes of queries are lowered to it, in the
    reply's OPT and as limit of its length over UDP; 512 to 65,507, or 65,535 for no limit.
    """

    group: int
    rotate: bool = False
    names: ClusterNames | None = None
    mark_ttl: int = -1
    log: bool = False
    max_payload: int = MAX_PAYLOAD_SIZE
