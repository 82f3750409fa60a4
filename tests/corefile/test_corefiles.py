"""Corefiles with their imports, and the words in them; corefiles.txt and words.txt have the cases."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.lexer import (
    MAX_FILE_IMPORTS,
    MAX_SNIPPET_IMPORTS,
    MAX_WORDS,
    Lexeme,
    Source,
    substitute,
    tokenize,
)
from hsdns.corefile.parser import DISK, parse
from hsdns.corefile.properties import (
    Property,
    choice,
    compile_pattern,
    duration,
    flag,
    integer,
    many,
    no_arguments,
    no_body,
    number,
    one,
    optional,
    read_properties,
    text,
)
from hsdns.corefile.tree import Corefile, CorefileError, Directive, Position, ServerBlock
from tests.support.disk import Disk
from tests.support.tables import Row, columns, rows

HERE = Path(__file__).parent
KNOWN = ("cache", "errors", "forward", "health", "hosts", "kubernetes", "log", "whoami")
NOT_YET = {"etcd": "REASON", "rewrite": "REASON"}
ENVIRON = {
    "ZONE": "example.org", "PORT": "5353", "OPEN": "{", "CLOSE": "}", "IMPORT": "import", "NAME": "log", "S": "s", "DIR": "conf",
}  # fmt: skip


def read(text: str, disk: Disk | None = None, path: str = "Corefile") -> Corefile:
    disk = disk or Disk({})
    return parse(
        path, text=text, environ=ENVIRON, known_directives=KNOWN, not_yet=NOT_YET, files=disk
    )


def outline(blocks: Sequence[ServerBlock]) -> list[str]:
    """Format a tree with one line per block: `key key: word word {prop arg; prop}| word`."""
    return [
        " ".join(token.text for token in block.keys)
        + ":"
        + "|".join(
            " "
            + " ".join(token.text for token in (directive.name, *directive.args))
            + (
                ""
                if directive.body is None
                else " {"
                + "; ".join(
                    " ".join(token.text for token in (line.name, *line.args))
                    for line in directive.body
                )
                + "}"
            )
            for directive in block.directives
        )
        for block in blocks
    ]


@pytest.mark.parametrize("row", rows(HERE / "corefiles.txt"))
def test_corefiles(row: Row) -> None:
    text, *files = re.split(r"(?:^|\n)-- (.*)\n", row.given)
    try:
        corefile = read(text, Disk(dict(zip(files[::2], files[1::2], strict=True))))
        found = [*outline(corefile.blocks), *(f"? {warning}" for warning in corefile.warnings)]
    except CorefileError as error:
        found = [f"! {error}"]
    peer = [line for line in row.expected if line.startswith("CoreDNS 1.14.7: ")]
    assert found == row.expected[: len(row.expected) - len(peer)]
    # Where hsdns refuses on purpose what CoreDNS takes, the line says so, and docs/corefile.md too.
    for line in peer:
        assert line.endswith(": starts") is not any(each.startswith("! ") for each in found)


def test_every_node_has_its_position() -> None:
    (block,) = read('a,\n b {\n  hosts x {\n   ttl "5"\n  }\n}\n').blocks
    (hosts,) = block.directives
    (ttl,) = hosts.lines
    places = [*block.keys, hosts.name, *hosts.args, ttl.name, *ttl.args]
    assert [f"{token.position} {token.text}" for token in places] == [
        "Corefile:1:1 a",
        "Corefile:2:2 b",
        "Corefile:3:3 hosts",
        "Corefile:3:9 x",
        "Corefile:4:4 ttl",
        "Corefile:4:8 5",
    ]
    assert [token.quoted for token in places] == [False, False, False, False, False, True]


def test_files_are_listed_folder_by_folder(tmp_path: Path) -> None:
    for name in ("a-b/x", "a/y", "a/x", "b/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = DISK.list_files(f"{tmp_path}/*/?")
    assert [path.removeprefix(f"{tmp_path}/") for path in found] == ["a/x", "a/y", "a-b/x", "b/x"]


def test_a_glob_without_files_is_a_warning() -> None:
    corefile = read("import zones/*\n. {\n log\n}\n", path="conf/Corefile")
    assert outline(corefile.blocks) == [".: log"]
    assert corefile.warnings == (
        'conf/Corefile:1:8: no file matches import pattern "zones/*" (looked for conf/zones/*)',
    )


def test_a_file_is_read_once() -> None:
    disk = Disk({"f": "log"})
    read("a {\n import f\n}\nb {\n import f\n}\n", disk)
    assert disk.opened == ["f"]


@pytest.mark.parametrize("row", rows(HERE / "digests.txt"))
def test_digest(row: Row) -> None:
    base = read("a, b {\n hosts x {\n  ttl 5\n }\n}\n").digest
    assert len(base) == 128
    assert (read(row.given).digest == base) is (row.expected == ["the same"])


@pytest.mark.parametrize("row", rows(HERE / "words.txt"))
def test_words(row: Row) -> None:
    assert [lexeme.text for lexeme in tokenize(Source(row.given, "Corefile"))] == row.expected


ANY_TEXT = st.text(st.sampled_from('ab"\\#{}\n\r\t \u2003\ufeff') | st.characters(), max_size=60)


def one_by_one(text: str) -> list[tuple[str, int]]:
    """Split a text character by character, directly by the rules."""
    words: list[tuple[str, int]] = []
    word, line, start = "", 1, 1
    mode = "gap"  # gap, comment, word, hidden, quote, escape
    for char in text.removeprefix("\ufeff"):
        space = (
            char in "\t\n\v\f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
            or "\u2000" <= char <= "\u200a"
        )
        if mode == "quote":
            if char == '"':
                words.append((word, start))
                mode = "gap"
            elif char == "\\":
                mode = "escape"
            else:
                word += char
        elif mode == "escape":
            word += char if char == '"' else "\\" + char
            mode = "quote"
        elif mode == "comment":
            mode = "gap" if char == "\n" else mode
        elif char == "\r":
            pass
        elif space:
            if mode in ("word", "hidden"):
                words.append((word, start))
            mode = "gap"
        elif mode == "hidden":
            pass
        elif char == "#":
            mode = "comment" if mode == "gap" else "hidden"
        elif mode == "gap":
            word, start, mode = ("", line, "quote") if char == '"' else (char, line, "word")
        else:
            word += char
        line += char == "\n"
    if mode in ("word", "hidden") or (mode in ("quote", "escape") and word):
        words.append((word, start))
    return words


@given(ANY_TEXT)
def test_agrees_with_reading_one_character_at_a_time(text: str) -> None:
    words = tokenize(Source(text, "Corefile"))
    assert [(word.text, word.position.line) for word in words] == one_by_one(text)


VALUES = {
    "PORT": "5353", "HOST": "example.org", "TWO": "a b", "INDIRECT": "{$PORT}", "WINDOWS": "{%PORT%}", "A B": "spaced",
    "SELF": "x{$SELF}", "DOUBLE": "{$DOUBLE}{$DOUBLE}",
}  # fmt: skip


def lexeme(text: str) -> Lexeme:
    return Lexeme(text, Position("Corefile", 3, 7), quoted=True, starts_line=False)


@pytest.mark.parametrize(("text", "expected"), columns(HERE / "keys.txt", "environment"))
def test_substitute(text: str, expected: str) -> None:
    token = substitute(lexeme(text), VALUES)
    assert (token.text, token.position, token.quoted) == (expected, lexeme("").position, True)


@pytest.mark.parametrize("name", ["SELF", "DOUBLE"])
def test_a_variable_that_refers_to_itself_is_an_error(name: str) -> None:
    with pytest.raises(CorefileError) as caught:
        substitute(lexeme(f"{{${name}}}"), VALUES)
    assert str(caught.value) == (
        f'Corefile:3:7: cannot expand "{{${name}}}": the value of an environment variable refers to itself'
    )


def chain(word: str, depth: int, width: int) -> str:
    """Snippets that each import the previous one several times, which gives width ** depth words."""
    text = f"(s0) {{\n {word}\n}}\n"
    for level in range(1, depth + 1):
        text += f"(s{level}) {{\n" + f" import s{level - 1}\n" * width + "}\n"
    return text + f". {{\n import s{depth}\n}}\n"


@pytest.mark.parametrize(
    ("text", "files", "end"),
    [
        pytest.param(
            chain("log", 5, 10),
            {},
            f"more than {MAX_SNIPPET_IMPORTS} imports of snippets; do they import each other?",
            id="snippets",
        ),
        pytest.param(
            chain("log" + " x" * 1000, 4, 8),
            {},
            f"the Corefile and its imports have more than {MAX_WORDS} words",
            id="words",
        ),
        pytest.param(
            "import a\n",
            {"a": "import b\n" * 50, "b": "import c\n" * 50, "c": "import d\n" * 50, "d": ""},
            f"more than {MAX_FILE_IMPORTS} imports of files; do they import each other?",
            id="files",
        ),
    ],
)
def test_imports_are_bounded(text: str, files: Mapping[str, str], end: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read(text, Disk(files))
    assert caught.value.message == end


PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b,",
            "log",
            "hosts x",
            "{",
            "}",
            "import s",
            "import f",
            "import t",
            "import g*",
            "import",
            "(s) {",
            "(t) {",
            "}\n",
            "{\n",
            "\n",
            "\n",
            "# c",
            "#c",
            '"',
            '""',
            '"q r"',
            "{$ZONE}",
            "{$OPEN}",
            "10.0.0.0/9",
        ]
    ),
    max_size=30,
).map(" ".join)


@given(PIECES | st.text(max_size=40))
def test_any_text_gives_a_tree_or_an_error_with_its_position(text: str) -> None:
    files = {"f": "log\nimport g", "g": "errors\n", "g2": "import f", "Corefile": text}

    try:
        corefile = parse("Corefile", environ=ENVIRON, known_directives=KNOWN, files=Disk(files))
    except CorefileError as caught:
        error = caught
    else:
        words = [
            token
            for block in corefile.blocks
            for directive in block.directives
            for token in (directive.name, *directive.args)
        ]
        assert all(token.position.file in files for token in words)
        assert all(block.keys for block in corefile.blocks)
        return
    assert error.position.file in files
    assert error.message[0] not in string.ascii_uppercase
    assert not error.message.endswith(".")


# Readers of properties, and patterns.


def directives(body: str) -> tuple[Directive, ...]:
    """Read `body` as that of a server block, its first directive on line 2."""
    return (
        parse("Corefile", text=f". {{\n{body}\n}}\n", environ={}, known_directives=("plug",))
        .blocks[0]
        .directives
    )


TABLE: dict[str, Property[Any]] = {
    "ttl": Property(one(integer(0, 3600)), default=5),
    "once": Property(one(text), repeat="once"),
    "zone": Property(many(text, 1, 2), repeat="collect"),
    "on": Property(flag, default=False),
    "wait": Property(optional(duration(), 1.0)),
    "head": Property(one(integer(0)), reads=1),
}


DEFAULTS: dict[str, Any] = {
    "ttl": 5,
    "once": None,
    "zone": [],
    "on": False,
    "wait": None,
    "head": None,
}


@pytest.mark.parametrize("row", rows(HERE / "properties.txt"))
def test_read_properties(row: Row) -> None:
    """The values that are not the defaults, or an error."""
    try:
        values = read_properties(directives(row.given), TABLE, not_yet=("later",))
        found = repr({name: each for name, each in values.items() if each != DEFAULTS[name]})
        assert values.keys() == DEFAULTS.keys()
    except CorefileError as error:
        found = f"! {error}".replace("Corefile:", "")
    assert [found] == row.expected


@pytest.mark.parametrize(("given", "expected"), columns(HERE / "readers.txt", "readers"))
def test_readers(given: str, expected: str) -> None:
    name, *args = given.partition(" | ")[0].split()
    word = given.partition(" | ")[2]
    make: dict[str, Callable[..., Any]] = {
        "integer": integer, "number": number, "duration": duration, "choice": choice, "text": lambda: text,
    }  # fmt: skip
    read = make[name](*(args if name == "choice" else map(int, args)))
    (directive,) = directives(f'plug "{word}"')
    try:
        found = read(directive.args[0])
    except CorefileError as error:
        found = error.message
    assert repr(found) == expected


@pytest.mark.parametrize(
    ("check", "body", "message"),
    [
        pytest.param(
            no_arguments,
            "plug a",
            'Corefile:2:6: "plug" takes no argument, found "a"',
            id="argument",
        ),
        pytest.param(
            no_body,
            "plug {\n ttl 5\n}",
            'Corefile:3:2: "plug" has no properties, found "ttl"',
            id="body",
        ),
    ],
)
def test_refused_parts(check: Callable[[Directive], None], body: str, message: str) -> None:
    check(*directives("plug"))
    with pytest.raises(CorefileError) as caught:
        check(*directives(body))
    assert str(caught.value) == message


def test_time_grows_with_the_text_alone() -> None:
    assert compile_pattern("(a*)*b").search("a" * 50_000) is None


@pytest.mark.parametrize(("pattern", "reason"), columns(HERE / "readers.txt", "patterns"))
def test_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|expression") as caught:
        compile_pattern(pattern)
    assert str(caught.value) == reason
