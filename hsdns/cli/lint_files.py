"""The files that `hsdns lint` checks, and their contents.

Path: cli/lint.py -> here -> sources/manifest_folder.py; rules/judging.py parses the contents.
Rule 1: in a folder, it reads the manifests that `hsdns serve` reads, and every Corefile.
Rule 2: files that are not manifests before Helm or kustomize has run are skipped: the folder of a chart, which is
        reported, and the patches of a kustomization.
Rule 3: settings of other programs are skipped too (sources/manifest_folder.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import yaml

from hsdns.rules.judging import COREFILE
from hsdns.sources.manifest_folder import (
    KUSTOMIZATIONS,
    STANDARD_INPUT,
    manifest_paths,
    settings_remark,
)
from hsdns.sources.manifest_yaml import ManifestLoader

NAME: Final = "standard input"
CHART: Final = "Chart.yaml"


class Listed(NamedTuple):
    """The contents of files by name; `problems` are about unreadable files, `remarks` about skipped ones."""

    files: list[tuple[str, bytes]]
    problems: list[str]
    remarks: list[str]


def read_paths(paths: Sequence[str], stdin_name: str = NAME, without: str = "") -> Listed:
    """Read the files under paths, each once, except the file `without`; `-` is standard input."""
    files, problems, remarks = list[tuple[str, bytes]](), list[str](), list[str]()
    corefiles: list[str] = []
    left_out = {os.path.realpath(without)} if without else set[str]()
    for path in paths:
        if path != STANDARD_INPUT and not os.path.exists(path):
            problems.append(f"{path}: there is no such file or folder; correct the path")
        elif os.path.isdir(path):
            for folder, names in _folders(path):
                if CHART in names:
                    remarks.append(
                        f"{folder}: it is a Helm chart, whose templates are not manifests; check what it renders: "
                        f"helm template {folder} | hsdns lint -"
                    )
                corefiles += [
                    os.path.join(folder, name) for name in names if name.startswith(COREFILE)
                ]
                left_out |= _patches(folder, names)
    listed = [each for each in manifest_paths(paths) if os.path.realpath(each) not in left_out]
    for path in dict.fromkeys([*listed, *corefiles]):
        try:
            if path == STANDARD_INPUT:
                files.append((stdin_name, sys.stdin.buffer.read()))
                continue
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            problems.append(f"{path}: it cannot be read: {error.strerror or error}")
            continue
        remark = settings_remark(content, path, paths)
        if remark:
            remarks.append(remark)
        else:
            files.append((path, content))
    return Listed(files, problems, remarks)


def _folders(path: str) -> Iterator[tuple[str, list[str]]]:
    """The folders below a path, without hidden ones and those below a chart."""
    for folder, below, names in os.walk(path):
        below[:] = (
            [] if CHART in names else sorted(each for each in below if not each.startswith("."))
        )
        yield folder, sorted(names)


def _patches(folder: str, names: Sequence[str]) -> set[str]:
    """The files of a kustomization that contain only parts of objects."""
    found: set[str] = set()
    for name in names:
        if name not in KUSTOMIZATIONS:
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                value = yaml.load(file.read(), ManifestLoader)
        except (OSError, yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError):
            continue  # the last ones of tags, as in `!!bool x`
        given = value if isinstance(value, dict) else {}
        lists = [given.get(key) for key in ("patches", "patchesStrategicMerge")]
        patches, files = (each if isinstance(each, list) else [] for each in lists)
        listed = [each.get("path") for each in patches if isinstance(each, dict)]
        listed += [each for each in files if isinstance(each, str)]
        found |= {
            os.path.realpath(os.path.join(folder, each)) for each in listed if isinstance(each, str)
        }
    return found
