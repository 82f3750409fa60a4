"""The tree itself: where files are, and that code, tests and documentation name the same things."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns.assemble import plugin_class
from hsdns.plugin import Plugin
from hsdns.plugins import NOT_YET, ORDER

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hsdns"
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
MODULES = sorted(PACKAGE.rglob("*.py"))
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

FORBIDDEN_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

SECTIONS = ["Syntax", "Examples", "Metrics", "Ready", "Differences from CoreDNS", "Limitations"]

METRIC = re.compile(r"(?:coredns|hsdns)_[a-z0-9_]+")
# Made of its parts, or this file would find itself.
MACHINE_WORDS = re.compile(
    "|".join(["/" + "work/", "/opt/" + "peers", r"\.\./" + "shared", "/ro" + "ot/"])
    + "|"
    + "|".join(["py" + r"pi\.org", "crates" + r"\.io", "docs" + r"\.rs"])
)
FOLDERS = "hsdns tests loadtest docs changes requirements deploy .ci .github".split()
TEXTS = {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ".hex", ""}


def under_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def mistakes_of(module: Path) -> Iterator[str]:
    """What is wrong with a module, a sentence each."""
    tree = tree_of(module)
    doc = ast.get_docstring(tree)
    if not doc:
        yield "no docstring says what the module is"
    elif module.name != "__init__.py" and "\nPath: " not in doc:
        yield "the docstring does not say where on the path the module stands"
    printed = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    if printed and not module.is_relative_to(PACKAGE / "cli"):
        yield f"prints in lines {printed}"


def test_modules() -> None:
    found = {under_root(module): list(mistakes_of(module)) for module in MODULES}
    assert {name: mistakes for name, mistakes in found.items() if mistakes} == {}


@pytest.mark.parametrize("folder", [PACKAGE, TESTS], ids=under_root)
def test_names(folder: Path) -> None:
    stems = {path.stem for path in folder.rglob("*") if "__pycache__" not in path.parts}
    assert stems & FORBIDDEN_NAMES == set()


def texts() -> Iterator[Path]:
    for paths in (ROOT.iterdir(), *((ROOT / folder).rglob("*") for folder in FOLDERS)):
        yield from (
            path
            for path in paths
            if path.suffix in TEXTS and path.is_file() and path.name != ".git"
        )


def test_the_tree_speaks_of_itself_alone() -> None:
    found = {under_root(path): MACHINE_WORDS.findall(path.read_text()) for path in texts()}
    assert {name: words for name, words in found.items() if words} == {}


# --- dependencies ---


@pytest.mark.parametrize("pins", sorted((ROOT / "requirements").glob("*.txt")), ids=under_root)
def test_dependencies_are_pinned_with_hashes_and_without_addresses(pins: Path) -> None:
    text = pins.read_text()
    assert "://" not in text
    for requirement in text.replace("\\\n", " ").splitlines():
        assert re.fullmatch(
            r"[a-z0-9-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+", requirement.rstrip()
        )


def test_what_serves_is_pinned_alike_for_tests() -> None:
    names = ("run", "extras", "test")
    texts = [(ROOT / "requirements" / f"{name}.txt").read_text() for name in names]
    run, extras, test = (set(re.findall(r"^\S+==\S+", text, re.MULTILINE)) for text in texts)
    assert run | extras <= test


# --- plugins: one name in four places ---


def test_order_names_every_plugin() -> None:
    folder = PACKAGE / "plugins"
    stems = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert stems & packages == set()
    assert stems | packages == set(ORDER)
    assert len(set(ORDER)) == len(ORDER)
    assert set(ORDER) & set(NOT_YET) == set()


def sections_of(page: Path) -> dict[str, str]:
    """The second-level sections of a page, in order; a `##` within a fenced block is none."""
    sections: dict[str, str] = {}
    title, fence = "", None
    for line in page.read_text().splitlines(keepends=True):
        mark = re.match(r"(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark[1]
        elif fence is not None and line.strip() == fence:
            fence = None
        elif fence is None and line.startswith("## "):
            title = line[3:].strip()
            assert title not in sections, f"{under_root(page)} has two sections {title}"
            sections[title] = ""
            continue
        if title:
            sections[title] += line
    return sections


def first_column(table_title: str, section: str) -> list[str]:
    """The code in the first cell of each row of the table that is headed `table_title`."""
    names: list[str] = []
    inside = False
    for line in section.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == table_title:
            inside = True
        elif inside and (code := re.match(r"`([^`\s]+)[^`]*`", cells[0])):
            names.append(code[1])
    return names


@pytest.mark.parametrize("name", ORDER)
def test_plugin_page(name: str) -> None:
    page = DOCS / "plugins" / f"{name}.md"
    sections = sections_of(page)
    assert re.match(rf"# {name}\n\n[A-Z].+\.\n\n```corefile\b", page.read_text())
    known = [title for title in sections if title in SECTIONS]
    assert known == [title for title in SECTIONS if title in sections]
    assert SECTIONS[4] in sections
    assert [title for title, text in sections.items() if not text.strip()] == []


def test_index_of_plugins() -> None:
    index = DOCS / "plugins" / "index.md"
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (.+?) \|", index.read_text(), re.MULTILINE)
    assert [name for name, page, _ in rows if name == page] == list(ORDER)
    for name, _, purpose in rows:
        assert (DOCS / "plugins" / f"{name}.md").read_text().splitlines()[2] == purpose
    missing = sections_of(index)["Unsupported features"].partition(" are rejected ")[0]
    assert set(re.findall(r"`(\w+)`", missing)) == set(NOT_YET)


@pytest.mark.parametrize("name", ORDER)
def test_plugin_properties_are_those_of_the_page(name: str) -> None:
    documented = first_column(
        "property", sections_of(DOCS / "plugins" / f"{name}.md").get("Syntax", "")
    )
    assert sorted(documented) == sorted(plugin_class(name).PROPERTIES)


def test_navigation_has_every_page() -> None:
    listed = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    for most, pages in (
        (26_900, [ROOT / "README.md", *DOCS.glob("*.md")]),
        (25_000, (DOCS / "plugins").glob("*.md")),
    ):
        assert sum(len(page.read_text().split()) for page in pages) < most


# --- docs/contributing/architecture.md ---


def test_layers_are_those_of_the_import_contract() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    block = "".join(f"{', '.join(layer.split(' | '))}\n" for layer in layers)
    section = sections_of(DOCS / "contributing" / "architecture.md")["Layers"]
    assert f"```text\n{block}```" in section, (
        f"paste this into the section Layers of docs/contributing/architecture.md:\n```text\n{block}```"
    )


def test_methods_of_a_plugin_exist() -> None:
    section = sections_of(DOCS / "contributing" / "architecture.md")["Plugins"]
    rows = re.findall(r"^\| (`[^|]+`) \| [^`]", section, re.MULTILINE)
    methods = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert methods
    assert [name for name in methods if not callable(getattr(Plugin, name, None))] == []


def test_capabilities_of_a_plugin_exist() -> None:
    section = sections_of(DOCS / "contributing" / "architecture.md")["Plugins"]
    rows = re.findall(r"^\| `([\w.]+)\.(\w+)` \| `(\w+)` \|", section, re.MULTILINE)
    assert rows
    for module, protocol, method in rows:
        found = getattr(importlib.import_module(f"hsdns.{module}"), protocol)
        assert callable(vars(found).get(method)), f"{module}.{protocol} has no method {method}"


@pytest.mark.parametrize("page", PAGES, ids=under_root)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`((?:hsdns|native|tests|loadtest|deploy|changes)/[\w/.-]+)`", text)
    if page.name == "architecture.md":
        named += [f"hsdns/{name}" for name in re.findall(r"`([a-z_]+/[\w/.]*)`", text)]
    missing = [
        name
        for name in named
        if "NAME" not in name and "..." not in name and not (ROOT / name).exists()
    ]
    assert not missing, missing


# --- metrics ---


def metrics_in_code() -> set[str]:
    return {
        node.value
        for path in MODULES
        if METRIC.search(path.read_text())  # few have any, and to read a tree takes long
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and METRIC.fullmatch(node.value)
    }


def test_every_metric_is_documented() -> None:
    documented = {name for page in PAGES for name in METRIC.findall(page.read_text())}
    assert metrics_in_code() - documented == set()


def test_every_documented_metric_exists() -> None:
    documented = {
        name
        for page in (DOCS / "plugins").glob("*.md")
        for name in METRIC.findall(sections_of(page).get("Metrics", ""))
    }
    existing = {
        name + part for name in metrics_in_code() for part in ("", "_bucket", "_count", "_sum")
    }
    assert documented - existing == set()


# --- change notes ---


def test_change_note() -> None:
    """The folder is empty after a release."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        kinds = [kind["directory"] for kind in tomllib.load(file)["tool"]["towncrier"]["type"]]
    name = re.compile(rf"\+[a-z0-9-]+\.({'|'.join(kinds)})\.md")
    for note in set((ROOT / "changes").iterdir()) - {ROOT / "changes" / "README.md"}:
        assert name.fullmatch(note.name), note.name
        assert re.fullmatch(r"[a-z0-9/_-]+: [^\n]+\.\n", note.read_text()), note.name
