"""The demo cluster: the manifests in `hsdns/demo/`, which come with hsdns.

Path: cli/builtin.py (serves it), cli/doctor.py (checks it) -> here.  Its namespace `broken` has examples of failing
names, one for each rule that a cluster can break.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

WORD: Final = "demo"  # its name in flags


def folder() -> Path:
    """The folder of its manifests."""
    return Path(str(files("hsdns") / "demo"))


def manifests() -> bytes:
    """All its manifests as one file."""
    return b"\n---\n".join(each.read_bytes() for each in sorted(folder().rglob("*.yaml")))
