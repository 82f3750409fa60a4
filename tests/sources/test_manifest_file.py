"""Manifest files: documents, skipped objects, and errors with their lines."""

from __future__ import annotations

import json

import pytest

from hsdns.cluster.objects import Service
from hsdns.sources import manifest_file
from hsdns.sources.manifest_file import MAX_PROBLEMS, read_manifest_file, wrong_type

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
"""


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        pytest.param("a.yaml", "", [], id="empty file"),
        pytest.param("a.json", " \n", [], id="empty JSON file"),
        pytest.param("a.yaml", "---\n---\n# nothing\n", [], id="empty documents"),
        pytest.param("a.yaml", SERVICE, ["Service shop/web a.yaml:1"], id="one"),
        pytest.param(
            "a.yaml",
            f"# a comment\n{SERVICE}---\n\n{SERVICE}",
            ["Service shop/web a.yaml:2", "Service shop/web a.yaml:9"],
            id="several documents",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\n"
            "- {apiVersion: v1, kind: Namespace, metadata: {name: b}}\n",
            ["Namespace a a.yaml:4", "Namespace b a.yaml:7"],
            id="List",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: apps/v1\nkind: StatefulSetList\nitems:\n- metadata: {name: db}\n",
            ["StatefulSet default/db a.yaml:4"],
            id="typed list, whose items have no kind",
        ),
        pytest.param(
            "a.yaml",
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: NamespaceList, items: [{metadata: {name: a}}]}]}",
            ["Namespace a a.yaml:1"],
            id="list in a list",
        ),
        pytest.param("a.yaml", "{apiVersion: v1, kind: List, items: null}", [], id="null items"),
        pytest.param(
            "a.json", '{"apiVersion": "v1", "kind": "List"}', [], id="JSON list without items"
        ),
        pytest.param(
            "a.json",
            '{\n"apiVersion": "v1", "kind": "List", "items": [\n'
            '  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},\n\n'
            '  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}]}',
            ["Namespace a a.json:3", "Namespace b a.json:5"],
            id="JSON List",
        ),
        pytest.param(
            "a.json",
            '{"apiVersion": "v1", "kind": "ServiceList", "items": [{"metadata": {"name": "a"}}]}',
            ["Service default/a a.json:1"],
            id="JSON typed list",
        ),
        pytest.param(
            "dump",
            '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}',
            ["Namespace a dump:1"],
            id="JSON under another name",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: config}\n",
            [" config/ a.yaml:1"],
            id="other kinds count for their namespace",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: example.org/v1\nkind: Service\nmetadata: {name: c}\n",
            [],
            id="another group's kind",
        ),
        pytest.param(
            "values.yaml", "replicaCount: 2\nimage: {tag: 1}\n", [], id="no manifest at all"
        ),
        pytest.param("inventory.yaml", "- a\n- b\n", [], id="a list of something"),
        pytest.param("a.json", "[1, 2]", [], id="a JSON list of something"),
    ],
)
def test_documents(name: str, text: str, found: list[str]) -> None:
    read = read_manifest_file(text.encode(), name)
    assert read.problems == []
    assert [f"{document} {document.where}" for document in read.documents] == found


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        pytest.param(
            "a.yaml",
            "kind: Service\nmetadata: [\n",
            ["a.yaml:3: not YAML: did not find expected node content (column 1); correct the file"],
            id="syntax",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: !Ref b}\n",
            [
                "a.yaml:4: Service default/a is left out: !Ref is a tag of another program, which writes another value "
                "there; check what it writes"
            ],
            id="tag of another program",
        ),
        pytest.param(
            "a.yaml",
            "Resources: {a: !Sub b, c: !GetAtt [d], e: !If {f: g}}\n--- !Top\nx: y\n--- !text z\n"
            "---\na: !!python/object:os.system x\n",
            [],
            id="tags of another program, and no manifest",
        ),
        pytest.param(
            "a.yaml",
            "a: !!binary x=x\n---\n\nb: !!bool x\n---\ntext\n---\nkind: Service\n",
            [
                "a.yaml:1: not YAML: failed to decode base64 data: Incorrect padding (column 4); correct the file",
                "a.yaml:4: a value cannot be read ('x'); put it in quotes",
                "a.yaml:6: this is not a Kubernetes object;  write fields such as apiVersion, kind and metadata",
                "a.yaml:8: apiVersion is missing; every object needs apiVersion and kind",
            ],
            id="each document is read",
        ),
        pytest.param(
            "a.yaml",
            "just text\n",
            [
                "a.yaml:1: this is not a Kubernetes object;  write fields such as apiVersion, kind and metadata"
            ],
            id="text",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nmetadata: {name: a}\n",
            ["a.yaml:1: kind is missing; every object needs apiVersion and kind"],
            id="no kind",
        ),
        pytest.param(
            "a.yaml",
            "kind: Service\nmetadata: {name: a}\n",
            ["a.yaml:1: apiVersion is missing; every object needs apiVersion and kind"],
            id="no apiVersion",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: 1\nkind: Service\n",
            ["a.yaml:1: apiVersion is not text; every object needs apiVersion and kind"],
            id="apiVersion is a number",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: StatefulSet\nmetadata: {name: a}\n",
            ["a.yaml:1: StatefulSet is not of apiVersion v1; write apps/v1"],
            id="a workload of the core group",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: ServiceImport\nmetadata: {name: a}\n",
            [
                "a.yaml:1: ServiceImport is not of apiVersion v1; write multicluster.x-k8s.io/v1alpha1"
            ],
            id="an import of the core group",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: Service\n",
            ["a.yaml:1: Service: metadata: the field is missing; add it"],
            id="no metadata",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: Service\nmetadata:\n  namespace: shop\n",
            [
                "a.yaml:4: Service: metadata.name: the name is missing; "
                "add one (generateName is not supported)"
            ],
            id="no name",
        ),
        pytest.param(
            "a.yaml",
            SERVICE + "spec:\n  ports:\n  - port: 80\n  - port: http\n",
            [
                "a.yaml:9: Service shop/web: spec.ports[1].port: expected a whole number, found text; "
                "write the number without quotes"
            ],
            id="wrong type, deep inside",
        ),
        pytest.param(
            "a.yaml",
            SERVICE + "  labels:\n    app: web\n    version: 1\nspec: {}\n",
            [
                "a.yaml:8: Service shop/web: metadata.labels: expected text, found a whole number; put it in quotes"
            ],
            id="a label that is a number",
        ),
        pytest.param(
            "a.yaml",
            SERVICE + "spec:\n  ports: 80\n",
            [
                "a.yaml:7: Service shop/web: spec.ports: expected a list, found a whole number; correct the value"
            ],
            id="no list",
        ),
        pytest.param(
            "a.yaml",
            SERVICE + "spec:\n  clusterIP: none\n",
            [
                'a.yaml:7: Service shop/web: spec.clusterIP: "none" is not an IP address; '
                "write one such as 10.96.0.10, or None for a headless Service"
            ],
            id="refused value",
        ),
        pytest.param(
            "a.yaml",
            SERVICE + "spec:\n  ports:\n  - name: http\n    port: 800000\n",
            [
                "a.yaml:9: Service shop/web: spec.ports[0].port: 800000 is not a port number; "
                "write one from 1 to 65535"
            ],
            id="port that is none",
        ),
        pytest.param(
            "a.yaml",
            SERVICE + "spec:\n  type: ExternalName\n  externalName: https://db.example.com\n",
            [
                'a.yaml:8: Service shop/web: spec.externalName: "https://db.example.com" is not a domain name; '
                "write only the host, without scheme and path"
            ],
            id="URL as target",
        ),
        pytest.param(
            "a.yaml",
            SERVICE + "  labels:\n    app.kubernetes.io/name: my app\n",
            [
                'a.yaml:7: Service shop/web: metadata.labels[app.kubernetes.io/name]: "my app" is not the value '
                'of a label; use at most 63 letters, digits, "-", "_" and ".", with a letter or digit at the ends'
            ],
            id="label",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: List\nitems: {}\n---\napiVersion: v1\nkind: List\nitems: 5\n",
            ["a.yaml:5: items of List is not a list; write one object per item"],
            id="items is no list",
        ),
        pytest.param(
            "a.yaml",
            "apiVersion: v1\nkind: Service\n---\n" + SERVICE + "---\nkind: Pod\n",
            [
                "a.yaml:1: Service: metadata: the field is missing; add it",
                "a.yaml:10: apiVersion is missing; every object needs apiVersion and kind",
            ],
            id="all mistakes at once",
        ),
        pytest.param(
            "a.json",
            '{\n"apiVersion": "v1",\n"kind": "Service",,\n}',
            ["a.json:3: not JSON: object keys must be strings; correct the file"],
            id="JSON syntax",
        ),
        pytest.param(
            "a.json",
            '{\n"apiVersion": "v1"',
            ["a.json:2: not JSON: input data was truncated; correct the file"],
            id="JSON cut off",
        ),
        pytest.param(
            "a.json",
            '"text"',
            [
                "a.json:1: this is not a Kubernetes object;  write fields such as apiVersion, kind and metadata"
            ],
            id="JSON text",
        ),
        pytest.param(
            "a.json",
            '{"apiVersion": "v1", "kind": "ServiceList", "items": 5}',
            ["a.json:1: items of ServiceList is not a list; write one object per item"],
            id="JSON items is no list",
        ),
        pytest.param(
            "a.json",
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "List",
                    "items": [
                        {
                            "apiVersion": "v1",
                            "kind": "Service",
                            "metadata": {"name": "web"},
                            "spec": {"ports": [{"port": "80"}]},
                        }
                    ],
                },
                indent=1,
            ),
            [
                "a.json:14: Service default/web: spec.ports[0].port: expected a whole number, found text; "
                "write the number without quotes"
            ],
            id="JSON wrong type, deep inside",
        ),
    ],
)
def test_problems(name: str, text: str, problems: list[str]) -> None:
    assert read_manifest_file(text.encode(), name).problems == problems


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"a: 1\nb: \xff\n", "a.yaml:2: not YAML: ", id="not UTF-8"),
        pytest.param(b"a: 1\n\tb: 2\n", "a.yaml:2: not YAML: ", id="tab"),
        pytest.param(b"a: 1\nb: \x00\n", "a.yaml:2: not YAML: ", id="control character"),
        pytest.param(b"a: !!timestamp x\n", "a.yaml:1: a value cannot be read (", id="a time that is none"),
    ],
)  # fmt: skip
def test_hostile_content(content: bytes, problem: str) -> None:
    found = read_manifest_file(content, "a.yaml").problems
    assert [each[: len(problem)] for each in found] == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b'{"kind":"List","items":[' * 10 + b"]}" * 10, "a.json:1: lists are nested too deeply; write the objects into one list", id="lists"),
        pytest.param(b'{"kind":"Pod","apiVersion":"v1","metadata":' + b"[" * 9000, "a.json:1: it is nested too deeply; correct the file", id="lists-in-a-field"),
        pytest.param(b'{"kind":"List","items":[' + b"[" * 9000, "a.json:1: it is nested too deeply; correct the file", id="lists-in-items"),
    ],
)  # fmt: skip
def test_hostile_json(content: bytes, problem: str) -> None:
    assert read_manifest_file(content, "a.json").problems == [problem]


def test_a_file_without_any_sense_is_not_reported_line_by_line() -> None:
    found = read_manifest_file(b"---\nkind: A\n" * 200, "a.yaml").problems
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1] == "a.yaml:200: the rest of the file is not read; correct these errors first"


def test_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_file, "MAX_FILE_LEN", 10)
    assert read_manifest_file(b"a: 1234567", "a.yaml").problems == []
    assert read_manifest_file(b"a: 12345678", "a.yaml").problems == [
        "a.yaml:1: the file is longer than 10 octets; split it"
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param("a.yaml", id="YAML"), pytest.param("a.json", id="JSON")],
)
def test_null_is_absent(name: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": None, "labels": None},
        "spec": {"ports": [{"port": 80, "targetPort": None}], "type": None},
        "status": None,
    }
    [document] = read_manifest_file(json.dumps(manifest).encode(), name).documents
    assert isinstance(document.object, Service)
    assert document.object.metadata.namespace == "default"
    assert document.object.spec.type == "ClusterIP"


# What msgspec says of a wrong type, in our words.


@pytest.mark.parametrize(
    ("message", "field", "sentence"),
    [
        ("Expected `int`, got `str` - at `$.spec.ports[0].port`", "spec.ports[0].port", "expected a whole number, found text; write the number without quotes"),
        ("Expected `str | null`, got `bool` - at `$.spec.a`", "spec.a", "expected text, found true or false; put it in quotes"),
        ("Expected `object`, got `array`", "object", "expected a mapping, found a list; correct the value"),
        ("Object missing required field `name` - at `$.metadata`", "metadata.name", "the field is missing; add it"),
        ("Object missing required field `metadata`", "metadata", "the field is missing; add it"),
        ("Number out of range - at `$.spec.a`", "spec.a", "number out of range; correct the value"),
    ],
)  # fmt: skip
def test_a_message_has_the_field_and_a_remedy(message: str, field: str, sentence: str) -> None:
    found = wrong_type(message)
    assert (found.field, str(found)) == (field, f"{field}: {sentence}")
