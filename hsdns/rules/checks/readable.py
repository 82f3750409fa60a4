"""HS001, HS002: values that the API server refuses, and fields and kinds that it does not know.

Path: judging.py -> here; sources/manifest_file.py has found them.
Rule: refusals with a separate rule are left to that rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from hsdns.corefile.tree import Position
from hsdns.rules.checks.pods import is_about_pod_name
from hsdns.rules.checks.services import is_about_target
from hsdns.rules.objects import Objects, check
from hsdns.rules.rule import Remark


@check("HS001", needs="files")
def refused(objects: Objects) -> Iterator[Remark]:
    """Values that the API server refuses."""
    for manifest in objects.manifests:
        fault = manifest.refused
        if fault is None or is_about_target(fault) or is_about_pod_name(fault):
            continue
        yield manifest.remark(fault.field, str(fault).removeprefix(f"{fault.field}: "))


@check("HS002", needs="files")
def unknown(objects: Objects) -> Iterator[Remark]:
    """Kinds and fields that are misspelt."""
    for manifest in objects.manifests:
        for line, sentence in manifest.remarks:
            place = str(manifest)
            said = sentence.removeprefix(
                f"{manifest.kind} {manifest.namespace or 'default'}/{manifest.name}"
            )
            said = said.removeprefix(f"{place}").removeprefix(": ").strip()
            yield Remark(Position(manifest.file, line, 1), place, "", said)
