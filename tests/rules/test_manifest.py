"""Objects with the places of their fields."""

from __future__ import annotations

import json

from hsdns.corefile.tree import Position
from hsdns.rules.objects import Manifest
from hsdns.rules.rule import Edit
from hsdns.rules.silence import repaired
from hsdns.sources.manifest_file import read_objects

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


def test_places_in_json() -> None:
    (web,) = manifests(JSON, "a.json")
    assert web.at("spec.ports[0].port") == Position("a.json", 3, 32)
    assert web.content["spec"] == {"ports": [{"port": 80}]}


def test_places_in_the_first_line_of_an_object() -> None:
    (web,) = manifests(JSON.replace(b"\n", b""), "a.json")
    at = web.at("metadata.name")
    assert JSON.replace(b"\n", b"")[at.column - 1 :].startswith(b'"web"')


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
