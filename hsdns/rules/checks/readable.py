"""HS001, HS002: values that the API server refuses, and fields and kinds that it does not know.

Path: judging.py -> here; sources/manifest_file.py has found them.
Rule: refusals with a separate rule are left to that rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hsdns.corefile.tree import Position
from hsdns.rules.checks.pods import is_about_pod_name
from hsdns.rules.checks.services import is_about_target
from hsdns.rules.objects import Manifest, Objects, check
from hsdns.rules.rule import Edit, Remark
from hsdns.sources.manifest_yaml import field_node


@check("HS001", needs="files", each="manifests")
def refused(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Values that the API server refuses."""
    fault = manifest.refused
    if fault is None or is_about_target(fault) or is_about_pod_name(fault):
        return
    yield manifest.remark(fault.field, str(fault).removeprefix(f"{fault.field}: "))


_MEANT: Final = re.compile(r'([\w.\[\]]*) ?has no field "(\w+)"; did you mean "(\w+)"\?')


@check("HS002", needs="files", each="manifests")
def unknown(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Kinds and fields that have no effect."""
    for line, sentence in manifest.remarks:
        place = str(manifest)
        said = sentence.removeprefix(
            f"{manifest.kind} {manifest.namespace or 'default'}/{manifest.name}"
        )
        said = said.removeprefix(f"{place}").removeprefix(": ").strip()
        found = _MEANT.fullmatch(said)
        edit = _renamed(manifest, *found.groups()) if found is not None else None
        yield Remark(Position(manifest.file, line, 1), place, "", said, edit=edit)


def _renamed(manifest: Manifest, parent: str, field: str, meant: str) -> Edit | None:
    """The edit that writes a field as the API does, if it differs in capitals only and is not there twice."""
    if field.lower() != meant.lower() or field_node(manifest.node, f"{parent}.{meant}") is not None:
        return None
    return manifest.replaced(f"{parent}.{field}", meant, is_key=True)
