"""A cluster that is judged as a whole, or a part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.rules.diagnosis import OF_FILES, Diagnosis, diagnose, subject_of
from hsdns.rules.judging import read_files
from hsdns.rules.mesh import has_mesh, read_analysis
from hsdns.rules.objects import CHECKS, NEEDS
from hsdns.rules.rule import rules
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")

DUMP = b"""
{apiVersion: v1, kind: Service, metadata: {name: lost, namespace: a}, spec: {selector: {app: nothing}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: a}, spec: {clusterIP: None, selector: {app: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: b}, spec: {clusterIP: None, selector: {app: nothing}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: empty}, spec: {selector: {app: nothing}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-0, namespace: a, labels: {app: web}, ownerReferences: [{kind: StatefulSet, name: web}]}, spec: {hostNetwork: true}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, namespace: a}, spec: {serviceName: none, template: {metadata: {labels: {app: web}}, spec: {hostNetwork: true}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: b, labels: {app: other}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-x, namespace: a, labels: {kubernetes.io/service-name: web}}, addressType: IPv4,
 endpoints: [{addresses: [10.0.0.1], conditions: {ready: false}, targetRef: {kind: Pod, name: web-0}}]}
"""


def diagnosed(
    dump: bytes, reasons: dict[str, str], target: str, *, preview: bool = False
) -> Diagnosis:
    return diagnose(subject_of(read_files([("dump", dump)]), reasons, target), preview=preview)


def found(target: str = "", **reasons: str) -> list[tuple[str, str]]:
    diagnosis = diagnosed(DUMP, reasons, target)
    return sorted((each.rule.code, each.remark.place) for each in diagnosis.findings)


@pytest.mark.parametrize(("target", "codes"), values(TABLES, "a part"))
def test_a_part(target: str, codes: list[str]) -> None:
    assert [code for code, _ in found(target)] == codes


POLICIES = b"""
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: a}, spec: {clusterIP: None, selector: {app: web}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a, labels: {app: web}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: a, labels: {app: other}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web, namespace: a},
 spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: 5432}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: other, namespace: a},
 spec: {podSelector: {matchLabels: {app: other}}, policyTypes: [Egress], egress: [{ports: [{port: 5432}]}]}}
"""


@pytest.mark.parametrize(
    ("target", "policies"), [("a", ["other", "web"]), ("a/web", ["web"]), ("a/other", ["other"])]
)
def test_a_part_has_the_policies_that_choose_its_pods(target: str, policies: list[str]) -> None:
    findings = diagnosed(POLICIES, {}, target).findings
    assert sorted(each.remark.place for each in findings) == [
        f"NetworkPolicy a/{name}" for name in policies
    ]


@pytest.mark.parametrize(
    ("reasons", "sentence"),
    [
        ({"services": "no right", "jobs": "x"}, 'there is no object in a namespace "c"; not all could be read (services: no right)'),
        ({"services": "a", "pods": "b"}, 'there is no object in a namespace "c"; not all could be read (services: a, pods: b)'),
    ],
)  # fmt: skip
def test_what_is_not_there_may_not_have_been_read(reasons: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match="there is no") as caught:
        found("c", **reasons)
    assert str(caught.value) == sentence


def test_rules_that_need_objects_exist() -> None:
    codes = {code for words in NEEDS.values() for code in words}
    assert codes <= set(CHECKS)
    assert set(rules()) == codes | OF_FILES


@pytest.mark.parametrize("target", ["", "a", "a/web"])
def test_the_domain_of_istiod_concerns_each_namespace(target: str) -> None:
    mesh = b"""---
{apiVersion: v1, kind: ConfigMap, metadata: {name: coredns, namespace: kube-system}, data: {Corefile: ".:53 {\\n kubernetes a.local\\n}"}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: istiod, namespace: istio-system},
 spec: {template: {spec: {containers: [{name: x, args: ["", --domain, b.local]}]}}}}
"""
    diagnosis = diagnosed(DUMP + mesh, {}, target, preview=True)
    (message,) = [each.message for each in diagnosis.findings if each.rule.code == "HS222"]
    assert "args[2]: the proxies of istiod assume the cluster domain b.local" in message


# Which objects have a mesh, and what istioctl says of it.


OBJECT = "apiVersion: %s\nkind: %s\nmetadata: {name: %s, labels: {%s}}\n"


@pytest.mark.parametrize(("words", "is_mesh"), columns(TABLES, "signs of a mesh"))
def test_mesh(words: str, is_mesh: str) -> None:
    """The API version, kind, name and label of an object."""
    text = OBJECT % tuple([*words.split(" ", 3), ""][:4])
    assert has_mesh(read_files([("a.yaml", text.encode())]).objects) is (is_mesh == "yes")


def test_images_say_nothing() -> None:
    image = (
        OBJECT % ("v1", "Pod", "web", "")
        + "spec: {containers: [{name: istio-proxy, image: istio/proxyv2}]}\n"
    )
    assert not has_mesh(read_files([("a.yaml", image.encode())]).objects)


@pytest.mark.parametrize(("text", "line"), columns(TABLES, "messages of istioctl"))
def test_messages(text: str, line: str) -> None:
    found = [str(each) for each in read_analysis(text.encode(), {"-": "in"})]
    assert found == ([line] if line else [])


@pytest.mark.parametrize("text", ["", "{}", "all is well"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"list|Expecting"):
        read_analysis(text.encode(), {})
