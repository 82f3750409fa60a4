"""Manifest files: documents, skipped objects, and errors with their lines; manifest_files.txt has the cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from hsdns.cluster.controllers.kinds import KINDS, WorkloadSpec
from hsdns.cluster.objects import Service
from hsdns.sources import manifest_file, manifest_yaml
from hsdns.sources.manifest_check import (
    FIELDS,
    VERSION,
    check_object,
    is_written_by_hand,
    unknown_fields,
    wrong_type,
)
from hsdns.sources.manifest_file import MAX_PROBLEMS, read_manifest_file
from hsdns.sources.manifest_yaml import (
    MAX_DEPTH,
    MAX_NODES,
    ManifestLoader,
    TooLarge,
    decode_json,
    field_line,
    json_node,
    key_line,
)
from tests.support.apiserver.real_api import RealApi, missing_assets
from tests.support.manifests.generated import generated
from tests.support.tables import Row, columns, rows, section, values

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("manifest_files.txt")))
def test_files(row: Row) -> None:
    name, text = "a.yaml", row.given
    if text.startswith("-- "):
        name, _, text = text.removeprefix("-- ").partition("\n")
    found = read_manifest_file(text.encode(), name)
    documents = [f"{document} {document.where}" for document in found.documents]
    problems = [f"! {problem}" for problem in found.problems]
    assert [*documents, *problems, *(f"? {warning}" for warning in found.warnings)] == row.expected


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
    found = read_manifest_file(b"---\nkind: A\n" * 200, "a.yaml")
    assert found.is_broken  # what is not read may have been served before
    assert len(found.problems) == MAX_PROBLEMS + 1
    assert (
        found.problems[-1]
        == "a.yaml:200: the rest of the file is not read; correct these errors first"
    )


def test_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_file, "MAX_FILE_LEN", 10)
    assert read_manifest_file(b"a: 1234567", "a.yaml").problems == []
    assert read_manifest_file(b"a: 12345678", "a.yaml").problems == [
        "a.yaml:1: the file is longer than 10 octets; split it"
    ]


@pytest.mark.parametrize(
    "name", [pytest.param("a.yaml", id="YAML"), pytest.param("a.json", id="JSON")]
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


@pytest.mark.parametrize(("message", "field", "sentence"), values(TABLES, "a message has the field and a remedy"))  # fmt: skip
def test_a_message_has_the_field_and_a_remedy(message: str, field: str, sentence: str) -> None:
    found = wrong_type(message)
    assert (found.field, str(found)) == (field, f"{field}: {sentence}")


# One object that is refused hides no other.


BROKEN = {
    "a value": lambda each: json.dumps(each | {"metadata": {**each["metadata"], "name": "A_B"}}),
    "a type": lambda each: json.dumps(each | {"metadata": []}),
    "no kind": lambda each: json.dumps({**each, "kind": None}),
    "no object": lambda each: json.dumps([each]),
    "no JSON": lambda each: json.dumps(each)[:-9],
}
FORMS: dict[str, Callable[[Sequence[str]], bytes]] = {
    "documents": lambda texts: "\n---\n".join(texts).encode(),
    "YAML": lambda texts: "---\n".join(map(as_yaml, texts)).encode(),
    "JSON lines": lambda texts: "\n".join(texts).encode(),
    "a List": lambda texts: f'{{"kind": "List", "apiVersion": "v1", "items": [{",".join(texts)}]}}'.encode(),
    "a List in YAML": lambda texts: ("kind: List\napiVersion: v1\nitems:\n" + "".join(f"- {text}\n" for text in texts)).encode(),
}  # fmt: skip


def as_yaml(text: str) -> str:
    try:
        return yaml.safe_dump(json.loads(text))
    except ValueError:
        return f"a: 1\n{text}\n"


@given(st.integers(0, 10_000), st.data())
def test_the_others_are_read_as_without_it(seed: int, data: st.DataObject) -> None:
    texts = [json.dumps(each) for each in generated(seed)]
    at = data.draw(st.integers(0, len(texts) - 1), "which one")
    way = data.draw(st.sampled_from(sorted(BROKEN)), "what is wrong")
    form = data.draw(st.sampled_from(sorted(FORMS)), "how they are written")
    if way == "no JSON":  # in a List there is no telling where the next one begins
        assume("List" not in form)
    bad = BROKEN[way](json.loads(texts[at]))
    others = [*texts[:at], *texts[at + 1 :]]
    name = "a.jsonl" if form == "JSON lines" else "a.yaml"
    found = read_manifest_file(FORMS[form]([*texts[:at], bad, *texts[at + 1 :]]), name)
    alone = read_manifest_file(FORMS[form](others), name)
    assert alone.problems == []
    assert [each._replace(where="") for each in found.documents] == [
        each._replace(where="") for each in alone.documents
    ]
    assert len(found.problems) == 1


# Documents that are made to cost much, each of which was read until memory, time or the stack ran out.

HEAD = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
TOO_MANY = "there are too many values for the length of the file; is it a manifest?"


def aliases(first: str, level: str, times: int = 9, levels: int = 8) -> str:
    """Each level stands for nine of the one before it; its first line is 4."""
    text = f"x0: &x0 {first}\n"
    for number in range(1, levels):
        text += f"x{number}: &x{number} " + level.format(", ".join([f"*x{number - 1}"] * times))
        text += "\n"
    return HEAD + text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(aliases("[a, a, a, a, a, a, a, a, a]", "[{}]"), f"9: the aliases of the file stand for more than {MAX_NODES} values; write it out", id="billion-laughs"),
        pytest.param(aliases("{a: b}", "{{<<: [{}]}}"), f"9: the aliases of the file stand for more than {MAX_NODES} values; write it out", id="merge-keys"),
        pytest.param(aliases("[a]", "[{}]", 1, 500), f"{4 + MAX_DEPTH - 1}: it is nested more than {MAX_DEPTH} levels deep through aliases; write it out", id="chain-of-aliases"),
    ],
)  # fmt: skip
def test_refused(text: str, problem: str) -> None:
    assert read_manifest_file(text.encode(), "a.yaml").problems == [f"a.yaml:{problem}"]


@pytest.mark.parametrize(
    "unit", [pytest.param("a,", id="keys-without-values"), pytest.param("[],", id="empty-lists")]
)
@pytest.mark.parametrize(("limit", "length"), [(1000, 4500), (10, 500)])
def test_values_are_limited_by_the_length(
    unit: str, limit: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them would take 400 octets each, where the file has one or two."""
    monkeypatch.setattr(manifest_yaml, "MAX_NODES", limit)
    text = "{" + unit * (length // len(unit)) + "}"
    assert read_manifest_file(text.encode(), "a.yaml").problems == [f"a.yaml:1: {TOO_MANY}"]


def test_documents_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_yaml, "MAX_NODES", 100)
    assert read_manifest_file(b"---\n" * 99, "a.yaml").problems == []
    assert read_manifest_file(b"---\n" * 101, "a.yaml").problems == [f"a.yaml:1: {TOO_MANY}"]


