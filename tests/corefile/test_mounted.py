"""The files beside a Corefile of a ConfigMap, as the volumes of a Pod have them."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.corefile.lexer import Source
from hsdns.corefile.mounted import ConfigMap, corefiles
from hsdns.corefile.parser import parse

MAIN = ConfigMap(
    "a", "dns", {key: Source("", f"dns[{key}]") for key in ("Corefile", "x.conf", "y.conf")}
)
CUSTOM = ConfigMap(
    "a", "custom", {key: Source("", f"custom[{key}]") for key in ("x.conf", "z.conf", "no")}
)


def mount(path: str, name: str = "custom", **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


@pytest.mark.parametrize(
    ("mounts", "pattern", "found"),
    [
        ([mount("/etc", "dns")], "*.conf", ["dns[x.conf]", "dns[y.conf]"]),
        ([mount("/etc", "dns"), mount("/etc/own")], "*.conf", ["dns[x.conf]", "dns[y.conf]"]),
        ([mount("/etc", "dns"), mount("/etc/own")], "own/*.conf", ["custom[x.conf]", "custom[z.conf]"]),
        ([mount("/etc", "dns"), mount("/etc/own")], "/etc/*/x.conf", ["custom[x.conf]"]),
        ([mount("/etc", "dns"), mount("/opt")], "own/*.conf", []),
        ([mount("/etc/Corefile", "dns", subPath="Corefile"), mount("/etc/own")], "*.conf", []),
        ([mount("/etc/Corefile", "dns", subPath="Corefile"), mount("/etc/q.conf", subPath="z.conf")], "*.conf", ["custom[z.conf]"]),
        ([mount("/etc/own")], "any/*.conf", ["dns[x.conf]", "dns[y.conf]", "custom[z.conf]"]),
    ],
)  # fmt: skip
def test_files_of_a_glob(mounts: list[dict[str, Any]], pattern: str, found: list[str]) -> None:
    volumes = [{"name": each, "configMap": {"name": each}} for each in ("dns", "custom")]
    pod = {"containers": [{"volumeMounts": mounts}], "volumes": volumes}
    (mounted,) = corefiles([MAIN, CUSTOM], [("a", pod)])
    sources = [mounted.open_file(path) for path in mounted.list_files(pattern)]
    assert [each.file for each in sources if isinstance(each, Source)] == found
    assert (pattern in mounted.unknown) == (not found)


def test_an_import_in_an_imported_file() -> None:
    """It is relative to that file, where the Pod has it."""
    texts = {
        "dns": {"Corefile": "import own/x.conf"},
        "custom": {"x.conf": "import z.conf", "z.conf": ".:53 {\n whoami\n}"},
    }
    maps = [
        ConfigMap("a", name, {key: Source(text, "a.yaml") for key, text in values.items()})
        for name, values in texts.items()
    ]
    volumes = [{"name": each, "configMap": {"name": each}} for each in texts]
    mounts = [mount("/etc", "dns"), mount("/etc/own")]
    pod = {"containers": [{"volumeMounts": mounts}], "volumes": volumes}
    (mounted,) = corefiles(maps, [("a", pod)])
    parsed = parse(
        "a.yaml", text=mounted.source, environ={}, known_directives=["whoami"], files=mounted
    )
    assert [key.text for block in parsed.blocks for key in block.keys] == [".:53"]
