"""The findings of `istioctl analyze`, in addition to our own; and whether there is a mesh to analyze.

Path: lint/istioctl.py (its output) -> here -> output.py, diagnosis.py.
Rule 1: istioctl checks the registry of a mesh, injection and egress; our rules do not repeat that.
Rule 2: signs of a mesh are objects and definitions of istio.io, the Deployment istiod, and labels; never the name of an
        image.
Source: istio pkg/config/analysis/diag, Message.Unstructured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hsdns.corefile.tree import Position
from hsdns.rules.objects import Manifest, Objects

KIND: Final = "IstioAnalysis"  # the object of a dump with the output of istioctl
TOOL: Final = "istioctl analyze"
SITE: Final = "https://istio.io/latest/docs/reference/config/analysis/"
_LEVELS: Final = {"Error": "error", "Warning": "warning"}  # Info, and unknown levels, are notes
_GROUP: Final = "istio.io"
_LABELS: Final = ("istio-injection", "istio.io/rev", "istio.io/dataplane-mode")
INJECT: Final = "sidecar.istio.io/inject"


class MeshFinding(NamedTuple):
    """One message of istioctl; `place` is the object as istioctl names it, `at` is None if it has no file."""

    code: str
    level: str
    place: str
    at: Position | None
    sentence: str
    page: str

    def __str__(self) -> str:
        where = f"{self.at.file}:{self.at.line}: " if self.at is not None else ""
        return f"{where}{self.level} {self.code} {self.message}"

    @property
    def label(self) -> str:
        """Its code."""
        return self.code

    @property
    def case(self) -> tuple[str, str]:
        """The name and the class of a test case for it."""
        return f"{self.code} {self.place}", TOOL

    @property
    def message(self) -> str:
        """The sentence, with its object."""
        return f"{self.place}: {self.sentence}" if self.place else self.sentence

    def as_json(self) -> dict[str, object]:
        """The finding as JSON; without a file like one in a cluster."""
        place = {"file": self.at.file, "line": self.at.line} if self.at is not None else {}
        return {
            "code": self.code,
            "level": self.level,
            **place,
            "object": self.place,
            "message": self.sentence,
            "page": self.page,
        }


def has_mesh(objects: Objects) -> bool:
    """Whether the objects have signs of an Istio mesh."""
    return any(map(_is_of_mesh, objects.manifests)) or any(
        pods.labels.get(INJECT) == "true" for pods in objects.pod_sets
    )


def is_istiod(manifest: Manifest) -> bool:
    """Whether a Deployment is that of istiod."""
    return manifest.name == "istiod" or manifest.labels.get("app") == "istiod"


def _is_of_mesh(manifest: Manifest) -> bool:
    if manifest.group == _GROUP or manifest.group.endswith(f".{_GROUP}"):
        return True
    if manifest.kind == "CustomResourceDefinition":
        return manifest.name.endswith(f".{_GROUP}")
    if manifest.kind == "Deployment":
        return is_istiod(manifest)
    return manifest.kind == "Namespace" and any(
        manifest.labels.get(each) not in (None, "disabled", "none") for each in _LABELS
    )


def read_analysis(text: bytes, names: Mapping[str, str]) -> list[MeshFinding]:
    """The messages in the output of `-o json`; `names` maps names of files.  Raise ValueError."""
    value = json.loads(text)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("it is no list")
    return as_findings(value, names)


def as_findings(
    messages: Iterable[object], names: Mapping[str, str] | None = None
) -> list[MeshFinding]:
    """Findings from messages in JSON."""
    return [_finding(each, names or {}) for each in messages if isinstance(each, dict)]


def _finding(message: dict[str, Any], names: Mapping[str, str]) -> MeshFinding:
    code = str(message.get("code", ""))
    file, _, line = str(message.get("reference", "")).rpartition(":")
    is_place = bool(file) and line.isascii() and line.isdigit() and len(line) < 10
    return MeshFinding(
        code,
        _LEVELS.get(str(message.get("level")), "note"),
        str(message.get("origin", "")),
        Position(names.get(file, file), int(line), 1) if is_place else None,
        " ".join(str(message.get("message", "")).split()),
        str(message.get("documentationUrl") or f"{SITE}{code.lower()}/"),
    )
