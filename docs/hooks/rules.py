"""Puts the rules into the site: a table on their page, and a page of each, which `hsdns rule` shows too.

Path: mkdocs.yml -> here -> hsdns/rules/rule.py, hsdns/rules/pages/.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hsdns.rules.rule import rules

PAGES = Path(__file__).resolve().parents[2] / "hsdns" / "rules" / "pages"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages to the navigation, below the list of rules."""
    pages = [{_code(page): f"rules/{_code(page)}.md"} for page in sorted(PAGES.glob("*.md"))]
    assert config.nav is not None
    (reference,) = (each["Reference"] for each in config.nav if "Reference" in each)
    at = reference.index({"Rules": "rules.md"})
    reference[at] = {"Rules": ["rules.md", *pages]}
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages to the files of the site."""
    for page in sorted(PAGES.glob("*.md")):
        # The link to the list is the only one of a page.
        content = page.read_text() + "\n[All rules](../rules.md)\n"
        files.append(File.generated(config, f"rules/{_code(page)}.md", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add the table to the page of all rules."""
    return markdown + table() if page.file.src_uri == "rules.md" else markdown


def table() -> str:
    """A row for each rule."""
    lines = ["| rule | level | found | `--fix` |", "|---|---|---|---|"]
    for rule in rules().values():
        level = f"{rule.level}, preview" if rule.is_preview else rule.level
        fixed = "yes" if rule.is_repaired else ""
        lines.append(f"| [{rule.code}](rules/{rule.code}.md) | {level} | {rule.title} | {fixed} |")
    return "\n" + "\n".join(lines) + "\n"


def _code(page: Path) -> str:
    return page.name.partition("-")[0]
