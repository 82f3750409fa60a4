"""Words: names use those of the glossary, and tests hold the sentences that the program can say."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hsdns"
GLOSSARY = ROOT / "docs" / "contributing" / "glossary.md"
# `HTTPServer` -> HTTP, Server; `ipv4_of` -> ipv, 4, of.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words that hide which part acts; no row of the glossary is about them.
WITHOUT_ACTOR = ("whoever", "nobody")

SENTENCE = re.compile(r"[A-Za-z,;:'-]+(?: [A-Za-z,;:'-]+){3,}")
GOLDEN = {".md", ".txt", ".json", ".yaml"}
# How many pieces of sentences no test holds. The number may only fall.
MOST_LOOSE = 850

Words = tuple[str, ...]


class Identifier(NamedTuple):
    path: str
    line: int
    text: str


def words_of(identifier: str) -> Words:
    """The words of a snake_case or CamelCase name, in lower case."""
    return tuple(word.lower() for word in WORD.findall(identifier))


def rejected(glossary: str) -> dict[Words, str]:
    """What the last column of the tables rejects, as words, and the word to use for each."""
    found: dict[Words, str] = {(word,): "the part that acts" for word in WITHOUT_ACTOR}
    inside = False
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if cells == ["word", "meaning", "not so"]:
            inside = True
        elif not cells:
            inside = False
        elif inside and not line.startswith("| ---"):
            use, _, entries = cells
            for entry in filter(None, re.split(r",\s*", entries)):
                words = tuple(entry.lower().split())
                assert words not in found, f'two rows of the glossary reject "{entry}"'
                found[words] = use
    return found


def violations(identifiers: Sequence[Identifier], glossary: str) -> list[str]:
    """A line for each identifier that has a rejected word, or several of them in a row."""
    lines = []
    entries = rejected(glossary)
    lengths = {len(entry) for entry in entries}
    for path, line, text in identifiers:
        words = words_of(text)
        rows = [words[at : at + length] for at in range(len(words)) for length in lengths]
        lines += [
            f'{path}:{line} {text}: not "{" ".join(entry)}" -> use {entries[entry]}'
            for entry in dict.fromkeys(row for row in rows if row in entries)
        ]
    return lines


def identifiers_of(path: Path) -> Iterator[Identifier]:
    """The module's own name, and those of its classes, functions and methods."""
    name = path.relative_to(ROOT).as_posix()
    yield Identifier(name, 1, path.parent.name if path.stem == "__init__" else path.stem)
    nodes: list[ast.AST] = [ast.parse(path.read_text(), name)]
    for node in nodes:
        # No expression has a definition in it, and most nodes are in expressions.
        nodes += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Identifier(name, node.lineno, node.name)


def test_names_use_the_words_of_the_glossary() -> None:
    modules = sorted(path for end in ("py", "pyi") for path in PACKAGE.rglob(f"*.{end}"))
    identifiers = [found for path in modules for found in identifiers_of(path)]
    found = violations(identifiers, GLOSSARY.read_text())
    assert not found, "names that docs/contributing/glossary.md rejects:\n" + "\n".join(found)


# --- the sentences that the program can say ---


def strings_of(path: Path) -> Iterator[str]:
    """The literal strings of a module without its docstrings, with single spaces."""
    tree = ast.parse(path.read_text(), str(path))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield " ".join(str(node.value).split())


def test_sentences_that_no_test_holds_only_get_fewer() -> None:
    """A piece of four words or more is held where a test, or a file that tests read, has it."""
    texts = [path for path in (ROOT / "tests").rglob("*") if path.suffix in GOLDEN]
    held = [" ".join(path.read_text().split()) for path in [*texts, *(ROOT / "docs").rglob("*.md")]]
    for path in (ROOT / "tests").rglob("*.py"):
        held += strings_of(path)
    said = {
        f"{path.relative_to(PACKAGE).as_posix()}: {piece}": piece
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in strings_of(path)
        for piece in SENTENCE.findall(text)
    }
    known = "\n".join(held)
    loose = [line for line, piece in said.items() if piece not in known]
    assert len(loose) <= MOST_LOOSE, "\n".join(["no test holds:", *loose])
