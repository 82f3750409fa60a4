"""The fast path: answers queries from the answer table before they are decoded, from octets to octets.

It has two implementations with the same interface, called twins: `_native` (Rust, with worker threads) and `_python`.
`_native` is used if it was built and HSDNS_NO_EXTENSIONS is not 1.  IMPLEMENTATION is "rust" or "python".  Only
`_native` has Worker, LoadCounts, LoadSender and the reader of protobuf; without it, all of these but Worker are None.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING, Final

from hsdns.fastpath.terms import Terms

__all__ = [
    "IMPLEMENTATION",
    "AnswerTable",
    "AnswerTableStatistics",
    "Batch",
    "BatchStatistics",
    "ClusterNames",
    "LoadCounts",
    "LoadSender",
    "LogRecord",
    "Miss",
    "MissQueue",
    "Peeked",
    "ServiceReading",
    "ServiceReplies",
    "SliceReading",
    "SliceStore",
    "Tap",
    "TapRecord",
    "Terms",
    "Versions",
    "WatchFrames",
    "dashed_labels",
    "move_addresses",
    "read_page",
    "read_status",
    "read_time",
    "shorten_slice",
    "slice_change",
]


def _find_native() -> ModuleType | None:
    """The compiled twin; None if it is disabled, not built, or not built for this Python."""
    if os.environ.get("HSDNS_NO_EXTENSIONS") == "1":
        return None
    try:
        return importlib.import_module("hsdns.fastpath._native")
    except ImportError:
        return None


_native = _find_native()

if TYPE_CHECKING or _native is None:
    from hsdns.fastpath._python import (
        AnswerTable,
        AnswerTableStatistics,
        Batch,
        BatchStatistics,
        ClusterNames,
        LogRecord,
        Miss,
        MissQueue,
        Peeked,
        Tap,
        TapRecord,
        Versions,
    )
else:
    Batch = _native.Batch
    BatchStatistics = _native.BatchStatistics
    ClusterNames = _native.ClusterNames
    LogRecord = _native.LogRecord
    Miss = _native.Miss
    MissQueue = _native.MissQueue
    Peeked = _native.Peeked
    AnswerTable = _native.AnswerTable
    AnswerTableStatistics = _native.AnswerTableStatistics
    Tap = _native.Tap
    TapRecord = _native.TapRecord
    Versions = _native.Versions

LoadCounts = getattr(_native, "LoadCounts", None)
# The reader of an API server's protobuf; without it, the server is asked for JSON.
WatchFrames = getattr(_native, "WatchFrames", None)
ServiceReading = getattr(_native, "ServiceReading", None)
SliceReading = getattr(_native, "SliceReading", None)
read_page = getattr(_native, "read_page", None)
read_status = getattr(_native, "read_status", None)
# What a store does with EndpointSlices; hsdns/cluster has the same in Python.
dashed_labels = getattr(_native, "dashed_labels", None)
move_addresses = getattr(_native, "move_addresses", None)
slice_change = getattr(_native, "slice_change", None)
read_time = getattr(_native, "read_time", None)
shorten_slice = getattr(_native, "shorten_slice", None)
SliceStore = getattr(_native, "SliceStore", None)
# Makes replies about Services from their values; without it, the chain makes all replies.
ServiceReplies = getattr(_native, "ServiceReplies", None)
LoadSender = getattr(_native, "LoadSender", None)
IMPLEMENTATION: Final = "python" if _native is None else "rust"
