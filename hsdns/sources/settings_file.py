"""Files in a folder of manifests that are settings of another program, such as `tsconfig.json`.

Path: manifests.py, cli/lint_files.py, testing/objects.py (a file and its content) -> here.
Rule 1: a `.json` file counts as settings if it is not valid JSON, for example because it has comments, and does not
        contain `apiVersion`, which every manifest has.
Rule 2: this applies only in a folder: a file given by its own path is meant to be a manifest.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec


def settings_remark(content: bytes, path: str, paths: Collection[str]) -> str:
    """The sentence about a file that is skipped; empty if it is to be read.  `paths` are the given paths."""
    if not path.endswith(".json") or path in paths or not _is_settings(content):
        return ""
    return f"{path}: it is neither JSON nor a manifest, which says its apiVersion; it is left out"


def _is_settings(content: bytes) -> bool:
    if b"apiVersion" in content or not content.strip():
        return False
    try:
        msgspec.json.decode(content, type=msgspec.Raw)
    except msgspec.DecodeError:
        return True
    except RecursionError:  # the code that reads it reports that
        return False
    return False
