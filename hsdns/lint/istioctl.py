"""Runs `istioctl analyze` if it is on PATH: its output about a mesh, or the command to run.

Path: lint/cli.py, doctor/cli.py -> here -> rules/mesh.py.
Rule: every error is a sentence with the command to run, and does not affect the rest of the report.

The findings of `istioctl analyze` in the files that `hsdns lint` checks, if they contain a mesh.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hsdns.cli.command import Flag

if TYPE_CHECKING:
    from hsdns.rules.mesh import MeshFinding
    from hsdns.rules.objects import Objects

PROGRAM: Final = "istioctl"
LIMIT: Final = 60.0  # seconds
MOST: Final = 100_000  # maximum octets of a command line
FLAG: Final = Flag.of(
    "run istioctl analyze if there is a mesh and istioctl is on PATH (default: true)",
)


class NotRun(Exception):
    """istioctl has no output; the message is a sentence with the reason and the command to run."""


def of_files(files: Sequence[str]) -> list[str]:
    """The command for files, without a cluster; `-` is standard input."""
    return [PROGRAM, "analyze", "--use-kube=false", *files]


def of_cluster(options: Sequence[str], namespace: str) -> list[str]:
    """The command for a cluster, or for one namespace of it; `options` say which."""
    scope = ["--namespace", namespace] if namespace else ["--all-namespaces"]
    return [PROGRAM, "analyze", *options, *scope]


def analysis(words: Sequence[str], given: bytes = b"") -> bytes:
    """The JSON output of a command; `given` is its standard input.  Raise NotRun."""
    run = f"run {shlex.join(words)}"
    if shutil.which(PROGRAM) is None:
        raise NotRun(f"{PROGRAM} is not on PATH; {run}")
    if sum(len(each) + 1 for each in words) > MOST:
        raise NotRun(f"there are too many files for one command line; {PROGRAM} takes folders too")
    try:
        done = subprocess.run(
            [*words, "--output", "json"], input=given, capture_output=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        raise NotRun(f"{PROGRAM} has not ended within {LIMIT:g} s; {run}") from None
    except OSError as error:
        raise NotRun(f"{PROGRAM} could not be started: {error.strerror or error}; {run}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = f": {said[-1][:200]}" if said else ""
        raise NotRun(f"{PROGRAM} failed with status {done.returncode}{why}; {run}")
    return done.stdout


def mesh_findings(
    objects: Objects, contents: Mapping[str, bytes], stdin_name: str
) -> tuple[list[MeshFinding], str]:
    """The findings, or a sentence about why there are none; both empty without a mesh.

    `contents` are the contents of the files, `stdin_name` is the name of standard input in findings.
    """
    from hsdns.rules.mesh import has_mesh, read_analysis
    from hsdns.sources.manifest_folder import STANDARD_INPUT

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
            "the configuration of Istio was not checked: what istioctl printed is not the JSON of istioctl analyze",
        )
