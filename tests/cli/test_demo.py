"""The demo cluster, and the examples in its namespace `broken`: each is found by its rule, and by no other."""

from __future__ import annotations

import json
import re

import pytest

from hsdns import cli
from hsdns.cli.source import demo_folder
from hsdns.rules.rule import rules

# What is found in the namespace, by code.
BROKEN = {
    "HS101": "Service broken/wrong-label",
    "HS102": "StatefulSet broken/old-name",
    "HS103": "StatefulSet broken/with-cluster-ip",
    "HS104": "StatefulSet broken/two-services",
    "HS105": "Pod broken/no-hostname-0",
    "HS106": "Pod broken/wrong-subdomain-one",
    "HS108": "Deployment broken/shared-hostname",
    "HS109": "Service broken/shared-pods-ready",
    "HS111": "Service broken/target-port",
    "HS112": "Service broken/headless-port",
    "HS113": "Service broken/port-name",
    "HS114": "Service broken/unnamed-port",
    "HS121": "Service broken/one-family",
    "HS131": "Service broken/address",
    "HS133": "Service broken/loop",
    "HS134": "Service broken/short-target",
    "HS141": "Service broken/published-cluster-ip",
    "HS142": "Service broken/old-annotation",
    "HS143": "EndpointSlice broken/not-ready-4wm2c",
    "HS144": "EndpointSlice broken/dead-pod-8xk5r",
    "HS151": "EndpointSlice broken/wrong-slice-label-1",
    "HS152": "EndpointSlice broken/slice-without-ports-1",
    "HS161": "NetworkPolicy broken/no-dns",
    "HS162": "NetworkPolicy broken/udp-only",
    "HS163": "NetworkPolicy broken/no-istiod",
    "HS171": "Pod broken/long-search",
    "HS172": "Pod broken/ndots",
    "HS173": "Pod broken/host-network",
    "HS203": "ConfigMap broken/coredns",
    "HS210": "ConfigMap broken/hosts-first",
    "HS221": "ConfigMap broken/kubelet-config",
    "HS244": "ConfigMap broken/zone-behind",
    "HS245": "ConfigMap broken/no-ipv6",
}
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
    *("HS241", "HS242", "HS243", "HS246", "HS247", "HS248"),  # and these
    *("HS211", "HS212", "HS213", "HS214", "HS215", "HS216"),  # the pods of the cluster's DNS are in their own namespace
    *("HS231", "HS232"),  # what DNS servers answered
}  # fmt: skip


def findings(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """The codes and the objects that a command finds."""
    assert cli.main([*words, "-preview", "-level", "note", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    return sorted((each["code"], each["object"]) for each in found)


@pytest.mark.parametrize(
    "words",
    [
        ["lint", str(demo_folder() / "broken")],
        ["doctor", "broken", "-from", "demo"],
    ],
    ids=["lint", "doctor"],
)
def test_each_example_is_found_by_its_rule_alone(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert findings(words, capsys) == sorted(BROKEN.items())


def test_each_rule_has_an_example_or_a_reason() -> None:
    assert sorted(BROKEN) == sorted(set(rules()) - WITHOUT)


def test_the_other_namespaces_have_no_finding_but_a_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    others = [
        each for each in findings(["doctor", "-from", "demo"], capsys) if " broken/" not in each[1]
    ]
    assert others == [("HS136", "Service shop/database")]


def test_each_example_names_its_rule_above_it() -> None:
    named: list[str] = []
    for file in sorted((demo_folder() / "broken").glob("*.yaml")):
        named += re.findall(r"^# (HS\d+): ", file.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(BROKEN)
