"""The demo cluster, and the examples in its namespace `broken`: each is found by its rule, and by no other."""

from __future__ import annotations

import json
import re

import pytest

from hsdns import cli
from hsdns.cli.source import demo_folder
from hsdns.rules.rule import rules

# What the examples are of, by the comment above each; sessions/demo.md has their objects.
BROKEN = [
    code
    for file in sorted((demo_folder() / "broken").glob("*.yaml"))
    for code in re.findall(r"^# (HS\d+): ", file.read_text(), re.MULTILINE)
]
# Rules without an example: what the API server refuses, silences, and what is about no headless name.
WITHOUT = {
    *("HS001", "HS002", "HS003", "HS004", "HS107", "HS132", "HS174"),  # no object of a cluster
    "HS136",  # the namespace of an example would have to be named otherwise
    *("HS155", "HS156", "HS157"),  # many endpoints, which would fill every list of the demo
    "HS175",  # as many search domains as few have
    "HS176",  # queries of a recording
    "HS222",  # no istiod is in the demo
    "HS122",  # the slices of the demo are made of its pods
    "HS153",  # Endpoints that are not mirrored would be answered by the demo
    "HS181",  # a ClusterRole is in no namespace
    *("HS201", "HS202", "HS204", "HS205", "HS206", "HS207", "HS208", "HS209"),  # other Corefiles
    *("HS241", "HS242", "HS243", "HS246", "HS247", "HS248", "HS249"),  # and these
    *("HS211", "HS212", "HS213", "HS214", "HS215", "HS216"),  # the pods of the cluster's DNS are in their own namespace
    *("HS110", "HS115", "HS116"),  # answers that lead to other pods, and pods that are not ready: HS143 has one
    *("HS301", "HS302"),  # names in programs, which an example of a failing name does not need
    *("HS231", "HS232"),  # what DNS servers answered
}  # fmt: skip


def test_each_rule_has_one_example_or_a_reason() -> None:
    assert sorted(BROKEN) == sorted(set(rules()) - WITHOUT)


def test_each_example_is_found_by_its_rule_alone(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lint", str(demo_folder() / "broken"), "-preview", "-level", "note", "-o", "json"]
    assert cli.main(words) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert sorted(each["code"] for each in found) == sorted(BROKEN)
