"""The pure Python twin of the fast path: everything in `_native` except the workers.

Path: step 2, if the compiled module is not available or disabled.
Rule 1: it runs on the event loop: server/transport/udp.py calls Batch.serve() when a socket is readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsdns.fastpath.batch import IS_AVAILABLE, BatchStatistics, Miss
from hsdns.fastpath.hit_counts import AnswerTableStatistics
from hsdns.fastpath.hit_records import LogRecord, Tap, TapRecord
from hsdns.fastpath.miss_queue import MissQueue
from hsdns.fastpath.table import AnswerTable, Peeked
from hsdns.fastpath.versions import ClusterNames, Versions

if TYPE_CHECKING or IS_AVAILABLE:
    from hsdns.fastpath.batch import Batch
else:
    from hsdns.fastpath.batch import PortableBatch as Batch

__all__ = [
    "AnswerTable",
    "AnswerTableStatistics",
    "Batch",
    "BatchStatistics",
    "ClusterNames",
    "LogRecord",
    "Miss",
    "MissQueue",
    "Peeked",
    "Tap",
    "TapRecord",
    "Versions",
]
