"""Which files of a folder are settings of other programs."""

import pytest

from hsdns.sources.manifest_folder import settings_remark

LEFT_OUT = (
    "app/a.json: it is neither JSON nor a manifest, which says its apiVersion; it is left out"
)
COMMENT = b'{"strict": true /* always */}'


@pytest.mark.parametrize(
    ("content", "path", "paths", "remark"),
    [
        pytest.param(COMMENT, "app/a.json", ["app"], LEFT_OUT, id="a comment"),
        pytest.param(b'{"a": 1,}', "app/a.json", ["app"], LEFT_OUT, id="a comma at the end"),
        pytest.param(b"\xff\xfe{", "app/a.json", ["app"], LEFT_OUT, id="not UTF-8"),
        pytest.param(COMMENT, "app/a.json", ["app/a.json", "app"], "", id="named"),
        pytest.param(COMMENT, "app/a.yaml", ["app"], "", id="YAML"),
        pytest.param(b'{"apiVersion": "v1" /* one */}', "app/a.json", ["app"], "", id="a manifest with a fault"),
        pytest.param(b'["a"]', "app/a.json", ["app"], "", id="JSON"),
        pytest.param(b" \n", "app/a.json", ["app"], "", id="empty"),
        pytest.param(b'{"n": ' + b"1" * 5_000 + b"}", "app/a.json", ["app"], "", id="a long number"),
        pytest.param(b"[" * 100_000, "app/a.json", ["app"], "", id="nested deeply"),
    ],
)  # fmt: skip
def test_settings(content: bytes, path: str, paths: list[str], remark: str) -> None:
    assert settings_remark(content, path, paths) == remark
