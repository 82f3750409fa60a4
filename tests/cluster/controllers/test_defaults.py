"""Defaults of the API server, and their table in docs/contributing/edge-cases.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hsdns.cluster.controllers.defaults import DEFAULTS, with_defaults
from hsdns.cluster.controllers.kinds import KINDS
from tests.support.tables import columns

ROWS = Path(__file__).with_name("defaults.txt")
PAGE = Path(__file__).resolve().parents[3] / "docs/contributing/edge-cases.md"
WORKLOADS = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job")
_STRUCTS = {kind: struct for (_, kind), struct in KINDS.items()}


@pytest.mark.parametrize(("given", "after"), columns(ROWS, "defaults"))
def test_defaults(given: str, after: str) -> None:
    kind, _, before = given.partition(" ")
    expected = decoded(kind, after, dns_policy="ClusterFirst")
    assert with_defaults(kind, decoded(kind, before)) == expected
    assert with_defaults(kind, expected) is expected


def decoded(kind: str, text: str, dns_policy: str = "") -> Any:
    """The object; `dns_policy` is what its pods have if the text says nothing."""
    found = yaml.safe_load(text)
    path = {"Pod": ("spec",)} | dict.fromkeys(WORKLOADS, ("spec", "template", "spec"))
    if dns_policy and kind in path:
        spec = found
        for key in path[kind]:
            spec = spec.setdefault(key, {})
        spec.setdefault("dnsPolicy", dns_policy)
    found["metadata"] = {"name": "x"} | found.get("metadata", {})
    return msgspec.convert(found, _STRUCTS[kind])


def test_the_page_has_the_same_rows() -> None:
    rows = [f"| {', '.join(row.kinds)} | `{row.field}` | {row.text} |" for row in DEFAULTS]
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("## Defaults")[2]
    assert [line for line in table.splitlines() if line.startswith("| ")][1:] == rows
