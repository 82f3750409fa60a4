"""Known questions to finished replies, in front of the decoder: bytes to bytes, no names, no objects.

Two twins with one contract: `_native` (Rust, with workers of its own) and `_python` (always there).  The compiled one
is taken where it was built, unless HSDNS_NO_EXTENSIONS=1; IMPLEMENTATION says which: "rust" or "python".  Only where
it is "rust" does `_native` have Worker and MissQueue beside what stands here.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING, Final

__all__ = [
    "IMPLEMENTATION",
    "AnswerTable",
    "AnswerTableStatistics",
    "Batch",
    "BatchStatistics",
    "ClusterNames",
    "LogRecord",
    "Miss",
    "Versions",
]


def _find_native() -> ModuleType | None:
    """The compiled twin; None where it is not wanted, was not built, or not for this Python."""
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
        Versions,
    )
else:
    Batch = _native.Batch
    BatchStatistics = _native.BatchStatistics
    ClusterNames = _native.ClusterNames
    LogRecord = _native.LogRecord
    Miss = _native.Miss
    AnswerTable = _native.AnswerTable
    AnswerTableStatistics = _native.AnswerTableStatistics
    Versions = _native.Versions

IMPLEMENTATION: Final = "python" if _native is None else "rust"
