"""The files of manifests under some paths, and whether they have changed.

Path: manifests.py -> here -> manifest_file.py.
Rule 1: paths in the order given, files within a folder by name, folders below it too; what begins with a dot is passed
        over, which leaves out `.git` and a ConfigMap's `..data` (its files are links into it).
Rule 2: change is seen on the files that links lead to: a ConfigMap's update swaps one link and no file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

ENDINGS = (".yaml", ".yml", ".json")
Fingerprint = tuple[tuple[str, int, int, int, int], ...]


def missing_paths(paths: Sequence[str]) -> list[str]:
    """Sentences about paths that are not there."""
    return [
        f'source manifests: there is no file or folder "{path}"; correct the path or create it'
        for path in paths
        if not os.path.exists(path)
    ]


def manifest_paths(paths: Sequence[str]) -> list[str]:
    """List the files, each once; a file that is named itself may have any ending."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            found.update(dict.fromkeys(_walk(path, frozenset())))
        elif os.path.exists(path):
            found[path] = None
    return list(found)


def fingerprint(paths: Sequence[str]) -> Fingerprint:
    """Tell a state of the files from another without reading them."""
    seen = []
    for path in manifest_paths(paths):
        try:
            status = os.stat(path)
        except OSError:
            continue
        seen.append((path, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(seen)


def concerns(changed: str, paths: Sequence[str]) -> bool:
    """Whether a change of this path can change the manifests."""
    changed = os.path.abspath(changed)
    return any(_concerns(changed, os.path.abspath(path)) for path in paths)


def _concerns(changed: str, path: str) -> bool:
    is_folder = os.path.isdir(path)
    steps = os.path.relpath(changed, path if is_folder else os.path.dirname(path)).split(os.sep)
    if changed == path:
        return True
    if steps[0] == "..":
        return False
    # `..data` and its like are how the kubelet changes a mounted ConfigMap.
    if any(step.startswith("..") for step in steps):
        return True
    if not is_folder or any(step.startswith(".") for step in steps):
        return False
    # What has no such ending may be a folder that has come or gone.
    return changed.endswith(ENDINGS) or not os.path.isfile(changed)


def _walk(folder: str, above: frozenset[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in above:
        return  # a link to a folder above it
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith("."):
            continue
        if os.path.isdir(path):
            yield from _walk(path, above | {real})
        elif name.endswith(ENDINGS):
            yield path
