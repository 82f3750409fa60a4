"""What kustomizations say about files: which are no manifests, or are not applied, and which objects are patched.

Path: cli.py (a folder) -> here -> rules/judging.py (objects that are patched).
Rule 1: a kustomization is not rendered.  What a patch changes is not known, so an object that has one is not held
        against others.
Rule 2: a file that is listed in a comment only is not applied; a patch in a comment may be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import yaml

from hsdns.sources.file_text import read_file
from hsdns.sources.manifest_folder import KUSTOMIZATIONS
from hsdns.sources.manifest_yaml import ManifestLoader

_COMMENTED: Final = re.compile(
    r"^[ \t]*#[# \t]*-[ \t]+(?:path:[ \t]*)?(\S+\.ya?ml)[ \t]*$", re.MULTILINE
)
_ANY: Final = ""


class Kustomized(NamedTuple):
    """The files to leave out, and the kinds and names of patched objects; a name may be "", for all."""

    left_out: set[str]
    patched: set[tuple[str, str]]


def kustomized(folder: str, names: Sequence[str]) -> Kustomized:
    """What the kustomizations of a folder say about its files and about other objects."""
    found = Kustomized(set(), set())
    for name in (each for each in names if each in KUSTOMIZATIONS):
        try:
            text = read_file(os.path.join(folder, name))
        except OSError:
            continue
        given = next(_documents(text), {})
        files = list[str](_COMMENTED.findall(text.decode("utf-8", "replace")))
        for each in _patches(given):
            target = each.get("target")
            if isinstance(target, dict):
                found.patched.add((str(target.get("kind", _ANY)), str(target.get("name", _ANY))))
            if isinstance(each.get("path"), str):
                files.append(each["path"])
            found.patched.update(_objects(str(each.get("patch", "")).encode()))
        for file in files:
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                found.left_out.add(os.path.realpath(path))
                found.patched.update(_objects(read_file(path)))
    return found


def _patches(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("patches", "patchesJson6902", "patchesStrategicMerge"):
        listed = given.get(key)
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict):
                yield each
            elif isinstance(each, str):
                yield {"patch": each} if "\n" in each else {"path": each}


def _objects(text: bytes) -> Iterator[tuple[str, str]]:
    """The kinds and names of the objects in a patch, none if it is a list of operations."""
    for each in _documents(text):
        metadata = each.get("metadata")
        if isinstance(metadata, dict) and isinstance(each.get("kind"), str):
            yield each["kind"], str(metadata.get("name"))


def _documents(text: bytes) -> Iterator[dict[str, Any]]:
    try:
        found = list(yaml.load_all(text, ManifestLoader))
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError):
        return  # the last ones of tags, as in `!!bool x`
    yield from (each for each in found if isinstance(each, dict))
