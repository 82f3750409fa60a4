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

from hsdns.fastpath.entry import Terms as Terms


def _find_native() -> ModuleType | None:
    """The compiled twin; None if it is disabled, not built, or not built for this Python."""
    if os.environ.get("HSDNS_NO_EXTENSIONS") == "1":
        return None
    try:
        return importlib.import_module("hsdns.fastpath._native")
    except ImportError:
        return None


_native = _find_native()
IMPLEMENTATION: Final = "python" if _native is None else "rust"
if TYPE_CHECKING:
    from hsdns.fastpath import _python as _twin
else:
    _twin = _native or importlib.import_module("hsdns.fastpath._python")

AnswerTable = _twin.AnswerTable
AnswerTableStatistics = _twin.AnswerTableStatistics
Batch = _twin.Batch
BatchStatistics = _twin.BatchStatistics
ClusterNames = _twin.ClusterNames
LogRecord = _twin.LogRecord
Miss = _twin.Miss
MissQueue = _twin.MissQueue
Peeked = _twin.Peeked
Tap = _twin.Tap
TapRecord = _twin.TapRecord
Versions = _twin.Versions

# Asks upstreams without Python; without it, `forward` does.
if TYPE_CHECKING:
    from hsdns.fastpath._native import Forwarder as Forwarder
else:
    Forwarder = getattr(_native, "Forwarder", None)
# Decodes header blocks; without it, hsdns/http2.py does with a library.
HeaderDecoder = getattr(_native, "HeaderDecoder", None)
LoadCounts = getattr(_native, "LoadCounts", None)
LoadSender = getattr(_native, "LoadSender", None)
# The reader of an API server's protobuf; without it, the server is asked for JSON.
WatchFrames = getattr(_native, "WatchFrames", None)
ServiceReading = getattr(_native, "ServiceReading", None)
SliceReading = getattr(_native, "SliceReading", None)
read_page = getattr(_native, "read_page", None)
read_status = getattr(_native, "read_status", None)
# What a store does with EndpointSlices; hsdns/cluster has the same in Python.
move_addresses = getattr(_native, "move_addresses", None)
slice_change = getattr(_native, "slice_change", None)
read_time = getattr(_native, "read_time", None)
shorten_slice = getattr(_native, "shorten_slice", None)
SliceStore = getattr(_native, "SliceStore", None)
# Makes replies about Services from their values; without it, the chain makes all replies.
ServiceReplies = getattr(_native, "ServiceReplies", None)
