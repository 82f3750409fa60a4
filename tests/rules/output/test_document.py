"""Findings as JSON."""

import json

from hsdns.rules.output import Report
from hsdns.rules.output.document import write


def test_members(report: Report) -> None:
    value = json.loads("\n".join(write(report)))
    assert value["findings"] == [
        {
            "code": "HS131",
            "name": "address-as-external-name",
            "level": "error",
            "file": "./a b.yaml",
            "line": 8,
            "column": 17,
            "object": "Service db",
            "field": "spec.externalName",
            "message": '"10.1.2.3" is <an> address, 100%',
            "page": "https://hsdns.github.io/hsdns/rules/HS131.html",
            "repaired": True,
        }
    ]
    assert [(each["code"], each["reason"]) for each in value.pop("silenced")] == [
        ("HS205", "known")
    ]
    del value["findings"]
    assert value == {
        "istioctl": [],
        "below": 2,
        "objects": 3,
        "files": 1,
        "unread": ["b.yaml:1: not YAML"],
    }
