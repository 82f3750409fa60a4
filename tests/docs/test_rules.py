"""The pages of the rules on the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import Files

from docs.hooks.rules import on_config, on_files, table
from hsdns.rules.rule import rules

ROOT = Path(__file__).resolve().parents[2]


def test_the_hook_adds_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(str(ROOT / "mkdocs.yml"))
    monkeypatch.setattr(
        config.plugins, "_current_plugin", None, raising=False
    )  # as while it builds
    (door,) = (each for each in on_config(config).nav or () if "Reference" in each)
    (group,) = (each for each in door["Reference"] if "Rules" in each)
    assert group["Rules"][1:] == [{code: f"rules/{code}.md"} for code in rules()]
    found = list(on_files(Files([]), config=config))
    assert [each.src_uri for each in found] == [f"rules/{code}.md" for code in rules()]
    assert next(iter(rules().values())).text in found[0].content_string
    assert re.findall(r"\((rules/HS\d+\.md)\)", table()) == [each.src_uri for each in found]
