"""Manifests give the same EndpointSlices whether they are read as files or applied to a cluster with controllers.

A real kube-controller-manager makes them where KUBEBUILDER_ASSETS names a folder with it, and what one made was recorded
for all others.  The manifests are those of situations.txt and of the pages for users; one of a page that has changed
since it was recorded is left out until the next recording.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import EndpointSlice
from hsdns.sources.manifest_file import read_manifest_file
from tests.docs.test_examples import FENCE, TITLE
from tests.support.apiserver.real_controllers import (
    PLURALS,
    RealControllers,
    completed,
    missing_program,
)
from tests.support.peer_replies import CONTROLLERS, IS_RECORDING, Entry
from tests.support.tables import rows

Manifest = dict[str, Any]
DOCS = Path(__file__).resolve().parents[2] / "docs"
LABEL = "kubernetes.io/service-name"
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
# The end of the name of a generated pod, with the hash of a Deployment; a long name is cut before it.
_GENERATED = re.compile(rf"(-{_RANDOM}{{8,10}})?-{_RANDOM}{{5}}$|(?<=^.{{58}}){_RANDOM}{{5}}$")
_SHORT = re.compile(r"(pod: \S+|svc|hl)( .*)?")


def written(text: str) -> Iterator[Manifest]:
    """The manifests of a row, one a line."""
    for line in text.splitlines():
        short = _SHORT.fullmatch(line)
        if short is None:
            yield yaml.safe_load(line)
            continue
        fields = yaml.safe_load(short[2] or "{}")
        if short[1].startswith("pod: "):
            metadata = {"name": short[1][5:], "labels": {"app": "a"}}
            metadata |= fields.pop("metadata", {})
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **fields}
        else:
            spec = {"selector": {"app": "a"}, "ports": [{"port": 80}], **fields}
            spec |= {"clusterIP": "None"} if short[1] == "hl" else {}
            named = {"name": short[1]}
            yield {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": spec}


def in_docs(page: Path) -> Iterator[tuple[str, list[Manifest]]]:
    for fence in FENCE.finditer(page.read_text()):
        if fence["language"] != "yaml":
            continue
        found = [each for each in yaml.safe_load_all(fence["body"]) if isinstance(each, dict)]
        flat = [one for each in found for one in each.get("items", [each])]
        flat = [each for each in flat if each.get("kind") in PLURALS]
        if any(each["kind"] in ("Service", "Pod") for each in flat):
            digest = hashlib.sha256(json.dumps(flat).encode()).hexdigest()[:8]
            title = TITLE.search(fence["rest"])
            yield f"{page.name} {title[1] if title else ''} {digest}", flat


IN_DOCS = {
    name: list(map(completed, manifests))
    for page in sorted(DOCS.glob("*.md"))
    for name, manifests in in_docs(page)
}
SITUATIONS = IN_DOCS | {
    str(row.id): list(map(completed, written(row.values[0].given)))  # type: ignore[union-attr]
    for row in rows(Path(__file__).with_name("situations.txt"))
}


def lines(slices: Sequence[Manifest], situation: Sequence[Manifest]) -> list[str]:
    """A line for each endpoint that a controller made, without what it chooses at random."""
    given = {each["metadata"]["name"] for each in situation}
    made = []
    for each in slices:
        meta = each["metadata"]
        if meta["name"] in given:
            continue
        ports = sorted(
            f"{port.get('name') or ''}={port.get('port')}/{port.get('protocol')}"
            for port in each.get("ports") or ()
        )
        of = " ".join([f"{meta['namespace']}/{meta['labels'][LABEL]}", each["addressType"], *ports])
        made += [f"{of}: {shown(endpoint, given)}" for endpoint in each.get("endpoints") or ()]
    return sorted(made)


def shown(endpoint: Manifest, given: set[str]) -> str:
    addresses, pod = endpoint["addresses"], (endpoint.get("targetRef") or {}).get("name")
    if pod is not None:  # its address is the choice of the pod network
        addresses = [pod if pod in given else _GENERATED.sub("-*", pod)] * len(addresses)
    conditions = endpoint.get("conditions", {}).items()
    words = [word for word, value in conditions if value] + [
        f"not {word}" for word, value in conditions if value is False
    ]
    place = [f"in {endpoint['zone']}"] if endpoint.get("zone") else []
    return " ".join([f"{endpoint.get('hostname') or '-'}@{','.join(addresses)}", *place, *words])


def simulated(situation: Sequence[Manifest]) -> list[str]:
    text = "\n".join(map(json.dumps, situation))
    found = read_manifest_file(text.encode(), "a.jsonl")
    assert found.problems == []
    slices = [each for each in simulate(found.documents) if isinstance(each, EndpointSlice)]
    return lines([msgspec.to_builtins(each) for each in slices], situation)


@pytest.fixture(scope="module")
def real() -> dict[str, list[str]]:
    if missing_program():
        return {}
    with RealControllers() as controllers:
        found = controllers.slices(SITUATIONS)
    made = {name: lines(slices, SITUATIONS[name]) for name, slices in found.items()}
    for name, each in made.items():
        if IS_RECORDING:
            CONTROLLERS.save(Entry(name, data=each))
        elif name not in IN_DOCS or CONTROLLERS.has(name):
            assert CONTROLLERS.found(name).data == each, CONTROLLERS.command
    return made


@pytest.mark.parametrize("name", SITUATIONS)
def test_same_slices(name: str, real: dict[str, list[str]]) -> None:
    if name not in real and name in IN_DOCS and not CONTROLLERS.has(name):
        pytest.skip(f"the page has changed: {CONTROLLERS.command}")
    assert simulated(SITUATIONS[name]) == (real[name] if real else CONTROLLERS.found(name).data)