def test_aliases_of_all_documents_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB of such documents stood for 20 million objects."""
    monkeypatch.setattr(manifest_yaml, "MAX_NODES", 100)
    document = (
        "---\nkind: List\nitems: [&a {apiVersion: v1, kind: ConfigMap}, *a, *a]\n"  # 20 nodes
    )
    assert read_manifest_file((document * 5).encode(), "a.yaml").problems == []
    assert read_manifest_file((document * 6).encode(), "a.yaml").problems == [
        "a.yaml:18: the aliases of the file stand for more than 100 values; write it out"
    ]


def test_a_single_document_has_the_limit_too() -> None:
    with pytest.raises(TooLarge):
        yaml.load(aliases("{a: b}", "{{<<: [{}]}}").encode(), ManifestLoader)  # noqa: S506, RUF100 - as above


class Counted(list[Any]):
    """A list that counts the pairs that a deletion moves."""

    moved = 0

    def __delitem__(self, at: Any) -> None:
        type(self).moved += len(self) - at
        super().__delitem__(at)


def test_time_for_merge_keys_grows_with_their_number() -> None:
    """4 MB of them took 6 s."""
    loader = ManifestLoader(b"a: &a {x: 1}\nb: {" + b"<<: *a, " * 100 + b"z: 2, <<: {x: 3}}\n")
    node = loader.get_single_node()
    value = node.value[1][1]
    value.value = Counted(value.value)
    assert loader.construct_document(node) == {"a": {"x": 1}, "b": {"x": 3, "z": 2}}
    assert Counted.moved <= 101


INDICATORS = st.sampled_from(
    [*"[]{},:-?&*!|>'\"%@#\n \t", "a", "1", "<<: ", "&a ", "*a ", "- ", "? ", ": ", "---\n", "!!int ", "!!set ",
     "!!omap ", "!!bool ", "!!binary ", "!!timestamp ", "!!float ", "kind: List\n", "items:\n", "1:1", "0x", "~"]
)  # fmt: skip


@given(st.lists(INDICATORS, max_size=60).map("".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read_manifest_file(text.encode("utf-8", "surrogatepass"), "a.yaml")
    assert all(each.startswith("a.yaml:") for each in found.problems)


# Lines of fields, in YAML and JSON.


LINES = Path(__file__).with_name("field_lines.txt")
TEXT = section(LINES, "text")


@pytest.mark.parametrize(("field", "line"), columns(LINES, "fields"))
def test_line(field: str, line: str) -> None:
    assert field_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), field) == int(line)


@pytest.mark.parametrize(("place", "line"), columns(LINES, "keys"))
def test_line_of_a_key(place: str, line: str) -> None:
    parent, _, key = place.rpartition(" ")
    assert key_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), parent, key) == int(line)


def test_json() -> None:
    text = json.dumps({"spec": {"ports": [{"port": 80}]}}, indent=1).encode()
    assert field_line(json_node(text), "spec.ports[0].port") == 5
    assert json_node(b"{") is None


def test_json_beyond_the_limits_of_yaml_has_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_yaml, "MAX_DEPTH", 2)
    text = '{"apiVersion": "v1", "kind": "Service", "metadata": {"labels": {"a": {}}, "name": "a", "name": "b"}}'
    assert read_manifest_file(text.encode(), "a.json").problems == [
        "a.json:1: a mapping has a key twice; remove one of the two"
    ]


def test_numbers_are_text_and_what_is_not_utf_8_is_not_decoded() -> None:
    digits = "1" * 5000
    assert decode_json(f'{{"a": [{digits}, 1.5, true]}}'.encode(), 1).value == {
        "a": [digits, "1.5", True]
    }
    assert decode_json(b'{"a": "\xff"}', 1) == (None, [])


# Warnings about what is valid but surely not meant.


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        *(("v1", kind) for kind in (
            "Binding", "ComponentStatus", "ConfigMap", "Event", "LimitRange", "PersistentVolume", "PersistentVolumeClaim",
            "PodTemplate", "PodTemplateList", "ReplicationController", "ResourceQuota", "Secret", "ServiceAccount",
            "ServiceAccountList", "Status", "NodeList", "PodList", "NamespaceList", "Config", "Template",
        )),
        ("apps/v1", "ControllerRevision"), ("apps/v1", "StatefulSetList"), ("batch/v1", "CronJob"), ("batch/v1", "JobList"),
        ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"), ("serving.knative.dev/v1", "Service"),
        ("example.org/v1", "Servcie"), ("kustomize.config.k8s.io/v1beta1", "Kustomization"), ("v1", "x" * 1_000_000),
    ],
)  # fmt: skip
def test_kinds_that_others_read(api_version: str, kind: str) -> None:
    assert list(check_object(kind, api_version, kind, None)) == []


def test_who_wrote_it() -> None:
    assert is_written_by_hand({"name": "a"})
    assert is_written_by_hand(None)
    assert not is_written_by_hand({"resourceVersion": "5"})


# The fields of the kinds that hsdns reads.


Definitions = dict[str, dict[str, Any]]
WORKLOADS: Final = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job")
READ: Final = [(group, kind) for group, kind in KINDS if kind != "ServiceImport"]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        pytest.param("Service", {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {}, "status": {}}, [], id="nothing unknown"),
        pytest.param("Service", {"specs": {}}, [("", "specs")], id="of the object"),
        pytest.param("Service", {"spec": {"selektor": {"app": "web"}, "selector": {"selektor": "a"}}}, [("spec", "selektor")], id="of the spec, but not of a map"),
        pytest.param("Service", {"spec": {"ports": [{"port": 80}, {"prot": 80, "nmae": "a"}]}}, [("spec.ports[1]", "prot"), ("spec.ports[1]", "nmae")], id="of an item"),
        pytest.param("Pod", {"spec": {"containers": [{"port": []}], "volumes": [{"anything": 1}]}}, [("spec.containers[0]", "port")], id="not inside of types that DNS does not use"),
        pytest.param("StatefulSet", {"spec": {"template": {"metadata": {"label": {}}}}}, [("spec.template.metadata", "label")], id="of a template"),
        pytest.param("Service", {"spec": [], "metadata": None}, [], id="other types"),
        pytest.param("Service", "text", [], id="no object"),
    ],
)  # fmt: skip
def test_unknown_fields(kind: str, value: object, found: list[tuple[str, str]]) -> None:
    assert [(each.parent, each.name) for each in unknown_fields(kind, value)] == found


def test_types_that_are_followed_are_listed() -> None:
    assert {inner for fields in FIELDS.values() for inner in fields.values() if inner} <= {*FIELDS}
    assert {kind for _, kind in READ} <= {*FIELDS}


@pytest.mark.parametrize(("group", "kind"), READ)
def test_what_is_decoded_is_checked(group: str, kind: str) -> None:
    """Each field that hsdns reads is in the table, with a type if it has fields of its own."""
    checked = []
    for path, name, struct, known in decoded(KINDS[group, kind], kind, ""):
        if struct is WorkloadSpec and name not in known:
            continue  # a field of another workload
        checked.append(f"{path}.{name}")
        assert name in known, path
    assert ".metadata" in checked
    if kind in WORKLOADS:
        assert ".spec.template.spec.containers.ports.containerPort" in checked


def decoded(struct: Any, listed: str, path: str) -> Iterator[tuple[str, str, Any, dict[str, str]]]:
    """Yield the fields of a struct and those below it, with the fields of the API's type."""
    known = FIELDS[listed]
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        yield path, name, struct, known
        for inner in structs_in(msgspec.inspect.type_info(field.type)):
            if name in known:
                assert known[name], f"{path}.{name} has fields, but its type is not listed"
                yield from decoded(inner, known[name], f"{path}.{name}")


