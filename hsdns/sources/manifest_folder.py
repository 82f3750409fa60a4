"""The manifest files under a list of paths, and a fingerprint of their state.

Path: manifests.py -> here -> manifest_file.py.
Rule 1: paths in the given order, files of a folder by name, recursively; names that begin with a dot are skipped, such
        as `.git` and the `..data` of a mounted ConfigMap, whose visible files are links into it.
Rule 2: the fingerprint follows links: the update of a mounted ConfigMap swaps a link and changes no file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

EXTENSIONS = (".yaml", ".yml", ".json")
Fingerprint = tuple[tuple[str, int, int, int, int], ...]


def missing_paths(paths: Sequence[str]) -> list[str]:
    """Return an error for each path that does not exist."""
    return [
        f'source manifests: there is no file or folder "{path}"; correct the path or create it'
        for path in paths
        if not os.path.exists(path)
    ]


def manifest_paths(paths: Sequence[str]) -> list[str]:
    """List the files, each once; a path that is itself a file may have any extension."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            found.update(dict.fromkeys(_walk(path, frozenset())))
        elif os.path.exists(path):
            found[path] = None
    return list(found)


def fingerprint(paths: Sequence[str]) -> Fingerprint:
    """Return a value that changes when a file is added, removed or changed; reads no file."""
    seen = []
    for path in manifest_paths(paths):
        try:
            status = os.stat(path)
        except OSError:
            continue
        seen.append((path, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(seen)


def is_relevant(changed: str, paths: Sequence[str]) -> bool:
    """Whether a change at the path `changed` may affect the manifests."""
    changed = os.path.abspath(changed)
    return any(_is_relevant(changed, os.path.abspath(path)) for path in paths)


def _is_relevant(changed: str, path: str) -> bool:
    is_folder = os.path.isdir(path)
    steps = os.path.relpath(changed, path if is_folder else os.path.dirname(path)).split(os.sep)
    if changed == path:
        return True
    if steps[0] == "..":
        return False
    # The kubelet updates a mounted ConfigMap by swapping `..data`.
    if any(step.startswith("..") for step in steps):
        return True
    if not is_folder or any(step.startswith(".") for step in steps):
        return False
    # A path without such an extension may be a new or a removed folder.
    return changed.endswith(EXTENSIONS) or not os.path.isfile(changed)


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
        elif name.endswith(EXTENSIONS):
            yield path
