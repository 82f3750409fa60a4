"""No name in the package uses a word that the glossary lists as "not so"."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hsdns"
GLOSSARY = ROOT / "docs" / "glossary.md"
# `HTTPServer` -> HTTP, Server; `ipv4_of` -> ipv, 4, of.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words that hide which part acts; no row of the glossary is about them.
WITHOUT_ACTOR = ("whoever", "nobody")

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
    assert not found, "names that docs/glossary.md rejects:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("make_reply", ("make", "reply")),
        ("_DoHConnection", ("do", "h", "connection")),
        ("HTTPServer", ("http", "server")),
        ("__init__", ("init",)),
        ("ipv4_of", ("ipv", "4", "of")),
        ("NSEC3", ("nsec", "3")),
    ],
)
def test_words_of_an_identifier(identifier: str, words: Words) -> None:
    assert words_of(identifier) == words


GIVEN = """\
| word | meaning |
| --- | --- |
| zone | plan |

| word | meaning | not so |
| --- | --- | --- |
| drain | To finish. | hand over, heir |
| owner | Of a record. | |
"""


@pytest.mark.parametrize(
    ("identifier", "entry", "use"),
    [
        ("hand_over", "hand over", "drain"),
        ("_HandOverAll", "hand over", "drain"),
        ("HeirOf", "heir", "drain"),
        ("nobody_answers", "nobody", "the part that acts"),
    ],
)
def test_rejected_words_are_found(identifier: str, entry: str, use: str) -> None:
    line = f'a.py:3 {identifier}: not "{entry}" -> use {use}'
    assert violations([Identifier("a.py", 3, identifier)], GIVEN) == [line]


@pytest.mark.parametrize(
    "identifier", ["over_hand", "heirloom", "handover", "plan", "hand_it_over"]
)
def test_other_words_are_not(identifier: str) -> None:
    assert violations([Identifier("a.py", 3, identifier)], GIVEN) == []


def test_glossary_has_words_to_reject() -> None:
    assert len(rejected(GLOSSARY.read_text())) > len(WITHOUT_ACTOR)
