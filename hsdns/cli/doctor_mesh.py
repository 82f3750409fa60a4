"""The output of `istioctl analyze` for the cluster that `hsdns doctor` reads, as an object of the dump.

Path: cli/doctor.py (a dump) -> here -> istioctl.py -> rules/diagnosis.py.
"""

from __future__ import annotations

import json

from hsdns.cli.istioctl import NotRun, analysis, of_cluster
from hsdns.rules.mesh import KIND, has_mesh
from hsdns.rules.reading import read_files
from hsdns.sources.cluster_dump import MESH, with_object, with_reason


def with_mesh(dump: bytes, access: tuple[str, str], namespace: str, *, runs: bool) -> bytes:
    """A dump with the output of istioctl, or why there is none; the dump unchanged if there is no mesh.

    `access` are FILE and CONTEXT of a kubeconfig.
    """
    if b"istio" not in dump or not has_mesh(read_files([("dump", dump)]).objects):
        return dump
    words = of_cluster(*access, namespace)
    try:
        if not runs:
            raise NotRun("left out by -istioctl=false")
        messages = json.loads(analysis(words))
        if messages is not None and not isinstance(messages, list):
            raise ValueError
    except NotRun as error:
        return with_reason(dump, MESH, str(error))
    except ValueError:
        return with_reason(dump, MESH, "what istioctl printed is no JSON of istioctl analyze")
    found = {"apiVersion": "hsdns.io/v1", "kind": KIND, "metadata": {"name": "istioctl"}}
    return with_object(dump, {**found, "messages": messages or []})
