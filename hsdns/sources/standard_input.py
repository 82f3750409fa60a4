"""Standard input as a file of manifests: read once, so that after a reload the same objects are served.

Path: cli/source_flag.py reads it before the server starts -> manifests.py.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Final

from hsdns.sources.manifest_file import MAX_FILE_LEN, ManifestFile, read_manifest_file

NAME: Final = "standard input"  # in place of a path in messages


@cache
def standard_input() -> ManifestFile | None:
    """Return the documents in standard input, None if it is empty; the first call reads it to its end."""
    content = sys.stdin.buffer.read(MAX_FILE_LEN + 1)
    return read_manifest_file(content, NAME) if content.strip() else None


def was_read() -> bool:
    """Whether it has been read; only the command line reads it, because reading blocks everything else."""
    return bool(standard_input.cache_info().currsize)
