"""What the doctor prints."""

from __future__ import annotations

import json

from hsdns.cli.doctor import as_json, as_lines
from hsdns.rules.diagnosis import Diagnosis
from hsdns.rules.mesh import MeshFinding

DIAGNOSIS = Diagnosis(
    [],
    ["HS131"],
    {"pods": ("HS101", "HS102"), "replicasets": ()},
    {"pods": "no right", "replicasets": "none"},
    2,
    [],
)


def test_text() -> None:
    assert "\n".join(as_lines(DIAGNOSIS, 0, "cluster")) == (
        "not checked: HS101, HS102: pods: no right\n\nno findings, 1 rule passed, in 2 objects of cluster"
    )


def test_what_was_asked_is_told() -> None:
    asked = DIAGNOSIS._replace(asked=["Pod a/b at 192.0.2.1 port 53: 2 of 2 answers are right"])
    assert "\n".join(as_lines(asked, 0, "cluster")).startswith(
        "asked: Pod a/b at 192.0.2.1 port 53: 2 of 2 answers are right\n\nnot checked: "
    )


def test_json() -> None:
    assert json.loads(as_json(DIAGNOSIS, 1)) == {
        "findings": [],
        "silenced": [],
        "below": 1,
        "passed": ["HS131"],
        "asked": [],
        "istioctl": [],
        "unchecked": [
            {"resource": "pods", "reason": "no right", "rules": ["HS101", "HS102"]},
            {"resource": "replicasets", "reason": "none", "rules": []},
        ],
        "objects": 2,
        "unread": [],
    }


def test_what_istioctl_finds_has_a_section_of_its_own() -> None:
    found = MeshFinding("IST0103", "warning", "Pod web.shop", None, "no proxy", "https://a.example")
    diagnosis = DIAGNOSIS._replace(mesh=[found], reasons={"istioctl": "why"}, unchecked={})
    assert "\n".join(as_lines(diagnosis, 0, "cluster")) == (
        "istioctl analyze finds:\n  warning IST0103 Pod web.shop: no proxy: https://a.example\n\n"
        "not checked: the configuration of Istio: why\n\n"
        "no findings, 1 of istioctl, 1 rule passed, in 2 objects of cluster"
    )
