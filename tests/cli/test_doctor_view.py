"""What the doctor prints."""

from __future__ import annotations

import io
import json

import pytest

from hsdns.cli.doctor_view import Progress, as_json, as_text
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_text() -> None:
    assert as_text(DIAGNOSIS, 0, "cluster") == (
        "not checked: HS101, HS102: pods: no right\n\nno findings, 1 rule passed, in 2 objects of cluster\n"
    )


def test_what_was_asked_is_told() -> None:
    asked = DIAGNOSIS._replace(asked=["Pod a/b at 192.0.2.1 port 53: 2 of 2 answers are right"])
    assert as_text(asked, 0, "cluster").startswith(
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


@pytest.mark.parametrize(
    ("stream", "text"),
    [(Terminal(), "\r\x1b[Kreading the cluster: pods, 3 objects\r\x1b[K"), (io.StringIO(), "")],
)
def test_progress(stream: io.StringIO, text: str) -> None:
    with Progress(stream) as progress:
        progress.tell("pods", 3)
    assert stream.getvalue() == text


def test_what_istioctl_finds_has_a_section_of_its_own() -> None:
    found = MeshFinding("IST0103", "warning", "Pod web.shop", None, "no proxy", "https://a.example")
    diagnosis = DIAGNOSIS._replace(mesh=[found], reasons={"istioctl": "why"}, unchecked={})
    assert as_text(diagnosis, 0, "cluster") == (
        "istioctl analyze finds:\n  warning IST0103 Pod web.shop: no proxy: https://a.example\n\n"
        "not checked: the configuration of Istio: why\n\n"
        "no findings, 1 of istioctl, 1 rule passed, in 2 objects of cluster\n"
    )
