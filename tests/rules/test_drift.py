"""How the Services of two sets of objects differ."""

from __future__ import annotations

import pytest

from hsdns.rules.drift import compare
from hsdns.rules.judging import read_files
from hsdns.rules.objects import Objects

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {{name: db, namespace: shop}}\nspec: {}\n"
SET = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db, namespace: shop}}\nspec: {}\n"
BARE = "apiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec: {}\n"


def objects(*texts: str, file: str = "a.yaml") -> Objects:
    return read_files([(file, "---\n".join(texts).encode())]).objects


def found(here: Objects, there: Objects) -> list[tuple[str, str | None, str | None]]:
    return [(each.field, each.here, each.there) for each in compare(here, there).differences]


@pytest.mark.parametrize(
    ("here", "there", "differences"),
    [
        ("{}", "{type: ClusterIP, publishNotReadyAddresses: false, ipFamilyPolicy: SingleStack}", []),
        ("{clusterIP: 10.0.0.1, ipFamilies: [IPv4]}", "{clusterIP: 10.0.0.2, type: ClusterIP}", []),
        ("{selector: {a: b, c: d}}", "{selector: {c: d, a: b}}", []),
        ("{selector: {a: b}}", "{selector: {a: c, d: e}}", [("spec.selector", "a=b", "a=c,d=e")]),
        ("{selector: {a: b}}", "{}", [("spec.selector", "a=b", None)]),
        ("{clusterIP: None, selector: {a: b}}", "{selector: {a: b}}", [("spec.clusterIP", "None", "an address")]),
        ("{publishNotReadyAddresses: true}", "{}", [("spec.publishNotReadyAddresses", "true", "false")]),
        ("{ipFamilies: [IPv4]}", "{ipFamilies: [IPv6]}", [("spec.ipFamilies", "IPv4", "IPv6")]),
        ("{ipFamilyPolicy: PreferDualStack}", "{}", [("spec.ipFamilyPolicy", "PreferDualStack", "SingleStack")]),
        ("{clusterIP: None}", "{clusterIP: None, ipFamilyPolicy: RequireDualStack}", []),
        ("{type: NodePort}", "{}", [("spec.type", "NodePort", "ClusterIP")]),
        ("{type: ExternalName, externalName: a.b}", "{type: ExternalName, externalName: A.B}", []),
        (
            "{type: ExternalName, externalName: a.b}",
            "{selector: {a: b}}",
            [("spec.externalName", "a.b", None), ("spec.type", "ExternalName", "ClusterIP")],
        ),
        ("{ports: [{port: 80}]}", "{ports: [{port: 80, targetPort: 80, protocol: TCP}]}", []),
        (
            "{ports: [{port: 80, name: http}]}",
            "{ports: [{port: 81, name: http, targetPort: web, protocol: UDP}]}",
            [
                ("spec.ports[http].port", "80", "81"),
                ("spec.ports[http].protocol", "TCP", "UDP"),
                ("spec.ports[http].targetPort", "80", "web"),
            ],
        ),
        ("{ports: [{port: 80, name: http}]}", "{ports: [{port: 80}]}", [("spec.ports[http].name", "http", None)]),
        (
            "{ports: [{port: 80, name: http}, {port: 9, name: a}]}",
            "{ports: [{port: 8, name: b}, {port: 80, name: http}]}",
            [("spec.ports[a]", "9/TCP to 9", None), ("spec.ports[b]", None, "8/TCP to 8")],
        ),
    ],
)  # fmt: skip
def test_services(here: str, there: str, differences: list[tuple[str, str, str]]) -> None:
    rows = found(objects(SERVICE.format(here)), objects(SERVICE.format(there)))
    assert sorted(rows) == differences


@pytest.mark.parametrize(
    ("here", "there", "differences"),
    [
        ("{serviceName: db}", "{serviceName: db, replicas: 3}", []),
        ("{serviceName: db}", "{serviceName: db-svc}", [("spec.serviceName", "db", "db-svc")]),
        (
            "{replicas: 1}",
            "{replicas: 3, ordinals: {start: 1}}",
            [("spec.replicas", "db-0", "db-1 to db-3")],
        ),
        ("{replicas: 0}", "{replicas: 1}", [("spec.replicas", "no pods", "db-0")]),
    ],
)
def test_stateful_sets(here: str, there: str, differences: list[tuple[str, str, str]]) -> None:
    assert found(objects(SET.format(here)), objects(SET.format(there))) == differences


def test_an_object_without_a_namespace_is_that_of_its_name() -> None:
    other = SERVICE.format("{selector: {a: b}}")
    drift = compare(objects(BARE), objects(other))
    assert [(each.place, each.field) for each in drift.differences] == [
        ("Service shop/db", "spec.selector")
    ]
    two = objects(other, other.replace("shop", "lab"))
    assert [(each.place, each.here) for each in compare(objects(BARE), two).differences] == [
        ("Service db", "present"),
        ("Service shop/db", None),
        ("Service lab/db", None),
    ]
    assert compare(two, objects(BARE)).counts == {"Service": 3, "StatefulSet": 0}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (
            [BARE, BARE],
            "Service db is not compared: there it is at b.yaml:1 and b.yaml:6; compare files that have it once",
        ),
        (
            [BARE.replace("{}", "{type: 3}")],
            "Service db is not compared: the API server would refuse that of b.yaml:1; hsdns lint b.yaml says why",
        ),
    ],
)
def test_not_compared(texts: list[str], problem: str) -> None:
    drift = compare(objects(BARE), objects(*texts, file="b.yaml"))
    assert (drift.differences, drift.problems) == ([], [problem])


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("shpo", 'there is no Service and no StatefulSet in a namespace "shpo" on either side; did you mean "shop"?'),
        ("shop/other", 'there is no Service and no StatefulSet "other" in namespace shop on either side'),
        ("shop/databsae", 'there is no Service and no StatefulSet "databsae" in namespace shop on either side; did you mean "database"?'),
    ],
)  # fmt: skip
def test_a_target_on_no_side(target: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="on either side") as caught:
        compare(objects(SERVICE.format("{}").replace("db", "database")), objects(), target)
    assert str(caught.value) == sentence
