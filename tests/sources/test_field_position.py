"""Lines of fields, in YAML and JSON."""

from __future__ import annotations

import json

import pytest
import yaml

from hsdns.sources.manifest_yaml import field_line, json_node, key_line

TEXT = """\
kind: Service
metadata:
  labels:
    app.kubernetes.io/name: web
    a/b: 1
spec:
  ports:
  - name: http
    port: 80
  - {name: dns,
     port: 53}
  base: &base
    type: x
  copy:
    <<: *base
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        pytest.param("kind", 1, id="top"),
        pytest.param("spec.ports[0].port", 9, id="list item"),
        pytest.param("spec.ports[1].port", 11, id="flow style"),
        pytest.param("spec.ports[1]", 10, id="whole item"),
        pytest.param("metadata.labels[app.kubernetes.io/name]", 4, id="key with dots"),
        pytest.param("metadata.labels", 5, id="the label that is no text"),
        pytest.param("spec.ports[0].targetPort", 8, id="absent field"),
        pytest.param("spec.ports[7].port", 8, id="absent item"),
        pytest.param("status.phase", 1, id="absent parent"),
        pytest.param("kind.of.nothing", 1, id="below a scalar"),
    ],
)
def test_line(field: str, line: int) -> None:
    assert field_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), field) == line


@pytest.mark.parametrize(
    ("parent", "key", "line"),
    [
        pytest.param("", "spec", 6, id="top, whose value is in the next line"),
        pytest.param("spec", "ports", 7, id="one level below"),
        pytest.param("spec.ports[1]", "port", 11, id="list item"),
        pytest.param("spec", "absent", 1, id="absent key"),
        pytest.param("absent[0].parent", "key", 1, id="absent parent"),
    ],
)
def test_line_of_a_key(parent: str, key: str, line: int) -> None:
    assert key_line(yaml.compose(TEXT, Loader=yaml.SafeLoader), parent, key) == line


def test_json() -> None:
    text = json.dumps({"spec": {"ports": [{"port": 80}]}}, indent=1).encode()
    assert field_line(json_node(text), "spec.ports[0].port") == 5
    assert json_node(b"{") is None
