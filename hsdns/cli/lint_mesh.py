"""The findings of `istioctl analyze` in the files that `hsdns lint` checks, if they contain a mesh.

Path: cli/lint.py -> here -> istioctl.py -> rules/mesh.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from hsdns.cli.istioctl import NotRun, analysis, of_files
from hsdns.rules.mesh import MeshFinding, has_mesh, read_analysis
from hsdns.rules.objects import Objects
from hsdns.sources.manifest_folder import STANDARD_INPUT


def mesh_findings(
    objects: Objects, contents: Mapping[str, bytes], stdin_name: str
) -> tuple[list[MeshFinding], str]:
    """The findings, or a sentence about why there are none; both empty without a mesh.

    `contents` are the contents of the files, `stdin_name` is the name of standard input in findings.
    """
    if not has_mesh(objects):
        return [], ""
    files = list(dict.fromkeys(each.file for each in objects.manifests))
    words = of_files([STANDARD_INPUT if each == stdin_name else each for each in files])
    try:
        said = analysis(words, contents.get(stdin_name, b""))
        return read_analysis(said, {STANDARD_INPUT: stdin_name}), ""
    except NotRun as error:
        return [], f"the configuration of Istio was not checked: {error}"
    except ValueError:
        return (
            [],
            "the configuration of Istio was not checked: what istioctl printed is no JSON of istioctl analyze",
        )
