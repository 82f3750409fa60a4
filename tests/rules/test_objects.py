"""Which objects belong to each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hsdns.causes.labels import is_misspelt, is_slip
from hsdns.corefile.tree import Position
from hsdns.rules.judging import judge, read_files
from hsdns.rules.objects import Manifest, Objects
from hsdns.rules.rule import Edit
from hsdns.rules.silence import repaired
from hsdns.sources.manifest_file import read_objects
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

FILE = b"""
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: a}, spec: {clusterIP: None, selector: {app: db}}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: b}, spec: {selector: {app: db}}}
---
{apiVersion: v1, kind: Service, metadata: {name: db-0, namespace: a}, spec: {selector: {statefulset.kubernetes.io/pod-name: db-0}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: a}, spec: {replicas: 3, template: {metadata: {labels: {app: db}}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: dump}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: dump}}}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: b, labels: {app: db}}}
"""


@pytest.fixture
def objects() -> Objects:
    return read_files([("a.yaml", FILE)]).objects


@pytest.mark.parametrize(
    ("number", "selector", "chosen"),
    [
        (0, {"app": "db"}, ["StatefulSet a/db"]),
        (1, {"app": "db"}, ["Pod b/one"]),
        (1, {"app": "dump"}, ["CronJob dump"]),
        (0, {"statefulset.kubernetes.io/pod-name": "db-0"}, ["StatefulSet a/db", "CronJob dump"]),
        (0, {"app": "db", "role": "x"}, []),
        (0, {}, []),
    ],
)
def test_pods_that_a_selector_chooses(
    objects: Objects, number: int, selector: dict[str, str], chosen: list[str]
) -> None:
    manifest, _ = objects.services[number]
    assert [str(each.manifest) for each in objects.selected(manifest, selector)] == chosen


# Objects with the places of their fields.


YAML = b"""# a comment
apiVersion: v1
kind: Service
metadata:
  name: db
  namespace: shop
  annotations: {a.b/c: "1", "d": 2}
spec:
  type: ExternalName
  externalName: "db.example.com"
---
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
   "spec": {"ports": [{"port": 80}]}}]}
"""
JSON = b"""{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
   "spec": {"ports": [{"port": 80}]}}]}
"""


def manifests(content: bytes, file: str = "a.yaml") -> list[Manifest]:
    return [Manifest(each, file, content) for each in read_objects(content, file)]


def test_an_edit_replaces_a_word_with_its_quotes() -> None:
    db, _ = manifests(YAML)
    start, end = Position("a.yaml", 10, 17), Position("a.yaml", 10, 33)
    assert db.replaced("spec.externalName", "db") == Edit(start, end, '"db"')
    assert db.replaced("spec.ports", "db") is None


def test_an_edit_of_json_is_json() -> None:
    content = JSON.replace(b'"ports": [{"port": 80}]', b'"externalName": "A"')
    (web,) = manifests(content, "a.json")
    edit = web.replaced("spec.externalName", "a")
    assert edit is not None
    assert json.loads(repaired(content.decode(), [edit]))["items"][0]["spec"] == {
        "externalName": "a"
    }


# Corefiles of their own, and in ConfigMaps.


UNREADABLE = (
    '. {\n  mine "a  b"\n  cache { it\'s }\n\n  kubernetes a {\n    ttll 3\n    bär\n  }\n}\n'
)
MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "coredns"},
    "data": {"Corefile": UNREADABLE},
}
LIST = {"apiVersion": "v1", "kind": "List", "items": [MAP]}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(json.dumps(MAP), id="json"),
        pytest.param("\ufeff" + json.dumps(LIST, ensure_ascii=False, indent=4), id="list"),
        *(
            pytest.param(
                yaml.safe_dump(LIST, default_style=style, width=width, allow_unicode=is_plain),
                id=f"yaml-{style}-{width}-{is_plain}",
            )
            for style in ("", "'", '"', ">", "|")
            for width in (20, 200)
            for is_plain in (True, False)
        ),
    ],
)
def test_what_a_corefile_has_wrong_is_where_its_words_are(written: str) -> None:
    found = judge(read_files([("a.yaml", written.encode())]).objects, preview=True).findings
    lines = written.removeprefix("\ufeff").split("\n")
    places = [each.at for each in found if each.rule.code == "HS201"]
    words = [lines[at.line - 1][at.column - 1 :] for at in places]
    starts = ("mine", "it", "ttll", "b")
    assert len(words) == len(starts), words
    assert all(map(str.startswith, words, starts)), words


@pytest.mark.parametrize(("words", "found"), columns(TABLES, "misspelt words"))
def test_misspelt(words: str, found: str) -> None:
    assert is_misspelt(*words.split()) is (found != "no")
    assert is_slip(*words.split()) is (found == "surely")
