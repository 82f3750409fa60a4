"""The manifest files under a list of paths, and a fingerprint of their state.

Path: manifests.py -> here -> manifest_file.py.
Rule 1: paths are listed in the given order, files of a folder by name, recursively.  Names that begin with a dot are
        skipped, such as `.git` and the `..data` of a mounted ConfigMap, whose visible files are links into it.
Rule 2: the folder of a Helm chart is skipped: its templates are not manifests.
Rule 3: standard input, the path "-", is listed as a file, but never changes.
Rule 4: the fingerprint follows links: the update of a mounted ConfigMap swaps a link and changes no file.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Final

import msgspec

from hsdns.sources.file_text import MAX_FILE_LEN, as_utf8
from hsdns.sources.manifest_file import ManifestFile, read_manifest_file

EXTENSIONS = tuple(f".{each}{end}" for end in ("", ".gz") for each in ("yaml", "yml", "json"))
STANDARD_INPUT: Final = "-"
_CHART: Final = "Chart.yaml"
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_SERVE: Final = "hsdns serve --source manifests -"
Fingerprint = tuple[tuple[str, int, int, int, int], ...]


def missing_paths(paths: Sequence[str]) -> list[str]:
    """Return an error for each path that does not exist."""
    return [
        f'source manifests: there is no file or folder "{path}"; correct the path or create it'
        for path in paths
        if path != STANDARD_INPUT and not os.path.exists(path)
    ]


def _rendered(folder: str, names: Sequence[str]) -> str:
    quoted = shlex.quote(folder)
    if _CHART in names:
        release = shlex.quote(os.path.basename(os.path.abspath(folder)))
        return (
            f"source manifests: {folder} is a Helm chart, whose templates are not manifests, so it is not read; "
            f"serve what it renders: helm template {release} {quoted} | {_SERVE}"
        )
    files = [os.path.join(folder, name) for name in KUSTOMIZATIONS if name in names]
    if files and not _is_component(files[0]):
        return (
            f"source manifests: {folder} holds a kustomization, and its files are read as they are; "
            f"serve what it renders: kubectl kustomize {quoted} | {_SERVE}"
        )
    return ""


def manifest_paths(paths: Sequence[str], remarks: list[str] | None = None) -> list[str]:
    """List the files, each once; a path that is itself a file may have any extension.

    `remarks` receives a sentence for each folder whose manifests another program renders.
    """
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            noted = [] if remarks is None else remarks
            found.update(dict.fromkeys(_walk(path, frozenset(), noted)))
        elif path == STANDARD_INPUT or os.path.exists(path):
            found[path] = None
    return list(found)


def _is_component(path: str) -> bool:
    """Whether a kustomization is only a part of others and cannot be rendered itself."""
    try:
        with open(path, "rb") as file:
            return b"kind: Component" in file.read(1 << 16)
    except OSError:
        return False


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


def _walk(folder: str, above: frozenset[str], remarks: list[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in above:
        return  # a link to a folder above it
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError:
        yield folder  # who reads it says why it cannot be read
        return
    remark = _rendered(folder, names)
    if remark and remark not in remarks:
        remarks.append(remark)
    if _CHART in names:
        return
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith("."):
            continue
        if os.path.isdir(path):
            yield from _walk(path, above | {real}, remarks)
        elif name.endswith(EXTENSIONS):
            yield path


# Files in a folder of manifests that are settings of another program, such as `tsconfig.json`.
#
# Rule 1: a `.json` file counts as settings if it is not valid JSON, for example because it has comments, and does not
#         contain `apiVersion`, which every manifest has.
# Rule 2: this applies only in a folder: a file given by its own path is meant to be a manifest.


def settings_remark(content: bytes, path: str, paths: Collection[str]) -> str:
    """The sentence about a file that is skipped; empty if it is to be read.  `paths` are the given paths."""
    if ".json" not in path[-8:] or path in paths or not _is_settings(content):
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


# Standard input as a file of manifests: read once, so that after a reload the same objects are served.


NAME: Final = "standard input"  # in place of a path in messages


@cache
def standard_input() -> ManifestFile | None:
    """Return the documents in standard input, None if it is empty; the first call reads it to its end."""
    try:
        content = as_utf8(sys.stdin.buffer.read(MAX_FILE_LEN + 1), NAME)
    except OSError as error:
        return ManifestFile([], [f"{NAME}: {error.strerror}"], [], is_broken=True)
    return read_manifest_file(content, NAME) if content.strip() else None


def was_read() -> bool:
    """Whether it has been read; only the command line reads it, because reading blocks everything else."""
    return bool(standard_input.cache_info().currsize)
