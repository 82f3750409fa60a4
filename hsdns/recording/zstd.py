"""Zstandard: the module of the standard library, or its backport before Python 3.14.

Path: frames.py uses it.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import (
        CompressionParameter,
        DecompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdError,
    )
else:
    from backports.zstd import (
        CompressionParameter,
        DecompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdError,
    )

__all__ = [
    "CompressionParameter",
    "DecompressionParameter",
    "ZstdCompressor",
    "ZstdDecompressor",
    "ZstdError",
]
