"""The demo cluster: the manifests in `hsdns/demo/`, which come with hsdns.

Path: cli/builtin.py (served), cli/doctor.py (judged) -> here.
Its namespace `broken` has examples of what makes names fail, one for each rule that a cluster can break.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

WORD: Final = "demo"  # what a flag calls it


def folder() -> Path:
    """Where its manifests are."""
    return Path(str(files("hsdns") / "demo"))


def manifests() -> bytes:
    """All its manifests, as one file."""
    return b"\n---\n".join(each.read_bytes() for each in sorted(folder().rglob("*.yaml")))