def structs_in(info: msgspec.inspect.Type) -> Iterator[Any]:
    if isinstance(info, msgspec.inspect.StructType):
        yield info.cls
    elif isinstance(info, msgspec.inspect.ListType):
        yield from structs_in(info.item_type)
    elif isinstance(info, msgspec.inspect.UnionType):
        for each in info.types:
            yield from structs_in(each)


@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "there is an API server")
def test_every_field_of_an_api_server_is_known() -> None:
    """As long as its version is not newer than that of the table."""
    with RealApi() as api:
        status, found = api.ask("GET", "/openapi/v2")
        _, version = api.ask("GET", "/version")
    assert status == 200
    if int(version["minor"].rstrip("+")) <= int(VERSION.partition(".")[2]):
        assert not_listed(found["definitions"]) == []


def not_listed(definitions: Definitions) -> list[str]:
    """The fields of an OpenAPI document that the table lacks."""
    kinds = {
        (each["group"], each["kind"], each["version"]): name
        for name, definition in definitions.items()
        for each in definition.get("x-kubernetes-group-version-kind", ())
    }
    return [
        missing
        for group, kind in READ
        for missing in _not_listed(definitions, kinds[group, kind, "v1"], kind)
    ]


def _not_listed(definitions: Definitions, name: str, listed: str) -> Iterator[str]:
    for field, schema in definitions[name].get("properties", {}).items():
        inner = FIELDS[listed].get(field)
        if inner is None:
            yield f"{listed}.{field}"
        elif inner:
            target = (schema.get("items") or schema)["$ref"].rpartition("/")[2]
            yield from _not_listed(definitions, target, inner)
