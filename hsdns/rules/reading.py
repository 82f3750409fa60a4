"""Reads files to check: returns manifests, Corefiles, silences, and what could not be read.

Path: cli/lint.py (names and contents) -> here -> judging.py.
Rule 1: a value that the API server would refuse is a finding; a file that is not a manifest is reported as not checked.
Rule 2: everything else is still checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hsdns.rules.corefile import CorefileText
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects
from hsdns.rules.silence import ANNOTATION, Silence, comments
from hsdns.sources.field_position import field_node
from hsdns.sources.manifest_file import MAX_FILE_LEN, LeftOut, read_objects
from hsdns.sources.manifest_folder import EXTENSIONS

COREFILE: Final = "Corefile"
_BLOCK: Final = re.compile(r"[^\s{][^\n]*\{[ \t]*(#.*)?")
_TEMPLATE: Final = re.compile(rb"\{\{-?\s*[.$(a-z]")


class Files(NamedTuple):
    """The content of files; `unread` are sentences about unchecked files, `left_out` about what other programs write.

    These are unrendered templates, and objects with tags of such a program.
    """

    objects: Objects
    silences: list[Silence]
    unread: list[str]
    left_out: list[str]


def read_files(files: Iterable[tuple[str, bytes]], *, is_whole: bool = False) -> Files:
    """Read files, given by name and content."""
    manifests: list[Manifest] = []
    corefiles: list[CorefileText] = []
    silences: list[Silence] = []
    unread: list[str] = []
    left_out: list[str] = []
    for file, content in files:
        silences += comments(content, file)
        if len(content) > MAX_FILE_LEN:
            unread.append(f"{file}:1: the file is longer than {MAX_FILE_LEN} octets; split it")
        elif is_corefile(file, content):
            corefiles.append(CorefileText(file, content.decode("utf-8", "replace")))
        else:
            found, problems, without = _manifests(file, content)
            left_out += without
            if problems and _TEMPLATE.search(content):
                left_out.append(
                    f"{file}: it is a template that was not rendered; check what helm template prints: "
                    "helm template CHART | hsdns lint -"
                )
                problems = []
            manifests += found
            unread += problems
            for each in found:
                corefiles += _corefiles_of(each, content)
    for each in manifests:
        silences += _annotations(each)
    return Files(Objects(manifests, corefiles, is_whole=is_whole), silences, unread, left_out)


def is_corefile(file: str, content: bytes) -> bool:
    """Whether a file is a Corefile, by its name or else by its first line."""
    name = os.path.basename(file)
    if name.startswith(COREFILE) or name.lower().endswith(".corefile"):
        return True
    if name.endswith(EXTENSIONS):
        return False
    for line in content[:4096].decode("utf-8", "replace").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return _BLOCK.fullmatch(line.rstrip()) is not None and ": " not in line
    return False


def _manifests(file: str, content: bytes) -> tuple[list[Manifest], list[str], list[str]]:
    """The manifests, what is wrong, and what is left out."""
    found, problems, left_out = [], [], []
    for each in read_objects(content, file):
        if each.problem is not None and "{{" in str(each.problem):
            problems.append(f"{file}:{each.problem.line}: {each.problem}")  # a template
        elif each.item is not None and (each.problem is None or each.problem.fault is not None):
            if isinstance(each.item.head.kind, str):
                found.append(Manifest(each, file, content))
        elif isinstance(each.problem, LeftOut):
            left_out.append(f"{file}:{each.problem.line}: {each.problem}")
        elif each.problem is not None:
            problems.append(f"{file}:{each.problem.line}: {each.problem}")
    return found, problems, left_out


def _corefiles_of(manifest: Manifest, content: bytes) -> Iterator[CorefileText]:
    if manifest.kind != "ConfigMap":
        return
    data = manifest.content.get("data")
    for key, text in data.items() if isinstance(data, dict) else ():
        if not isinstance(text, str) or not (key == COREFILE or key.endswith(".server")):
            continue
        node = field_node(manifest.node, f"data[{key}]")
        place = manifest.at(f"data[{key}]")
        if getattr(node, "style", None) != "|":
            yield CorefileText(
                manifest.file,
                text,
                line=place.line,
                indent=place.column - 1,
                owner=str(manifest),
                is_moved=True,
            )
            continue
        lines = content.decode("utf-8", "replace").split("\n")
        first = next((at for at, each in enumerate(text.split("\n")) if each.strip()), 0)
        written = lines[place.line + first] if place.line + first < len(lines) else ""
        indent = (
            len(written)
            - len(written.lstrip())
            - (len(text.split("\n")[first]) - len(text.split("\n")[first].lstrip()))
        )
        yield CorefileText(
            manifest.file, text, line=place.line + 1, indent=max(indent, 0), owner=str(manifest)
        )


def _annotations(manifest: Manifest) -> Iterator[Silence]:
    for key, reason in manifest.annotations.items():
        if key.startswith(ANNOTATION):
            place = manifest.at(f"metadata.annotations[{key}]")
            code = key.removeprefix(ANNOTATION)
            yield Silence(place, place, place, 0, str(manifest), code, reason.strip())
